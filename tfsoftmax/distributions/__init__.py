"""Distributions over a vocabulary given a hidden state, as functions of tensors."""

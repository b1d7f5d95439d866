"""Recurrent language models: configuration, training, evaluation, and what a trained one is for."""

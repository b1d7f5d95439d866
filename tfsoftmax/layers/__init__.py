"""Layers that stand before the head: embeddings and recurrent layers."""

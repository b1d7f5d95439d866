"""Layers that come before the head: embeddings, recurrent layers and Transformer blocks."""

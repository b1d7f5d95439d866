"""Layers that stand before the head: embeddings, recurrent layers and Transformer blocks."""

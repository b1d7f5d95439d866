"""Pairs of texts: their corpora, models that turn one text into another, and ROUGE."""

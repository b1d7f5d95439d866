"""Bigrams: counts, models with backoff, their tables, and the word before, carried to heads."""

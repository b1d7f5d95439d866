"""Turns text into corpora of record files, and corpora into batches."""

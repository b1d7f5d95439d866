"""Recurrent language models: configuration, training, evaluation and the use of trained ones."""

"""Text corpora: sources, the two passes that encode them, record files, the input pipeline."""

"""N-best lists of recognisers and translators: reading, rescoring, and word errors. NumPy only."""

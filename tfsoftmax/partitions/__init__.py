"""How a vocabulary is laid out: ranks, cutoffs, classes, trees. NumPy only."""

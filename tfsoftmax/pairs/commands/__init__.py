"""The commands of the `tfsoftmax` program for pairs of texts, one per file."""

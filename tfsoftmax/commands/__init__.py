"""The commands of the `tfsoftmax` program, one per file."""

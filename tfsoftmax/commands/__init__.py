"""The commands of the `tfsoftmax` program, one a file."""

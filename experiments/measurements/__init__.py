"""Programs that measure what no table of runs tells."""

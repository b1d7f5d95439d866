"""The tables and figures of the papers as data: each module has the runs of one experiment."""

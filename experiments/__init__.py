"""The tables and figures of the papers as data, and the programs that run and report them."""

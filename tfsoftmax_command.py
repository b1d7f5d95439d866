"""Starts the `tfsoftmax` program.

A module beside the package, so that `tfsoftmax/__init__.py` can see that a command is starting:
then it imports nothing, and `--help` need not wait for TensorFlow.
"""

import sys


def main(*command):
    """Runs `tfsoftmax COMMAND`, with the flags from the command line."""
    from tfsoftmax.commands import program

    program.main([*command, *sys.argv[1:]])


if __name__ == "__main__":
    # Under its own name, by which the package looks for it.
    import tfsoftmax_command

    tfsoftmax_command.main()

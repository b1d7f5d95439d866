"""Starts the `tfsoftmax` program.

This module stands beside the package. When it has been imported, `tfsoftmax/__init__.py` knows
that a command is starting and imports nothing, so that `--help` need not wait for TensorFlow.
"""

import sys


def main(*command):
    """Runs a command with the flags of the command line, whose first argument may name it."""
    try:
        from tfsoftmax.commands import program
    except ImportError as error:
        if "KERAS_BACKEND" not in str(error):
            raise
        sys.exit(f"error: {error}")
    program.main([*command, *sys.argv[1:]])


if __name__ == "__main__":
    # The package looks for the module under this name, not under `__main__`.
    import tfsoftmax_command

    tfsoftmax_command.main()

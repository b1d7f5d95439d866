"""Runs the commands of a Markdown page and writes below each what it prints.

    make demo && python -m experiments.framework.walkthrough docs/walkthrough.md

A command stands after `$ ` in a block that begins with ```console; a backslash at the end of a line
continues it on the next. Everything else in such a block is replaced by the standard output of the
commands. They run one after another in bash, in the current directory, with the directory of this
Python first in PATH. If a command fails, the program ends, and the page stays as it was.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*\n", re.MULTILINE)
WIDTH = 118


def main(path):
    """Replaces the page."""
    path = Path(path)
    text = path.read_text()
    path.write_text(BLOCK.sub(lambda block: f"```console\n{shown(block[1])}```", text))


def shown(block):
    """The commands of a block, each followed by what it prints."""
    return "\n".join(
        command + output_of(command[2:]) for command in COMMAND.findall(block)
    )


def output_of(command):
    """Runs a command; returns its standard output in lines of at most `WIDTH` characters."""
    print("$", command, end="", flush=True)
    place = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", "set -o pipefail\n" + command], text=True, stdout=subprocess.PIPE,
        env={**os.environ, "PATH": place, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if done.returncode not in (0, 141):  # 141: `head` has seen enough
        sys.exit(f"error: exit status {done.returncode} of {command}")
    lines = done.stdout.rstrip().splitlines()
    return "".join(
        (line if len(line) <= WIDTH else line[: WIDTH - 1] + "…") + "\n" for line in lines
    )


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1])

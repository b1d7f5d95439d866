#!/usr/bin/env python3
"""Runs the commands of a Markdown file and writes what they print below them.

    make demo && python -m experiments.walkthrough README.md

Commands stand behind `$ ` in blocks of ```console, and go on behind a backslash at the end of a
line; what stands between them is replaced by their standard output. They run one after the other in
bash, in the folder that you are in, with this Python first in PATH. A command that fails ends the
program, and the file stays as it was.
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
    path = Path(path)
    text = path.read_text()
    path.write_text(BLOCK.sub(lambda block: f"```console\n{shown(block[1])}```", text))


def shown(block):
    """The block's commands, each with what it prints."""
    return "\n".join(
        command + output_of(command[2:]) for command in COMMAND.findall(block)
    )


def output_of(command):
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

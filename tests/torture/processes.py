"""Starts tools as forks of this process, which has loaded TensorFlow, and lets a fault happen.

The forks are as good as processes of their own as long as this process runs no operation of
TensorFlow. `faults.c` counts what a fork changes in a folder; this process must have been started
with `environment`.
"""

import contextlib
import ctypes
import dataclasses
import errno
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

LIMIT_SECONDS = 180
DAY = 24 * 60 * 60
NOTHING, KILL, STOP, FAIL_ONCE, FAIL_ON, CLOCK = range(6)


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens to a tool at one of its file operations.

    Attributes:
        action: one of the constants above.
        place: the operation, from 1.
        number: the errno with which it fails: once, or from there on.
        folder: the folder, relative to that of the case, whose operations count.
        clock: seconds by which the clock is wrong from the start.
    """

    action: int = NOTHING
    place: int = 0
    number: int = errno.ENOSPC
    folder: str = "."
    clock: int = 0


@functools.cache
def _built():
    folder = tempfile.TemporaryDirectory()
    library = pathlib.Path(folder.name) / "faults.so"
    source = pathlib.Path(__file__).with_name("faults.c")
    line = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(line, check=True)
    return folder, str(library)


def can_fault():
    """Whether this machine can build and load `faults.c`."""
    return sys.platform == "linux" and shutil.which("cc") is not None


def environment():
    """The environment of a process that may use `start`."""
    return {**os.environ, "LD_PRELOAD": _built()[1]}


def start(line, folder, fault=None, stdout=None, aside="aside"):
    """Starts `tfsoftmax` in a fork.

    Args:
        line: the command and its flags.
        folder: the folder of the case.
        fault: a `Fault`.
        stdout: the file for standard output, relative to `folder`; None for one in `aside`.
        aside: the sibling of `folder` for the journal of operations and for standard error.
    """
    sys.stdout.flush()
    aside = folder.with_name(aside)
    aside.mkdir(exist_ok=True)
    for name in ("journal", "stderr"):
        (aside / name).unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = _run(line, folder, fault or Fault(), aside, stdout)
        except BaseException:
            traceback.print_exc()
        finally:  # what this process has registered for its exit is not the fork's to do
            os._exit(code)
    return pid


def wait(pid):
    """How a fork has ended: its exit status, below zero for a signal; "stopped", or "hang"."""
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if found:
            return "stopped" if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hang"


def go_on(pid):
    """Lets a fork that was stopped go on to its end."""
    os.kill(pid, signal.SIGCONT)
    return wait(pid)


def _run(line, folder, fault, aside, stdout):
    printed = folder / stdout if stdout else aside / "stdout"
    for number, path in ((1, printed), (2, aside / "stderr")):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    tempfile.tempdir = str(aside)  # where TensorFlow leaves files when it is killed
    from tfsoftmax.commands import program

    ctypes.CDLL(os.environ["LD_PRELOAD"]).arm(
        os.fsencode((folder / fault.folder).resolve()), fault.action,
        ctypes.c_long(fault.place), fault.number, ctypes.c_long(fault.clock),
        ctypes.c_long(-DAY), os.fsencode(aside / "journal"),
    )
    sys.argv = ["tfsoftmax", *line]
    try:
        program.main(line)
        code = 0
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        with contextlib.suppress(OSError):
            print(code, file=sys.stderr, flush=True)
        return 1
    return code or 0

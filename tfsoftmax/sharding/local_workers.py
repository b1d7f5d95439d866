"""Starts several workers on this machine, for a trial of what a cluster does.

The processes are forked before TensorFlow is imported, which this module therefore does not do.
"""

import contextlib
import json
import math
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time

INTERRUPTED = 130  # the exit status of a worker that has saved because of a signal
GRACE = 2.0  # seconds for the others to end by themselves after one has failed
SAVING = 600.0  # seconds for the others to write what they have after one has saved and ended
ORPHAN = 60.0  # seconds for a worker to save and end after the process that started it has gone


def become_workers(count: int) -> None:
    """Forks workers, in which this function returns; the calling process ends when they have.

    Each worker finds the cluster in `TF_CONFIG`. Only the first prints. If one fails, its message
    is shown and the others are ended. The caller forwards SIGINT and SIGTERM to all, and its own
    end is a SIGTERM to them.

    Args:
        count: the number of workers.
    """
    cluster = {"worker": [f"localhost:{port}" for port in _spare_ports(count)]}
    alive, held = os.pipe()  # `held` closes when this process ends
    messages = [tempfile.TemporaryFile() for _ in range(count)]
    children = {}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    for rank in range(count):
        child = os.fork()
        if child == 0:
            os.close(held)
            os.setpgid(0, 0)  # so that Ctrl-C reaches it only through the caller
            task = {"type": "worker", "index": rank}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
            _keep_messages(rank, messages[rank])
            threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return
        children[child] = rank
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: _signal_all(children, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    sys.exit(_wait(children, messages))


def _wait(children, messages):
    """Waits for all children and returns the exit status for all of them.

    That is the status of the first that has failed, even if others have saved and ended before.
    """
    failed, end = None, math.inf
    while children:
        late = time.monotonic() >= end
        if late:
            _signal_all(children, signal.SIGKILL)
        child, status = os.waitpid(-1, os.WNOHANG)
        if child not in children:
            time.sleep(0.02)
            continue
        rank, status = children.pop(child), os.waitstatus_to_exitcode(status)
        if status and (failed is None or (failed[1] == INTERRUPTED != status)):
            hung = late and failed is not None
            failed = rank, status
            # One that a signal has ended leaves the others nothing to say of themselves.
            grace = {INTERRUPTED: SAVING}.get(status, GRACE if status > 0 else 0.0)
            end = time.monotonic() + grace
    if failed is None:
        return 0
    rank, status = failed
    if status != INTERRUPTED and (said := _text(messages[rank])) not in _text(messages[0]):
        sys.stderr.write(said)
    if status < 0:
        how = (
            f"did not end within {SAVING:g} seconds after another had saved, and was killed" if hung
            else f"was ended by {signal.Signals(-status).name}, and the others with it"
        )
        sys.stderr.write(
            f"error: worker {rank} {how}. Run the same command again to go on from the last "
            "checkpoint.\n"
        )
    sys.stderr.flush()
    return status if status > 0 else 1


def _signal_all(children, number):
    for child in list(children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)


class _Copying:
    """A stream whose text goes to a file, too."""

    def __init__(self, stream, file):
        self._stream, self._file = stream, file

    def write(self, text):
        os.write(self._file.fileno(), text.encode("utf-8", "replace"))
        return self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)


def _keep_messages(rank, errors):
    """Keeps the messages of a worker in a file. Only the first also shows them, and prints."""
    if rank == 0:
        sys.stderr = _Copying(sys.stderr, errors)
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(errors.fileno(), 2)
    os.close(nothing)


def _text(file):
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _end_with(alive):
    """Ends this process as SIGTERM does once the other end of the pipe closes."""
    select.select([alive], [], [])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN)
    os.kill(os.getpid(), signal.SIGKILL)


def _spare_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]

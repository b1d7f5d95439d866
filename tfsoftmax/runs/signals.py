"""Lets Ctrl-C and SIGTERM end a program in its own time."""

import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def on_signals(function: Callable[[], None]) -> Iterator[None]:
    """Calls a function at the first Ctrl-C or SIGTERM; a second one raises KeyboardInterrupt.

    In a thread other than the main one it does nothing.
    """
    signalled = False

    def handle(number, frame):
        nonlocal signalled
        if signalled:
            raise KeyboardInterrupt
        signalled = True
        function()

    try:
        before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

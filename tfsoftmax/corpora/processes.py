"""Computes a function of many items on all cores."""

import gc
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence


def on_all_cores(function: Callable, items: Sequence) -> Iterator:
    """Yields `function(item)` for each item, in their order.

    A process is forked for each core, and ends when this one does, also by SIGKILL, after which
    those of `concurrent.futures` wait forever. It does not look for garbage, so that the function
    must not make much in cycles. Where TensorFlow has been imported, whose
    threads a fork would lose, this process computes everything itself.

    Raises:
        RuntimeError: one of the processes has ended early: it was killed, or the function failed.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores == 1 or "tensorflow" in sys.modules:
        yield from map(function, items)
        return
    started = []
    try:
        for i in range(cores):
            started.append(_forked(function, items[i::cores]))
        for i in range(len(items)):
            yield pickle.load(started[i % cores][0])
    except (EOFError, pickle.UnpicklingError):
        raise RuntimeError("a process that was started to read files has ended early") from None
    finally:
        for reader, _ in started:
            reader.close()
        for _, child in started:
            os.waitpid(child, 0)


def _forked(function, items):
    """Starts a process that writes a result for each item; returns where to read, and its id."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return open(reading, "rb"), child
    try:
        gc.disable()
        os.close(reading)  # so that writing fails when the other process has ended
        with open(writing, "wb") as results:
            for item in items:
                pickle.dump(function(item), results)
    except Exception as error:
        if not isinstance(error, BrokenPipeError):  # the other process has stopped reading
            traceback.print_exc()
    finally:
        os._exit(0)

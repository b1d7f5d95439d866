"""Reads memory over time from a trace of TensorFlow's profiler, as the allocators recorded it."""

import dataclasses
import os
import pathlib

from tfsoftmax.support._compat import xplane_space
from tfsoftmax.support.arguments import expect, refusing

STEP = "train"  # the name of the events that mark training steps


@dataclasses.dataclass(frozen=True)
class Event:
    """An allocation or a deallocation.

    Attributes:
        seconds: the time since the first event, or the first step, of the trace.
        held: the bytes that the allocator had given out after the event.
        size: the bytes that were allocated (positive) or freed (negative).
        address: the address of the memory.
        op: the name of the operation that asked for it, if it is known.
        shape: the shape of the tensor, as text.

    Example:
        from tfsoftmax.profiling import memory_timeline
        timeline = memory_timeline.read_timeline(memory_timeline.find_trace("runs/first"))
        for events in timeline.allocators.values():
            print(max(event.held for event in events))
    """

    seconds: float
    held: int
    size: int
    address: int
    op: str
    shape: str


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The allocations of a trace, and its steps.

    Attributes:
        allocators: dictionary from the name of an allocator to a list of `Event`.
        steps: list of triples (number, begin, end) of training steps, in the seconds of events.

    Example:
        from tfsoftmax.profiling import memory_timeline
        timeline = memory_timeline.read_timeline(memory_timeline.find_trace("runs/first"))
        for number, begin, end in timeline.steps:
            print(number, end - begin)
    """

    allocators: dict
    steps: list


def find_trace(directory: str) -> str:
    """Finds the newest trace in the directory of a run, or in one of TensorBoard's.

    Raises:
        ValueError: there is no trace.
    """
    paths = list(map(str, pathlib.Path(directory).rglob("*.xplane.pb")))
    expect(paths, "run", "have a trace, which `tfsoftmax train --profile_batch=11,15` records",
           received=f"run={directory!r}, which has no file *.xplane.pb")
    return max(paths, key=os.path.getmtime)


def read_timeline(path: str) -> Timeline:
    """Reads allocations and steps from a trace.

    Args:
        path: an `.xplane.pb` file.

    Returns:
        The timeline, with events in order of time. An allocator records only memory that it
        places itself; on a CPU, the system places tensors of less than 256 KiB.

    Raises:
        ValueError: the file is not a trace.
    """
    space = xplane_space()
    with open(path, "rb") as file:
        content = file.read()
    with refusing(Exception, f"{path}:", "be an .xplane.pb trace"):
        space.ParseFromString(content)
    found, steps = [], []
    for plane in space.planes:
        events = {i: metadata.name for i, metadata in plane.event_metadata.items()}
        stats = {i: metadata.name for i, metadata in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                kind = events[event.metadata_id]
                begin = line.timestamp_ns * 1000 + event.offset_ps
                if kind in ("MemoryAllocation", "MemoryDeallocation"):
                    found.append((begin, kind == "MemoryAllocation", _values(event, stats)))
                elif kind == STEP:
                    number = _values(event, stats).get("step_num")
                    if number is not None:
                        steps.append((int(number), begin, begin + event.duration_ps))
    found.sort(key=lambda event: event[0])
    start = min([begin for begin, *_ in found] + [begin for _, begin, _ in steps], default=0)
    allocators = {}
    for begin, allocates, values in found:
        size = int(values["allocation_bytes"])
        allocators.setdefault(values["allocator_name"], []).append(Event(
            (begin - start) / 1e12, int(values["bytes_allocated"]), size if allocates else -size,
            int(values["addr"]), values.get("tf_op", ""), values.get("shape", ""),
        ))
    steps = sorted((n, (b - start) / 1e12, (e - start) / 1e12) for n, b, e in steps)
    return Timeline(allocators, steps)


def at_peak(events: list[Event]) -> tuple[int, list[Event], int]:
    """Finds what one allocator held when it held most.

    Args:
        events: the events of the allocator.

    Returns:
        The index of the event after which it held most; the allocations that were held then, the
        largest first; and the bytes held then that were allocated before the trace began.
    """
    highest = max(range(len(events)), key=lambda i: events[i].held)
    live = {}
    for event in events[: highest + 1]:
        if event.size > 0:
            live[event.address] = event
        else:
            live.pop(event.address, None)
    held = sorted(live.values(), key=lambda event: -event.size)
    return highest, held, events[highest].held - sum(event.size for event in held)


def _values(event, names):
    """The statistics of an event as a dictionary from name to value."""
    values = {}
    for stat in event.stats:
        field = stat.WhichOneof("value")
        value = getattr(stat, field)
        values[names[stat.metadata_id]] = names[value] if field == "ref_value" else value
    return values

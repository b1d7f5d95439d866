"""Memory over time, as the allocators recorded it in a trace of TensorFlow's profiler."""

import dataclasses
import glob
import os

from tfsoftmax._compat import xplane_space

STEP = "train"  # name of the events that mark training steps


@dataclasses.dataclass(frozen=True)
class Event:
    """An allocation, or a deallocation, and what it left.

    Attributes:
        seconds: since the first event, or step, of the trace.
        held: bytes that the allocator had given out after it.
        size: bytes allocated (positive) or freed (negative).
        address: of the memory.
        op: that asked for it, as far as known.
        shape: of the tensor, as text.
    """

    seconds: float
    held: int
    size: int
    address: int
    op: str
    shape: str


@dataclasses.dataclass(frozen=True)
class Timeline:
    """Events by allocator, and steps as (number, begin, end), in seconds as in the events."""

    allocators: dict
    steps: list


def find_trace(directory):
    """The newest trace in a directory of TensorBoard's, or of a run."""
    paths = glob.glob(os.path.join(directory, "**", "*.xplane.pb"), recursive=True)
    if not paths:
        raise ValueError(
            "`run` must have a trace, which `tfsoftmax train --profile_batch=11,15` makes. "
            f"Received: run={directory!r}, in which there is no *.xplane.pb"
        )
    return max(paths, key=os.path.getmtime)


def read_timeline(path):
    """Reads allocations and steps from a trace.

    Args:
        path: of an `.xplane.pb` file.

    Returns:
        `Timeline`, events in order of time. Allocators note only what they place themselves:
        on a CPU, tensors of less than 256 KiB are left to the system.

    Raises:
        ValueError: if the file is no trace.
    """
    space = xplane_space()
    try:
        with open(path, "rb") as file:
            space.ParseFromString(file.read())
    except Exception as error:
        if isinstance(error, OSError):
            raise
        raise ValueError(f"{path}: must be an .xplane.pb trace. Received: {error}") from None
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


def at_peak(events):
    """What was held at the highest point of a timeline.

    Args:
        events: list of `Event` of one allocator.

    Returns:
        index of the highest event, list of the allocation `Event`s that were held then, largest
        first, and the bytes held that had been allocated before the trace began.
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
    """{name: value} of an event's statistics."""
    values = {}
    for stat in event.stats:
        field = stat.WhichOneof("value")
        value = getattr(stat, field)
        values[names[stat.metadata_id]] = names[value] if field == "ref_value" else value
    return values

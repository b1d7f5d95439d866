"""Measures how much memory the process and its devices use."""

import contextlib
import math
import sys
from pathlib import Path

import psutil
import tensorflow as tf

try:
    import resource
except ModuleNotFoundError:  # on Windows
    resource = None

# The limit and the use of a container, in cgroups of version 2 and 1.
CGROUP_FILES = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def device_memory() -> dict[str, tuple[int, int]]:
    """Memory of each device whose allocator keeps count.

    Returns:
        Dictionary from a device, such as "gpu_0" or "cpu_0", to the bytes in use now and the
        most bytes that were in use so far.
    """
    found = {}
    for device in tf.config.list_logical_devices():
        kind, number = device.name.split(":")[-2:]
        try:
            memory = tf.config.experimental.get_memory_info(f"{kind}:{number}")
        except (ValueError, tf.errors.OpError):  # this device's allocator keeps no count
            continue
        found[f"{kind.lower()}_{number}"] = memory["current"], memory["peak"]
    return found


def resident_bytes() -> int:
    """Bytes of the process's resident set now."""
    return psutil.Process().memory_info().rss


def peak_resident_bytes() -> float:
    """The most bytes that the resident set of the process has had so far; NaN on Windows."""
    if resource is None:
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def available_bytes(root: str = "/sys/fs/cgroup") -> float:
    """Bytes of main memory that the process may still take.

    Args:
        root: folder of the limits that Linux sets for a container.
    """
    found = psutil.virtual_memory().available
    for limit, used in CGROUP_FILES:
        with contextlib.suppress(OSError, ValueError):  # "max", or no such file
            bytes_of = [int(Path(root, name).read_text()) for name in (limit, used)]
            found = min(found, max(0, bytes_of[0] - bytes_of[1]))
    return found

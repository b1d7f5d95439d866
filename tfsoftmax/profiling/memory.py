"""Measures how much memory the process and its devices use."""

import math
import sys

import tensorflow as tf

try:
    import resource
except ModuleNotFoundError:  # on Windows
    resource = None


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


def resident_bytes() -> float:
    """Bytes of the process's resident set now; on systems without /proc, its peak so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return peak_resident_bytes()


def peak_resident_bytes() -> float:
    """The most bytes that the resident set of the process has had so far; NaN on Windows."""
    if resource is None:
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

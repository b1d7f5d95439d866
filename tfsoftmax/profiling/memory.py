"""How much memory the process and its devices use."""

import resource
import sys

import tensorflow as tf


def device_memory():
    """{device: (bytes in use, the most so far)} of the devices that keep count.

    Devices are named "gpu_0", "cpu_0" and so on.
    """
    found = {}
    for device in tf.config.list_logical_devices():
        kind, number = device.name.split(":")[-2:]
        try:
            memory = tf.config.experimental.get_memory_info(f"{kind}:{number}")
        except (ValueError, tf.errors.OpError):  # this device's allocator keeps none
            continue
        found[f"{kind.lower()}_{number}"] = memory["current"], memory["peak"]
    return found


def resident_bytes():
    """The resident set of the process now; where the system does not tell, its largest so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

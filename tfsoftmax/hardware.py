"""Describes the machine in words, for reports of measurements."""

import os
import platform


def hardware() -> str:
    """Names the cores, the processor and the GPUs, as in "2 cores of AMD EPYC + NVIDIA H100"."""
    import tensorflow as tf

    processors = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    threads = tf.config.threading.get_intra_op_parallelism_threads() or processors
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    cores = "1 core" if threads == 1 else f"{threads} cores"
    return " + ".join([f"{cores} of {_processor()}", *gpus])


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(x.partition(":")[2].strip() for x in file if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()

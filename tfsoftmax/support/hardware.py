"""Describes the machine in words, for reports of measurements."""

import os
import platform

# What /proc/cpuinfo calls the instructions that multiply bfloat16: of x86, twice, and of Arm.
BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}


def hardware() -> str:
    """Names the cores, the processor and the GPUs, as in "2 cores of AMD EPYC + NVIDIA H100".

    A processor that multiplies bfloat16 is named "AMD EPYC with bfloat16": others of the same name
    may not have these instructions, and then compute in bfloat16 more slowly than in float32.
    """
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


def _processor(path="/proc/cpuinfo"):
    try:
        with open(path, encoding="utf-8") as file:
            facts = dict(map(str.strip, line.partition(":")[::2]) for line in file)
    except OSError:
        facts = {}
    name = facts.get("model name") or platform.processor() or platform.machine()
    flags = facts.get("flags") or facts.get("Features") or ""
    return f"{name} with bfloat16" if BFLOAT16_FLAGS & set(flags.split()) else name

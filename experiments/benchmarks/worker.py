"""What the process of one case does: it builds the case's program and then runs what it is told to.

With a process of its own each case has its own peak of memory, and the threads of TensorFlow and
PyTorch stay apart.
"""

import ctypes
import importlib
import os
import pathlib
import time

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)

from tfsoftmax.commands import program

PROC = pathlib.Path("/proc/self")
BUILT = {}  # of the case of this process: its framework, and functions by measure


def build(case, problem):
    """Builds the program of a case.

    Returns:
        {"measures": what `timed` can run, "parameters", "facts", "device", "floor_multiplications",
        "versions", "memory"}, or {"missing": why} where a package or a device is missing.
    """
    from experiments.benchmarks import logits, models, peers, programs, texts, uses
    from experiments.benchmarks.cases import FLOOR, MOVES
    from experiments.benchmarks.floor import matmuls, moved, multiplications

    kinds = {
        "head": programs.head, "recurrent": programs.recurrent, "whole": models.whole,
        "modules": models.modules, "training": models.training, "keras": peers.keras_dense,
        "keras_model": peers.keras_model, "tf_nn": peers.tf_nn, "torch": peers.pytorch,
        "torch_model": peers.pytorch_model, "top_k": uses.top_k, "command": uses.command,
        "texts": texts.language, "padding": programs.padded, "logits": logits.logits,
        "excluding": uses.excluding, "served": uses.served, "keras_hub": models.keras_hub,
    }
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    framework = "torch" if case.kind.startswith("torch") else "tensorflow"
    try:
        if framework == "torch":
            import torch  # noqa: F401  (at first: it may fail to start beside TensorFlow)
        else:
            program.load_tensorflow()
        if case.budgets:
            from tfsoftmax.support import budgets

            vars(budgets).update(case.budgets)
        made = kinds[case.kind](case, problem)
    except ModuleNotFoundError as error:
        return {"missing": str(error)}
    functions = {**made.functions}
    if made.products:
        dtype = "bfloat16" if case.precision == "mixed_bfloat16" else "float32"
        functions[FLOOR] = matmuls(made.products, dtype, made.gradients)
    if made.moves:
        functions[MOVES] = moved(*made.moves)
    BUILT.update(framework=framework, functions=functions)
    return {
        "measures": list(functions), "parameters": made.parameters, "facts": made.facts,
        "device": device(framework), "floor_multiplications": multiplications(made.products),
        "versions": versions(framework), "memory": made.memory,
    }


def timed(measure, memory):
    """Seconds of one run, the number that it returns, and its peak of memory if asked for."""
    meter = meter_of(BUILT["framework"]) if memory else None
    begin = meter.begin() if meter else None
    start = time.perf_counter()
    value = BUILT["functions"][measure]()
    seconds = time.perf_counter() - start
    peak = None if begin is None else meter.end() - begin
    return {"seconds": seconds, "value": value, "peak_bytes": peak}


def meter_of(framework):
    """What counts memory: the allocator of the device, or the process for PyTorch on a CPU."""
    if framework == "tensorflow":  # it keeps freed pages, so that the process says nothing
        from tfsoftmax.profiling.head_step import PeakMemory

        return PeakMemory()
    return ProcessMemory() if device(framework) == "CPU" else TorchMemory()


class ProcessMemory:
    """Resident bytes of the process: at the beginning, and at the peak since then."""

    def begin(self):
        """Returns freed memory to the system, then the bytes in use; None without a counter."""
        try:
            ctypes.CDLL(None).malloc_trim(0)
            (PROC / "clear_refs").write_text("5", encoding="ascii")
        except (OSError, AttributeError):
            return None
        return self._resident("VmRSS")

    def end(self):
        return self._resident("VmHWM")

    def _resident(self, name):
        lines = (PROC / "status").read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":"))


class TorchMemory:
    """Bytes on the first GPU, counted by PyTorch's allocator."""

    def begin(self):
        import torch

        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    def end(self):
        import torch

        return torch.cuda.max_memory_allocated()


def device(framework):
    """Where the framework computes: "CPU" or "GPU"."""
    if framework == "torch":
        import torch

        return "GPU" if torch.cuda.is_available() else "CPU"
    import tensorflow as tf

    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"


def versions(framework):
    """{package: version} of the packages that compute."""
    names = ("torch",) if framework == "torch" else ("tensorflow", "keras", "numpy")
    return {name: str(importlib.import_module(name).__version__) for name in names}

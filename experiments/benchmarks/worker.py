"""The process of one case, which builds its program and then runs what it is asked to run.

Its arguments are the case and the problem as JSON. It answers each line of standard input with a
line of JSON: `build` with what there is to measure, and {"measure", "memory"} with the seconds of
one run. With a process of its own each case has its own peak of memory, and the threads of
TensorFlow and PyTorch stay apart.
"""

import ctypes
import json
import os
import pathlib
import sys
import time

PROC = pathlib.Path("/proc/self")


def main(case, problem):
    """Answers the lines of standard input until it ends."""
    from experiments.benchmarks import logits, models, peers, programs, texts, uses
    from experiments.benchmarks.cases import FLOOR, MOVES, Case
    from experiments.benchmarks.floor import matmuls, moved, multiplications
    from experiments.benchmarks.problem import Problem

    kinds = {
        "head": programs.head, "recurrent": programs.recurrent, "whole": models.whole,
        "modules": models.modules, "training": models.training, "keras": peers.keras_dense,
        "keras_model": peers.keras_model, "tf_nn": peers.tf_nn, "torch": peers.pytorch,
        "torch_model": peers.pytorch_model, "top_k": uses.top_k, "command": uses.command,
        "texts": texts.language, "padding": programs.padded, "logits": logits.logits,
        "excluding": uses.excluding, "served": uses.served, "keras_hub": models.keras_hub,
    }
    case, problem = Case(**case), Problem(**problem)
    if case.budgets:  # The package imports TensorFlow, beside which PyTorch may fail to start.
        from tfsoftmax.support import budgets

        for name, value in case.budgets.items():
            setattr(budgets, name, value)
    answers = os.fdopen(os.dup(1), "w")  # standard output is for answers alone
    os.dup2(2, 1)
    framework = "torch" if case.kind.startswith("torch") else "tensorflow"
    functions = {}
    for line in sys.stdin:
        if line.strip() == "build":
            try:
                __import__(framework)
                program = kinds[case.kind](case, problem)
            except ModuleNotFoundError as error:
                answer = {"missing": str(error)}
            else:
                functions.update(program.functions)
                if program.products:
                    dtype = "bfloat16" if case.precision == "mixed_bfloat16" else "float32"
                    functions[FLOOR] = matmuls(program.products, dtype, program.gradients)
                if program.moves:
                    functions[MOVES] = moved(*program.moves)
                answer = {
                    "measures": list(functions), "parameters": program.parameters,
                    "facts": program.facts, "device": device(framework),
                    "floor_multiplications": multiplications(program.products),
                    "versions": versions(framework),
                }
        else:
            request = json.loads(line)
            answer = measured(functions[request["measure"]], request["memory"], framework)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def measured(function, memory, framework):
    """Seconds of one run, the number that it returns, and its peak of memory if asked for."""
    meter = meter_of(framework) if memory else None
    begin = meter.begin() if meter else None
    start = time.perf_counter()
    value = function()
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
    from importlib.metadata import PackageNotFoundError, version

    names = ("torch",) if framework == "torch" else ("tensorflow", "keras", "numpy")
    result = {}
    for name in names:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = sys.modules[name].__version__
    return result


if __name__ == "__main__":
    main(*map(json.loads, sys.argv[1:3]))

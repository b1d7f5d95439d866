#!/usr/bin/env python3
"""Where the time of each head's training step goes: by kind of operation.

    python -m experiments.benchmarks.operations
    python -m experiments.benchmarks.operations --vocab_size=200606 --only='*Tree*' --results=trees

Loss, gradients and Adagrad's update of every head of the suite `heads`, traced as `tfsoftmax tfprof`
traces, each in a process of its own: operations one after the other, of a few traced steps the one
with the median sum. Writes README.md, operations.json and a picture.
"""

import collections
import fnmatch
import json
import pathlib
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from absl import app, flags

from tfsoftmax.commands import program

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "operations"
LEFT_OUT = ("sequential", "without replacement")

flags.DEFINE_integer("vocab_size", 44_370, "V")
flags.DEFINE_integer("units", 512, "D, units of the hidden state")
flags.DEFINE_list("only", [], "only heads of these names, patterns")
flags.DEFINE_string("results", str(RESULTS), "folder of the report")
flags.DEFINE_integer("traces", 5, "traced steps of each head")

SMALL_SIZE = 1 << 14  # numbers: operations with smaller tensors are counted as small ones
UPDATE, SMALL, OTHER = "Adagrad's update", "small operations", "elementwise and sums"
KINDS = {
    "matmuls": ("MatMul", "_FusedMatMul", "BatchMatMulV2", "SparseMatrixMatMul",
                "SparseTensorToCSRSparseMatrix"),
    "gathers and scatters": (
        "ResourceGather", "GatherV2", "GatherNd", "ScatterNd", "UnsortedSegmentSum",
        "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub"),
    "joins and copies": (
        "ConcatV2", "TensorListConcatV2", "Slice", "StridedSlice", "Split", "SplitV", "Pad",
        "Transpose", "ReadVariableOp", "Identity", "DeepCopy"),
    "draws, sorting, uniqueness": (
        "StatelessRandomUniformV2", "StatelessRandomUniformIntV2", "TopKV2", "Unique", "UniqueV2",
        "UniqueWithCounts", "Where", "StatelessShuffle", "RandomUniform"),
    "exponentials": ("Exp", "Log", "Log1p", "Expm1", "Softmax", "LogSoftmax", "Sigmoid", "Softplus",
                     "SparseSoftmaxCrossEntropyWithLogits"),
}
KIND_OF = {op: kind for kind, ops in KINDS.items() for op in ops}
ORDER = (*KINDS, OTHER, UPDATE, SMALL)


def main(_):
    program.load_tensorflow()
    from experiments.benchmarks.cases import heads
    from experiments.benchmarks.problem import Problem
    from tfsoftmax.hardware import hardware

    options = flags.FLAGS
    problem = Problem(options.vocab_size, options.units)
    patterns, table = options.only or ["*"], {}
    for case in heads(options.vocab_size):
        chosen = any(fnmatch.fnmatch(case.name, p) for p in patterns)
        if case.kind == "head" and chosen and not any(o in case.name for o in LEFT_OUT):
            with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # no threads of others
                task = apart.submit(seconds_by_kind, case, problem, options.traces)
                table[case.name] = task.result()
            print(line(case.name, table[case.name]), flush=True)
    if not table:
        sys.exit(f"error: `only` must match a head. Received: only={options.only}")
    write(table, problem, hardware())


def seconds_by_kind(case, problem, traces):
    """{kind: seconds} of the traced step with the median sum."""
    from tfsoftmax.profiling.traced_step import Step, executions_of

    model = model_of(case, problem)
    shape = problem.streams, problem.steps
    step = Step(model, problem.hidden().reshape(*shape, -1), problem.labels().reshape(shape),
                np.ones(shape, np.float32))
    sums = []
    for _ in range(traces):
        seconds = collections.Counter()
        for execution in executions_of(step):
            stats = execution.stats
            seconds[kind_of(execution)] += 1e-9 * (
                stats.op_end_rel_nanos - stats.op_start_rel_nanos
            )
        sums.append(dict(seconds))
    sums.sort(key=lambda seconds: sum(seconds.values()))
    return sums[len(sums) // 2]


def model_of(case, problem):
    """The head above one trained vector, for whose sake the gradient by hidden states is formed."""
    import keras

    from experiments.benchmarks.programs import LEARNING_RATE, built_head
    from tfsoftmax import SoftmaxLoss
    from tfsoftmax.optimizers import Adagrad

    class Shift(keras.layers.Layer):
        def build(self, shape):
            self.shift = self.add_weight(name="shift", shape=shape[-1:], initializer="zeros")

        def call(self, hidden):
            return hidden + self.shift

    head, _ = built_head(case, problem)
    hidden = keras.Input((problem.steps, problem.units), problem.streams)
    model = keras.Model(hidden, head(Shift()(hidden)))
    model.compile(Adagrad(LEARNING_RATE), SoftmaxLoss())
    model.optimizer.build(model.trainable_variables)
    return model


def kind_of(execution):
    if execution.part == "optimizer":
        return UPDATE
    shapes = [
        [dim.size for dim in output.tensor_description.shape.dim]
        for output in execution.stats.output
    ]
    shapes += [known[1] for known in execution.inputs if known]
    size = max((int(np.prod(shape, dtype=np.int64)) for shape in shapes), default=0)
    kind = KIND_OF.get(execution.node.op.replace("_Mkl", ""))
    if kind != "matmuls" and size < SMALL_SIZE:
        return SMALL
    return kind or OTHER


def line(name, seconds):
    total = sum(seconds.values())
    parts = (f"{kind} {seconds.get(kind, 0) / total:.0%}" for kind in ORDER if kind in seconds)
    return f"{name}: {1000 * total:.1f} ms; {', '.join(parts)}"


def write(table, problem, hardware):
    folder = pathlib.Path(flags.FLAGS.results)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "operations.json").write_text(json.dumps(table, indent=1) + "\n")
    rows = [
        f"| {name} | {1000 * sum(s.values()):,.1f} | "
        + " | ".join(f"{s.get(kind, 0) / sum(s.values()):.0%}" for kind in ORDER) + " |"
        for name, s in table.items()
    ]
    (folder / "README.md").write_text("\n".join([
        "# Where the time of a step goes", "",
        "Written by `python -m experiments.benchmarks.operations`, whose docstring says how. "
        f"V = {problem.vocab_size:,}, D = {problem.units}, N = {problem.positions:,}, labels "
        f"by Zipf's law, float32; {hardware}. One operation at a time, recorded: the sum is not "
        "the time of a step.", "",
        "| head | operations, ms | " + " | ".join(ORDER) + " |",
        "|---|---:|" + "---:|" * len(ORDER), *rows, "",
        "![Shares of the kinds of operations in the time of a step.](operations.png)", "",
    ]))
    draw(table, folder / "operations.png")


def draw(table, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 0.45 * len(table) + 1.5), layout="constrained")
    names, left = list(table)[::-1], np.zeros(len(table))
    for i, kind in enumerate(ORDER):
        shares = np.array([table[n].get(kind, 0) / sum(table[n].values()) for n in names])
        axes.barh(names, shares, left=left, label=kind, color=f"C{i}" if i < 7 else "lightgrey")
        left += shares
    axes.set(xlim=(0, 1), xlabel="share of the time in operations of a step")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    app.run(main)

"""Where the time of the training steps of heads and models goes, by kind of operation.

    python -m experiments.benchmarks.operations
    python -m experiments.benchmarks.operations --vocab_size=200606 --only='*Tree*' --results=trees

Traces loss, gradients and Adagrad's update of every head of the suite `heads`, and of the whole
models of the suite `models`, in the way of `tfsoftmax tfprof`: each in a process of its own, and
one operation after another. Of several traced steps the one with the median sum counts. Writes
README.md, operations.json and a picture.
"""

import collections
import json
import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks import head_suites, models
from experiments.benchmarks.measure import in_a_process
from experiments.benchmarks.problem import Problem
from experiments.framework import markdown, pictures, runner
from tfsoftmax.commands import program

LEFT_OUT = ("sequential", "without replacement", "float32", "bfloat16")
SMALL_SIZE = 1 << 14  # numbers; operations on smaller tensors count as small operations
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
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = pictures.COLOURS
COLOURS = BLUE, ORANGE, GREEN, BLACK, SKY, PURPLE, VERMILION, "0.87"
DARK = BLUE, GREEN, BLACK, VERMILION
LEAST_SHARE = 0.06  # smaller shares have no number in the picture


def main():
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    options = flags.FLAGS
    problem = Problem(options.vocab_size, options.units)
    cases = head_suites.heads(options.vocab_size) + models.suite(options.vocab_size)
    traced, table = [case for case in cases if case.kind in ("head", "whole")
                     and not any(text in case.name for text in LEFT_OUT)], {}
    for case in runner.select(traced, options.only):
        table[case.name] = in_a_process(seconds_by_kind, case, problem, options.traces)
        print(*row_of(case.name, table[case.name]), sep=" | ", flush=True)
    write(table, problem, hardware(), Path(options.results))


def seconds_by_kind(case, problem, traces):
    """{kind: seconds} of the traced step whose sum is the median."""
    from tfsoftmax.profiling.traced_step import TracedStep

    make = models.compiled if case.kind == "whole" else model_of
    model, inputs, labels, *_ = make(case, problem)
    step = TracedStep(model, inputs, labels, np.ones(labels.shape, np.float32))
    sums = []
    for _ in range(traces):
        seconds = collections.Counter()
        for execution in step.executions():
            stats = execution.stats
            seconds[kind_of(execution)] += 1e-9 * (
                stats.op_end_rel_nanos - stats.op_start_rel_nanos
            )
        sums.append(dict(seconds))
    sums.sort(key=lambda seconds: sum(seconds.values()))
    return sums[len(sums) // 2]


def model_of(case, problem):
    """The head on top of one trained vector, so that the gradient of hidden states is computed.

    Returns:
        The model, hidden states (B, T, D) and labels (B, T).
    """
    import keras

    from experiments.benchmarks.programs import LEARNING_RATE, built_head
    from tfsoftmax.losses import SoftmaxLoss
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
    shape = problem.streams, problem.steps
    return model, problem.hidden().reshape(*shape, -1), problem.labels().reshape(shape)


def kind_of(execution):
    """The kind of a traced operation."""
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


def row_of(name, seconds):
    """The row of a head: milliseconds, and the share of each kind."""
    total = sum(seconds.values())
    shares = (f"{seconds.get(kind, 0) / total:.0%}" for kind in ORDER)
    return [name, f"{1000 * total:,.1f}", *shares]


def write(table, problem, hardware, folder):
    """Writes the page, the picture and the numbers of {head: {kind: seconds}}."""
    note = (f"V = {problem.vocab_size:,} words, D = {problem.units} units, "
            f"N = {problem.positions:,} positions, float32; {hardware}")
    rows = [["head or model", "operations, ms", *ORDER], *(row_of(*item) for item in table.items())]
    markdown.write(
        folder / "README.md", "# Where the time of a training step goes",
        "Written by `python -m experiments.benchmarks.operations`, whose docstring says how it is "
        f"measured. {note}; labels by Zipf's law. Operations are recorded one at a time, so that "
        "their sum is not the time of a step.",
        markdown.table(rows),
        pictures.shown(
            lambda: draw(table, note), folder / "operations.png",
            "Shares of the kinds of operations in the time of a training step. The more blue a "
            "bar, the less the head adds to the matmuls that it cannot do without. The number "
            f"on the right is the sum of the operations. ({note}.)"
        ),
    )
    (folder / "operations.json").write_text(json.dumps(table, indent=1) + "\n")


def draw(table, note):
    """Stacked bars of shares, a bar for each head."""
    figure = pictures.new(11, 0.42 * len(table) + 2.2,
                          "Where the time of a training step goes, by kind of operation", note)
    axes, names, left = figure.subplots(), list(table), np.zeros(len(table))
    for kind, colour in zip(ORDER, COLOURS):
        shares = np.array([table[n].get(kind, 0) / sum(table[n].values()) for n in names])
        drawn = axes.barh(names, shares, left=left, label=kind, color=colour, height=0.75,
                          edgecolor="white", linewidth=0.6)
        axes.bar_label(drawn, [f"{s:.0%}" if s >= LEAST_SHARE else "" for s in shares],
                       label_type="center", fontsize=8,
                       color="white" if colour in DARK else "black")
        left += shares
    for row, name in enumerate(names):
        axes.annotate(f"{1000 * sum(table[name].values()):,.0f} ms", (1, row), (6, 0), va="center",
                      textcoords="offset points", fontsize=9)
    axes.set(xlim=(0, 1), ylim=(len(names) - 0.5, -0.5))
    axes.xaxis.set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    flags.DEFINE_integer("vocab_size", 44_370, "Size V of the vocabulary.")
    flags.DEFINE_integer("units", 512, "Units D of the hidden state.")
    flags.DEFINE_list("only", [], "Patterns of the names of heads to trace; by default all.")
    flags.DEFINE_string("results", "experiments/results/operations", "Directory of the report.")
    flags.DEFINE_integer("traces", 5, "Number of traced steps of each head.")
    program.run(main, __doc__, sys.argv)

#!/usr/bin/env python3
"""Hierarchical heads against FullSoftmax: one training step with the optimiser's update.

    python experiments/benchmarks/tree_step.py

Forward, all gradients (hidden, kernel, biases) and `tfsoftmax.optimizers.Adagrad`'s update, for
Zipf labels and trees and classes of Zipf counts. Medians of steps that take turns; each
vocabulary in a process of its own. Writes experiments/results/tree_step/README.md.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "tree_step"
FULL, TREE, SEQUENTIAL = "FullSoftmax", "TreeSoftmax, Huffman", "the same, sequential (tHSM)"
BALANCED, BALANCED_SEQUENTIAL = "TreeSoftmax, balanced", "the same, sequential"
CLASS, SELF = "ClassSoftmax, √frequency", "SelfOrganisedSoftmax"
CASES = (FULL, TREE, SEQUENTIAL, BALANCED, BALANCED_SEQUENTIAL, CLASS, SELF)

flags.DEFINE_list("vocab_sizes", ["44370", "200606", "459454"], "V, several")
flags.DEFINE_integer("full_up_to", 200_606, "largest V that FullSoftmax is timed for")
flags.DEFINE_integer("clusters_up_to", 200_606, "the same of classes and clusters")
flags.DEFINE_integer("positions", 2560, "N, positions in a batch")
flags.DEFINE_integer("units", 512, "D, units of the hidden state")
flags.DEFINE_integer("repeats", 9, "timed steps of each case")
flags.DEFINE_integer("times_of", None, "internal: measure one vocabulary")


def head_of(case, vocab_size, counts):
    import tfsoftmax

    return {
        FULL: lambda: tfsoftmax.FullSoftmax(vocab_size),
        TREE: lambda: tfsoftmax.TreeSoftmax(vocab_size, counts=counts),
        SEQUENTIAL: lambda: tfsoftmax.TreeSoftmax(vocab_size, counts=counts, mode="sequential"),
        BALANCED: lambda: tfsoftmax.TreeSoftmax(vocab_size, "balanced"),
        BALANCED_SEQUENTIAL: lambda: tfsoftmax.TreeSoftmax(
            vocab_size, "balanced", mode="sequential"
        ),
        CLASS: lambda: tfsoftmax.ClassSoftmax(vocab_size, counts=counts),
        SELF: lambda: tfsoftmax.SelfOrganisedSoftmax(vocab_size, counts),
    }[case]()


def step_of(case, vocab_size):
    """A compiled step () -> loss."""
    import numpy as np
    import tensorflow as tf

    from tfsoftmax import SoftmaxLoss
    from tfsoftmax.optimizers import Adagrad

    rng, shape = np.random.default_rng(0), (flags.FLAGS.positions, flags.FLAGS.units)
    counts = 1e8 / np.arange(1, vocab_size + 1)
    labels = rng.choice(vocab_size, shape[0], p=counts / counts.sum()).astype(np.int32)
    hidden = tf.constant(0.3 * rng.standard_normal(shape, np.float32))
    head, optimizer, loss = head_of(case, vocab_size, counts), Adagrad(0.1), SoftmaxLoss()
    head.build(shape)
    optimizer.build(head.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            total = loss(labels, head(hidden, training=True))
        sources = [hidden, *[w.value for w in head.trainable_variables]]
        of_hidden, *gradients = tape.gradient(total, sources)
        optimizer.apply(gradients, head.trainable_variables)
        return total, of_hidden

    return step


def times_of(vocab_size):
    """{case: [seconds, ...]}: the cases take turns."""
    options = flags.FLAGS
    limits = {FULL: options.full_up_to, CLASS: options.clusters_up_to, SELF: options.clusters_up_to}
    cases = [case for case in CASES if vocab_size <= limits.get(case, vocab_size)]
    steps = {case: step_of(case, vocab_size) for case in cases}
    for step in steps.values():
        step()
    seconds = {case: [] for case in cases}
    for repeat in range(flags.FLAGS.repeats):
        for case, step in steps.items():
            if case == FULL and repeat % 3:
                continue  # a hundred times the others' time
            start = time.perf_counter()
            total, of_hidden = step()
            total.numpy(), of_hidden.numpy()
            seconds[case].append(time.perf_counter() - start)
    return seconds


def table(rows, hardware):
    """The rows as Markdown."""
    options = flags.FLAGS
    ms = {v: {c: 1000 * statistics.median(t) for c, t in times.items()} for v, times in rows.items()}
    lines = [
        "# Hierarchical heads against FullSoftmax: one training step", "",
        f"`python experiments/benchmarks/tree_step.py` on {hardware}; N = {options.positions:,} "
        f"positions, D = {options.units}, Zipf labels, float32; forward, gradients and Adagrad's "
        f"update. Medians of {options.repeats} steps (FullSoftmax: a third of them) that take "
        "turns.", "",
        "| V | | ms | fastest | slowest | FullSoftmax takes as many times |", "|---|---|---|---|---|---|",
    ]
    for size, times in rows.items():
        for case, seconds in times.items():
            ratio = f"{ms[size][FULL] / ms[size][case]:,.1f}" if FULL in ms[size] else ""
            lines.append(
                f"| {size:,} | {case} | {ms[size][case]:,.1f} | {1000 * min(seconds):,.1f} "
                f"| {1000 * max(seconds):,.1f} | {ratio} |"
            )
    small, large = min(ms), max(ms)
    lines += ["", f"TreeSoftmax, Huffman: V={large:,} takes {ms[large][TREE] / ms[small][TREE]:.2f} "
              f"times as long as V={small:,}. Sequential over parallel: " + "; ".join(
        f"V={v:,} Huffman {times[SEQUENTIAL] / times[TREE]:.2f}, "
        f"balanced {times[BALANCED_SEQUENTIAL] / times[BALANCED]:.2f}" for v, times in ms.items()
    ) + "."]
    return "\n".join(lines) + "\n"


def main(_):
    options = flags.FLAGS
    if options.times_of:
        print(json.dumps(times_of(options.times_of)))
        return
    from tfsoftmax.runs import hardware

    rows = {}
    for size in map(int, options.vocab_sizes):
        arguments = [f"--{name}={options[name].value}" for name in
                     ("full_up_to", "clusters_up_to", "positions", "units", "repeats")]
        output = subprocess.run([sys.executable, __file__, f"--times_of={size}", *arguments],
                                check=True, capture_output=True, text=True).stdout
        rows[size] = json.loads(output.splitlines()[-1])
        print({c: round(1000 * statistics.median(t), 1) for c, t in rows[size].items()}, flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text(table(rows, hardware()), encoding="utf-8")
    print(table(rows, hardware()))


if __name__ == "__main__":
    app.run(main)

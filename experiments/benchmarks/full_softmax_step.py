#!/usr/bin/env python3
"""FullSoftmax against what Keras users write, `Dense(V)` and cross-entropy: one training step.

    python experiments/benchmarks/full_softmax_step.py

Forward and all gradients (hidden, kernel, bias), without an optimiser, for Zipf labels. Times are
medians of one interleaved run, beside the bare matmuls that a step cannot do without; memory is
what TensorFlow's allocator reports, each case in a process of its own, beyond weights and
gradients. Writes experiments/results/full_softmax_step/README.md.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "full_softmax_step"
CASES = ("Dense + cross-entropy", "FullSoftmax")
MATMULS = "bare matmuls"

flags.DEFINE_list("vocab_sizes", ["44370", "200606"], "V, several")
flags.DEFINE_integer("positions", 2560, "N, positions in a batch")
flags.DEFINE_integer("units", 512, "D, units of the hidden state")
flags.DEFINE_integer("repeats", 7, "timed steps of each case")
flags.DEFINE_enum("policy", "float32", ["float32", "mixed_bfloat16"], "Keras dtype policy")
flags.DEFINE_string("memory_of", None, "internal: measure the memory of one case")


def zipf_batch(vocab_size):
    """Hidden states (N, D) and labels (N,) with P(w) proportional to 1 / (w + 1)."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    probabilities = 1 / np.arange(1, vocab_size + 1)
    labels = rng.choice(vocab_size, flags.FLAGS.positions, p=probabilities / probabilities.sum())
    hidden = rng.standard_normal((flags.FLAGS.positions, flags.FLAGS.units), np.float32)
    return tf.constant(0.3 * hidden), tf.constant(labels.astype(np.int32))


def step_of(case, vocab_size, weights=None):
    """A compiled step () -> (loss, gradients), and the weights (V, D) and (V,) that it uses."""
    import keras
    import tensorflow as tf

    import tfsoftmax

    hidden, labels = zipf_batch(vocab_size)
    if case == "FullSoftmax":
        head = tfsoftmax.FullSoftmax(vocab_size, dtype=flags.FLAGS.policy)
        loss = tfsoftmax.SoftmaxLoss()
    else:
        head = keras.layers.Dense(vocab_size, dtype=flags.FLAGS.policy)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    head.build(hidden.shape)
    if weights is not None:
        kernel, bias = weights
        head.set_weights([kernel if case == "FullSoftmax" else kernel.T, bias])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            value = loss(labels, head(hidden, training=True))
        return value, tape.gradient(value, [hidden, *[w.value for w in head.trainable_weights]])

    @tf.function
    def matmuls():
        kernel = tf.convert_to_tensor(head.trainable_weights[0].value)
        cast = [tf.cast(t, head.compute_dtype) for t in (hidden, kernel)]
        logits = tf.matmul(cast[0], cast[1], transpose_b=True)
        return tf.matmul(logits, cast[1]), tf.matmul(logits, cast[0], transpose_a=True)

    return step, matmuls, head


def memory_of(case, vocab_size):
    """GiB at the peak of a step beyond weights and gradients."""
    import tensorflow as tf

    step, _, head = step_of(case, vocab_size)
    step()
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    step()
    peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    gradients = 4 * sum(w.shape.num_elements() for w in (v.value for v in head.trainable_weights))
    return (peak - before - gradients) / 2**30


def times_of(vocab_size):
    """{case: [seconds, ...]} of one interleaved run, and the differences of the two results."""
    import numpy as np

    rng = np.random.default_rng(1)
    shape = (vocab_size, flags.FLAGS.units)
    weights = 0.1 * rng.standard_normal(shape, np.float32), np.zeros(vocab_size, np.float32)
    steps = {case: step_of(case, vocab_size, weights) for case in CASES}
    functions = {case: steps[case][0] for case in CASES}
    functions[MATMULS] = steps["FullSoftmax"][1]
    results = {name: function() for name, function in functions.items()}
    differences = differences_of(results)
    seconds = {name: [] for name in functions}
    del results, weights
    for _ in range(flags.FLAGS.repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()[0].numpy()
            seconds[name].append(time.perf_counter() - start)
    return seconds, differences


def differences_of(results):
    """Largest differences of loss and gradients: absolute, and relative to the largest entry."""
    import numpy as np

    (naive_loss, naive), (loss, ours) = (results[case] for case in CASES)
    absolute, relative = [], []
    for position, (a, b) in enumerate(zip([naive_loss, *naive], [loss, *ours])):
        a, b = np.float32(a), np.float32(b)
        a = a.T if position == 2 else a
        absolute.append(float(np.abs(a - b).max()))
        relative.append(absolute[-1] / float(np.abs(a).max()))
    return {"absolute": max(absolute), "relative": max(relative)}


def measure(vocab_size):
    """One row of the table."""
    seconds, differences = times_of(vocab_size)
    row = {"V": vocab_size, "milliseconds": {}, "spread": {}, "memory": {}, **differences}
    for name, values in seconds.items():
        row["milliseconds"][name] = 1000 * statistics.median(values)
        row["spread"][name] = 1000 * (max(values) - min(values))
    for case in CASES:
        arguments = [f"--memory_of={case}", f"--vocab_sizes={vocab_size}",
                     f"--positions={flags.FLAGS.positions}", f"--units={flags.FLAGS.units}",
                     f"--policy={flags.FLAGS.policy}"]
        output = subprocess.run([sys.executable, __file__, *arguments], check=True,
                                capture_output=True, text=True).stdout
        row["memory"][case] = float(output.splitlines()[-1])
    return row


def table(rows, hardware):
    """The rows as Markdown."""
    options = flags.FLAGS
    lines = [
        "# FullSoftmax against Dense + cross-entropy: one training step", "",
        f"`python experiments/benchmarks/full_softmax_step.py --policy={options.policy}` on "
        f"{hardware}; N = {options.positions:,} positions, D = {options.units}, "
        f"Zipf labels, {options.policy}, medians of {options.repeats} interleaved steps "
        "(spread: slowest minus fastest).", "",
        "| V | | ms | spread | to Dense | to bare matmuls | GiB beyond weights and gradients |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ms = row["milliseconds"]
        for name, value in ms.items():
            memory = f"{row['memory'][name]:.2f}" if name in row["memory"] else ""
            lines.append(
                f"| {row['V']:,} | {name} | {value:,.0f} | {row['spread'][name]:,.0f} "
                f"| {value / ms[CASES[0]]:.2f} | {value / ms[MATMULS]:.2f} | {memory} |"
            )
    lines += ["", "Largest difference of loss and gradients between the two, and the same "
              "relative to the largest entry: " + "; ".join(
        f"V={row['V']:,}: {row['absolute']:.1e}, {row['relative']:.1e}" for row in rows
    ) + "."]
    return "\n".join(lines) + "\n"


def main(_):
    sizes = [int(v) for v in flags.FLAGS.vocab_sizes]
    if flags.FLAGS.memory_of:
        print(memory_of(flags.FLAGS.memory_of, sizes[0]))
        return
    from tfsoftmax.runs import hardware

    rows = []
    for size in sizes:
        rows.append(measure(size))
        print(json.dumps(rows[-1]), flush=True)
    name = "README.md" if flags.FLAGS.policy == "float32" else f"{flags.FLAGS.policy}.md"
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / name).write_text(table(rows, hardware()), encoding="utf-8")
    print(table(rows, hardware()))


if __name__ == "__main__":
    app.run(main)

#!/usr/bin/env python3
"""What the cost model expects of cutoffs against what a training step of AdaptiveSoftmax takes.

    python experiments/benchmarks/cutoff_costs.py

The constants are measured anew. For Zipf's words, the cheapest cutoffs of each number of tails,
with projections and without, and the thesis's own: forward and all gradients, without an
optimiser, medians of one interleaved run. Writes experiments/results/cutoff_costs/README.md,
beside which belongs figure_5_2.png:

    python tools/cutoffs.py --projection_factor=0 \\
        --plot=experiments/results/cutoff_costs/figure_5_2.png
"""

import dataclasses
import json
import pathlib
import statistics
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "cutoff_costs"
OWN = [4000, 22000]

flags.DEFINE_list("vocab_sizes", ["44370", "200606"], "V, several")
flags.DEFINE_integer("positions", 2560, "N, positions in a batch")
flags.DEFINE_integer("units", 512, "D, units of the hidden state")
flags.DEFINE_integer("most_tails", 4, "largest number of tails")
flags.DEFINE_integer("repeats", 7, "timed steps of each case")


def cases(vocab_size, constants):
    """The cost models and cutoffs to try: [(model, cutoffs)]."""
    from tfsoftmax.partitions.cutoffs import CostModel, best_cutoffs, zipf

    result = []
    for factor in (4.0, None):
        model = CostModel(
            zipf(vocab_size, 1.0), flags.FLAGS.units, flags.FLAGS.positions, factor, constants
        )
        result.append((model, OWN))
        result += [(model, best_cutoffs(model, n)) for n in range(1, flags.FLAGS.most_tails + 1)]
    return result


def step_of(model, cutoffs):
    """A compiled step (hidden, labels) -> number, of loss and all gradients."""
    import tensorflow as tf

    from tfsoftmax.heads.adaptive import AdaptiveSoftmax

    head = AdaptiveSoftmax(
        model.vocab_size, cutoffs, projection_factor=model.projection_factor
    )
    head.build((None, model.hidden))
    weights = tf.fill([model.positions], 1 / model.positions)

    @tf.function
    def step(hidden, labels):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            total, _ = head.weighted_loss(hidden, labels, weights)
        gradients = tape.gradient(total, [hidden, *(w.value for w in head.trainable_weights)])
        return total + tf.add_n([tf.reduce_sum(g[0]) for g in gradients])

    return step


def measure(vocab_size, constants):
    """[(model, cutoffs, seconds)] of one vocabulary."""
    import numpy as np
    import tensorflow as tf

    from tfsoftmax.partitions.cutoffs import zipf

    rng, count = np.random.default_rng(0), flags.FLAGS.positions
    hidden = tf.constant(rng.standard_normal((count, flags.FLAGS.units), np.float32))
    tried = cases(vocab_size, constants)
    steps = [step_of(*case) for case in tried]
    seconds = [[] for _ in tried]
    for repeat in range(flags.FLAGS.repeats + 1):
        labels = rng.choice(vocab_size, count, p=zipf(vocab_size, 1.0)).astype(np.int32)
        for step, taken in zip(steps, seconds):
            start = time.perf_counter()
            float(step(hidden, tf.constant(labels)))
            if repeat:
                taken.append(time.perf_counter() - start)
    return [(*case, statistics.median(taken)) for case, taken in zip(tried, seconds)]


def table(rows, constants, hardware):
    """The report as Markdown."""
    lines = [
        "# Cutoffs: expected and measured cost", "",
        f"`python experiments/benchmarks/cutoff_costs.py` on {hardware}; N = "
        f"{flags.FLAGS.positions:,} positions, D = {flags.FLAGS.units}, Zipf labels, float32, "
        f"loss and all gradients, medians of {flags.FLAGS.repeats} interleaved steps with fresh "
        f"labels. Constants: `{json.dumps(dataclasses.asdict(constants))}`. Of each number of "
        f"tails the cheapest cutoffs by the model, and {OWN}, to which the others are compared.",
        "", "| V | units of tail k | cutoffs | expected ms | measured ms | expected ratio "
        "| measured ratio |", "|---|---|---|---:|---:|---:|---:|",
    ]
    for model, cutoffs, seconds in rows:
        factor = model.projection_factor
        expected = model.seconds(cutoffs)
        if cutoffs == OWN:
            unit = expected, seconds
        lines.append(
            f"| {model.vocab_size:,} | {f'D / {factor:g}^k' if factor else 'D'} "
            f"| {', '.join(f'{c:,}' for c in cutoffs)} | {1000 * expected:,.1f} "
            f"| {1000 * seconds:,.1f} | {expected / unit[0]:.2f} | {seconds / unit[1]:.2f} |"
        )
    lines += ["", "## Müller 2017, figure 5.2", "",
              "The expected cost with one tail against the size of the shortlist, without "
              "projections, V = 44,370, by `python tools/cutoffs.py --projection_factor=0 "
              "--plot=…`. Crosses mark the cheapest shortlist: half of the vocabulary if all "
              "words are as frequent (exponent 0), less the more skewed they are.", "",
              "![Expected cost against shortlist size](figure_5_2.png)"]
    return "\n".join(lines) + "\n"


def main(_):
    from tfsoftmax.partitions.calibration import machine_constants
    from tfsoftmax.runs import hardware

    constants = machine_constants(remeasure=True)
    rows = [row for v in flags.FLAGS.vocab_sizes for row in measure(int(v), constants)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = table(rows, constants, hardware())
    (RESULTS / "README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    app.run(main)

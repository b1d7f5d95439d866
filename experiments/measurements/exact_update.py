"""Times steps of softmax and of spherical softmax by the size of the vocabulary.

    python -m experiments.measurements.exact_update

A step computes the loss of fixed hidden states with its gradients, and updates the words' rows by
gradient descent: `FullSoftmax` and `SphericalSoftmax` by `tfsoftmax.optimizers.SGD`, and
`SphericalSoftmax` and `TaylorSoftmax` by `sgd_learning_rate`, whose steps cost N D² + D³. The cases
take turns, and a time is the median CPU time of all turns. Labels follow Zipf's law. The
optimiser's steps are timed up to 100,000 words. Where the factors of the last two are renewed
within the timed steps, that time is theirs too. Then as many steps as `--long` asks for are made on
a small vocabulary in float32 factors, and on the rows themselves in float64, to show how far
rounding has moved the first. Writes experiments/results/exact_update/README.md.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.measure import medians
from experiments.framework import markdown
from tfsoftmax.commands import program

DENSE_WORDS = 100_000  # of larger vocabularies, the optimiser's steps take minutes on a busy core
LONG = {"words": 500, "units": 16, "positions": 64, "rate": 0.5}


def heads(words):
    """{name: head} that a step is timed of."""
    from tfsoftmax.heads import FullSoftmax
    from tfsoftmax.survey import SphericalSoftmax, TaylorSoftmax

    return {
        "FullSoftmax": FullSoftmax(words), "SphericalSoftmax": SphericalSoftmax(words),
        "SphericalSoftmax, its own steps": SphericalSoftmax(words, sgd_learning_rate=0.1),
        "TaylorSoftmax, its own steps": TaylorSoftmax(words, sgd_learning_rate=0.1),
    }


def times(words, options):
    """{name: median milliseconds of CPU time of a step}."""
    from experiments.benchmarks.problem import Problem
    from tfsoftmax.optimizers import SGD
    from tfsoftmax.profiling.head_step import head_step

    problem, functions = Problem(words, options.units, options.positions, 1), {}
    weights = np.full(options.positions, 1 / options.positions, np.float32)
    for name, head in heads(words).items():
        if words > DENSE_WORDS and "own" not in name:
            continue
        head.build((None, options.units))
        functions[name] = head_step(
            lambda hidden, labels, head=head: head.loss_and_nats(hidden, labels, weights)[0],
            head.trainable_variables, problem.hidden(), problem.labels(), lambda: SGD(0.1),
        )
    found = {name: 1000 * cpu for name, (_, cpu) in medians(functions, options.turns).items()}
    print(words, found, flush=True)
    return found


def drift(steps, report):
    """[step, worst error, worst error of Q, renewals] of a long training, at `report` steps each.

    Errors are relative to the largest element. Labels are functions of the hidden states, so that
    there is something to learn.
    """
    import keras
    import tensorflow as tf

    from tfsoftmax.survey import SphericalSoftmax

    words, units, positions, rate = LONG.values()
    keras.utils.set_random_seed(1)
    head = SphericalSoftmax(words, sgd_learning_rate=rate)
    head.build((None, units))
    factors, rng = head.factors, np.random.default_rng(1)
    exact, prototypes = factors.rows.numpy().astype(np.float64), rng.normal(size=(words, units))
    weights = np.full(positions, 1 / positions, np.float32)

    @tf.function(autograph=False)
    def step(hidden, labels):
        with tf.GradientTape() as tape:
            total, _ = head.loss_and_nats(hidden, labels, weights)
        tape.gradient(total, [w.value for w in head.trainable_variables])
        return total

    rows, renewals = [], 0
    for number in range(1, steps + 1):
        labels = rng.integers(0, words, positions).astype(np.int32)
        hidden = (prototypes[labels] + 0.3 * rng.normal(size=(positions, units))).astype(np.float32)
        total = float(step(tf.constant(hidden), tf.constant(labels)))
        renewals += np.array_equal(factors.mixer.numpy(), np.eye(units + 1))
        exact = descended(exact, hidden, labels, weights, rate)
        if number % report == 0:
            ours = factors.rows.numpy().astype(np.float64) @ factors.mixer.numpy()
            square = exact.T @ exact
            rows.append([
                f"{number:,}", f"{total:.3f}",
                f"{np.abs(ours - exact).max() / np.abs(exact).max():.1e}",
                f"{np.abs(factors.moments.numpy() - square).max() / np.abs(square).max():.1e}",
                f"{renewals:,}",
            ])
    return rows


def descended(rows, hidden, labels, weights, rate):
    """A step on the rows themselves in float64, with ε = 1."""
    extended = np.hstack([hidden, np.ones((len(hidden), 1))])
    scores = extended @ rows.T
    slopes = 2 * scores / (scores**2 + 1).sum(1, keepdims=True)
    own = scores[np.arange(len(labels)), labels]
    slopes[np.arange(len(labels)), labels] -= 2 * own / (own**2 + 1)
    return rows - rate * (weights[:, None] * slopes).T @ extended


def main():
    """Writes the page."""
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    options = flags.FLAGS
    sizes = [int(size) for size in options.vocab_sizes]
    found = {words: times(words, options) for words in sizes}
    names = list(heads(2))
    speeds = [["CPU time, ms", *(f"V = {words:,}" for words in sizes)]] + [
        [name, *(f"{found[w][name]:,.0f}" if name in found[w] else "–" for w in sizes)]
        for name in names
    ]
    errors = drift(options.long, max(1, options.long // 5))
    words, units, positions, rate = LONG.values()
    page = markdown.write(
        Path(options.results) / "README.md", "# Steps whose cost does not depend on V",
        __doc__.partition("\n\n")[2].strip("\n"),
        f"D = {options.units}, N = {options.positions} positions, float32, medians of "
        f"{options.turns} turns on {hardware()}.",
        markdown.table(speeds),
        f"Rounding over a long training: V = {words}, D = {units}, N = {positions}, learning rate "
        f"{rate}. The errors are the largest of [W, b] = A U and of its second moments, relative "
        "to the largest element. A is renewed when U is ill-conditioned, and the moments are then "
        "computed anew.",
        markdown.table([["step", "loss, nats", "error of the rows", "error of the moments",
                         "renewals"], *errors]),
    )
    print(page)


if __name__ == "__main__":
    flags.DEFINE_list("vocab_sizes", ["10000", "100000", "1000000"], "Numbers of words V.")
    flags.DEFINE_integer("units", 256, "Units D.")
    flags.DEFINE_integer("positions", 2560, "Positions N of a step.")
    flags.DEFINE_integer("turns", 3, "Turns of each case.")
    flags.DEFINE_integer("long", 2000, "Steps of the long training.")
    flags.DEFINE_string("results", "experiments/results/exact_update", "Directory of the page.")
    program.run(main, __doc__, sys.argv)

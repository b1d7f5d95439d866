#!/usr/bin/env python3
"""Sampling heads against `tf.nn.sampled_softmax_loss` and `tf.nn.nce_loss`: one training step.

    python experiments/benchmarks/sampled_step.py

Three tables, each of one interleaved run, medians, with Zipf labels and a log-uniform proposal:
loss and gradients of the same samples, beside the bare matmuls that samples without replacement
need; a whole step with the sampler and an optimiser that clips by the global norm; and that step
and its memory for growing vocabularies. Writes experiments/results/sampled_step/README.md.
"""

import pathlib
import statistics
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "sampled_step"
CLIPNORM = 1.0
FEW = 25  # samples where each position has its own

flags.DEFINE_integer("vocab_size", 200_606, "V of the comparisons with tf.nn")
flags.DEFINE_list("vocab_sizes", ["44370", "200606", "459454"], "V, several, for the last table")
flags.DEFINE_integer("positions", 2560, "N, positions in a batch")
flags.DEFINE_integer("units", 512, "D, units of the hidden state")
flags.DEFINE_integer("samples", 1280, "S, sampled words")
flags.DEFINE_integer("repeats", 15, "timed steps of each case")


def zipf_batch(vocab_size):
    """Hidden states (N, D) as a variable, and labels (N,) with P(w) proportional to 1 / (w + 1)."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    probabilities = 1 / np.arange(1, vocab_size + 1)
    labels = rng.choice(vocab_size, flags.FLAGS.positions, p=probabilities / probabilities.sum())
    hidden = rng.standard_normal((flags.FLAGS.positions, flags.FLAGS.units), np.float32)
    return tf.Variable(0.3 * hidden), tf.constant(labels.astype(np.int32))


def log_uniform(vocab_size, unique):
    from tfsoftmax import samplers

    return samplers.LogUniform(vocab_size, unique=unique)


def head_of(name, sampler, num_samples=None, **options):
    """A built head of our own that removes hits where tf.nn does by default."""
    import tfsoftmax

    if name == "NCE":
        options["Z"] = 1
    if name == "SampledSoftmax":
        options["remove_accidental_hits"] = True
    head = getattr(tfsoftmax, name)(
        sampler.vocab_size, num_samples or flags.FLAGS.samples, sampler, seed=1, **options
    )
    head.build((None, flags.FLAGS.units))
    return head


def fixed(candidates, vocab_size):
    """A sampler that draws the same candidates again and again."""
    from tfsoftmax import samplers

    class Fixed(samplers.LogUniform):
        def sample(self, labels, num_samples, seed):
            return candidates

    return Fixed(vocab_size)


def tf_loss(name, head, hidden, labels, candidates=None):
    """The loss of tf.nn (N,), of given candidates or of those it draws itself."""
    import tensorflow as tf

    function = tf.nn.nce_loss if name == "NCE" else tf.nn.sampled_softmax_loss
    values = None
    if candidates is not None:
        counts = tf.exp(candidates.log_expected_labels)[:, None], tf.exp(candidates.log_expected)
        values = (tf.cast(candidates.ids, tf.int64), *counts)
    return function(
        head.kernel.value, head.bias.value, labels[:, None], hidden, flags.FLAGS.samples,
        head.vocab_size, sampled_values=values,
    )


def gradients_of(loss, hidden, head):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        value = tf.reduce_mean(loss())
    return value, tape.gradient(value, [hidden, *[w.value for w in head.trainable_weights]])


def same_samples(vocab_size):
    """{case: function} of loss and gradients of the same samples, ours and tf.nn's."""
    import tensorflow as tf

    hidden, labels = zipf_batch(vocab_size)
    functions = {"bare matmuls": matmuls(hidden)}
    for replacement in ("with", "without"):
        for name in ("SampledSoftmax", "NCE"):
            sampler = log_uniform(vocab_size, replacement == "without")
            candidates = sampler.sample(labels, flags.FLAGS.samples, 1)
            head = head_of(name, fixed(candidates, vocab_size))
            theirs = tf.function(lambda n=name, h=head, c=candidates: gradients_of(
                lambda: tf_loss(n, h, hidden, labels, c), hidden, h))
            ours = tf.function(lambda h=head: gradients_of(
                lambda: h.training_loss(hidden, labels), hidden, h))
            functions[f"tf.nn, {name}, {replacement} replacement"] = theirs
            functions[f"tfsoftmax, {name}, {replacement} replacement"] = ours
    head = head_of("NCE", log_uniform(vocab_size, False), FEW, shared_samples=False)
    functions[f"tfsoftmax, NCE, {FEW} samples for each position"] = tf.function(
        lambda h=head: gradients_of(lambda: h.training_loss(hidden, labels), hidden, h))
    for name in ("BlackOut", "NegativeSampling"):
        head = head_of(name, fixed(candidates, vocab_size))
        functions[f"tfsoftmax, {name}, without replacement"] = tf.function(
            lambda h=head: gradients_of(lambda: h.training_loss(hidden, labels), hidden, h))
    return functions


def matmuls(hidden):
    """The products (N, D, S) of a step without replacement: forward, dh, dW."""
    import tensorflow as tf

    rows = tf.random.normal([flags.FLAGS.samples, flags.FLAGS.units])

    @tf.function
    def function():
        scores = tf.matmul(hidden, rows, transpose_b=True)
        return scores[0, 0], tf.matmul(scores, rows), tf.matmul(scores, hidden, transpose_a=True)

    return function


def whole_step(name, vocab_size, own, unique):
    """A function that draws, computes and updates: ours with our Adagrad, or tf.nn with Keras's."""
    import keras
    import tensorflow as tf

    import tfsoftmax

    hidden, labels = zipf_batch(vocab_size)
    head = head_of(name, log_uniform(vocab_size, unique))
    kind = tfsoftmax.optimizers.Adagrad if own else keras.optimizers.Adagrad
    optimizer = kind(0.1, global_clipnorm=CLIPNORM)
    optimizer.build(head.trainable_variables)

    @tf.function
    def step():
        def loss():
            if own:
                return head.training_loss(hidden, labels)
            return tf_loss(name, head, hidden, labels)

        value, (d_hidden, *gradients) = gradients_of(loss, hidden, head)
        optimizer.apply(gradients, head.trainable_variables)
        return value, d_hidden

    return step


def medians(functions):
    """{case: (median, spread)} in milliseconds, of one interleaved run."""
    for function in functions.values():
        function()
        function()
    seconds = {name: [] for name in functions}
    for _ in range(flags.FLAGS.repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()[0].numpy()
            seconds[name].append(time.perf_counter() - start)
    return {
        name: (1000 * statistics.median(v), 1000 * (max(v) - min(v))) for name, v in seconds.items()
    }


def peak_of(step):
    """MiB at the peak of a step beyond what stays allocated."""
    import tensorflow as tf

    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    step()
    return (tf.config.experimental.get_memory_info("CPU:0")["peak"] - before) / 2**20


def distinct():
    """Mean number of different words in a sample with replacement."""
    import numpy as np

    sampler = log_uniform(flags.FLAGS.vocab_size, False)
    draws = [sampler.sample([0], flags.FLAGS.samples, seed).ids for seed in range(20)]
    return np.mean([len(np.unique(ids)) for ids in draws])


def first_table():
    times = medians(same_samples(flags.FLAGS.vocab_size))
    floor = times["bare matmuls"][0]
    lines = [f"## Loss and gradients of the same samples, V = {flags.FLAGS.vocab_size:,}", "",
             "| | ms | spread | to tf.nn | to bare matmuls |", "|---|---|---|---|---|"]
    for name, (median, spread) in times.items():
        peer = times.get(name.replace("tfsoftmax", "tf.nn"), (0, 0))[0]
        ratio = f"{median / peer:.2f}" if peer and name.startswith("tfsoftmax") else ""
        lines.append(f"| {name} | {median:.1f} | {spread:.1f} | {ratio} | {median / floor:.2f} |")
    return lines


def second_table():
    size, cases = flags.FLAGS.vocab_size, {}
    for name in ("SampledSoftmax", "NCE"):
        cases[f"{name}: tf.nn, keras Adagrad"] = whole_step(name, size, False, True)
        cases[f"{name}: tfsoftmax, without replacement"] = whole_step(name, size, True, True)
        cases[f"{name}: tfsoftmax, with replacement"] = whole_step(name, size, True, False)
    times = medians(cases)
    lines = ["", f"## A whole step with Adagrad(global_clipnorm={CLIPNORM}), V = {size:,}", "",
             "| | ms | spread | ratio |", "|---|---|---|---|"]
    for name, (median, spread) in times.items():
        peer = times[name.partition(":")[0] + ": tf.nn, keras Adagrad"][0]
        lines.append(f"| {name} | {median:.1f} | {spread:.1f} | {median / peer:.2f} |")
    return lines


def third_table():
    sizes = [int(size) for size in flags.FLAGS.vocab_sizes]
    steps = {size: whole_step("SampledSoftmax", size, True, True) for size in sizes}
    times = medians(steps)
    lines = ["", "## A whole step of SampledSoftmax, without replacement, with our Adagrad", "",
             f"| V | ms | spread | to V = {sizes[0]:,} | MiB at the peak beyond the variables |",
             "|---|---|---|---|---|"]
    for size, (median, spread) in times.items():
        ratio = median / times[sizes[0]][0]
        lines.append(
            f"| {size:,} | {median:.1f} | {spread:.1f} | {ratio:.2f} | {peak_of(steps[size]):.0f} |"
        )
    return lines


def main(_):
    from tfsoftmax.runs import hardware

    options = flags.FLAGS
    lines = [
        "# Sampling heads: one training step", "",
        f"`python experiments/benchmarks/sampled_step.py` on {hardware()}; N = "
        f"{options.positions:,} positions, D = {options.units}, S = {options.samples:,} samples, "
        f"float32, medians of {options.repeats} interleaved steps (spread: slowest minus fastest).",
        "",
        "`tf.nn` computes duplicate samples as often as they were drawn; with replacement we "
        f"compute them once, {distinct():.0f} of {options.samples:,} words. The samplers of the second table are each side's own; `tf.nn` draws "
        "without replacement.", "", *first_table(), *second_table(), *third_table(),
    ]
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    (RESULTS / "README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    app.run(main)

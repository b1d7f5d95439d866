"""Trains a softmax over ten million words in shards, and measures what each device holds.

    python -m experiments.measurements.ten_million
    python -m experiments.measurements.ten_million --vocab_size=1000000 --devices=2

The devices are simulated: virtual CPUs of one process, under `tf.distribute.MirroredStrategy`, so
that memory is as it would be on as many real ones, and time is not. The model is an embedding of
1,000 hashed words, a tanh layer and `tfsoftmax.ShardedSoftmax`, trained by Adagrad, clipped by the
global norm, on one batch again and again, with `compile` and `fit` as on one device. Writes
experiments/results/ten_million/README.md.
"""

import sys
import time
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.worker_step import strategy_of
from experiments.framework import markdown
from tfsoftmax.commands import program

MIB = 1 << 20
HASHED = 1000


def model_in_shards(vocab_size, units):
    """A compiled model with its optimiser's slots."""
    import keras

    from tfsoftmax import optimizers
    from tfsoftmax.heads import ShardedSoftmax
    from tfsoftmax.losses import SoftmaxLoss

    words = keras.Input((), dtype="int32")
    hidden = keras.layers.Embedding(HASHED, units)(words)
    hidden = keras.layers.Dense(units, activation="tanh")(hidden)
    model = keras.Model(words, ShardedSoftmax(vocab_size)(hidden))
    model.compile(optimizers.Adagrad(0.1, global_clipnorm=1.0), SoftmaxLoss())
    model.optimizer.build(model.trainable_variables)
    return model


def bytes_by_device(strategy, variables):
    """{device: bytes} of variables, of which each replica has its own part or copy."""
    found = {}
    for variable in variables:
        for part in strategy.experimental_local_results(variable.value):
            size = part.dtype.size * int(np.prod(part.shape))
            found[part.device] = found.get(part.device, 0) + size
    return found


def memory_table(strategy, model, vocab_size, units):
    """What each device holds, against ⌈V / P⌉ rows."""
    from tfsoftmax.sharding.shards import sharded_words
    from tfsoftmax.sharding.weights import shards_of

    variables = [*model.weights, *model.optimizer.variables]
    head = model.layers[-1]
    slots = [v for v in model.optimizer.variables if sharded_words(v)]
    others = [v for v in variables if not sharded_words(v)]
    most = -(-vocab_size // strategy.num_replicas_in_sync)
    rows = [["device", "words", "kernel and bias, MiB", "their slots, MiB", "all else, MiB",
             "⌈V / P⌉ rows with slots, MiB", "all V rows with slots, MiB"]]
    groups = [bytes_by_device(strategy, g) for g in (head.weights, slots, others)]
    for shard, part in shards_of(head.kernel):
        sizes = [group[part.device] / MIB for group in groups]
        bound, whole = (2 * n * (units + 1) * 4 / MIB for n in (most, vocab_size))
        rows.append([part.device.rpartition("device:")[2], f"{shard.words:,}",
                     *(f"{size:,.1f}" for size in (*sizes, bound, whole))])
    return markdown.table(rows)


def main():
    """Writes the page."""
    program.load_tensorflow()
    import keras

    from tfsoftmax.profiling.memory import peak_resident_bytes, resident_bytes
    from tfsoftmax.support.hardware import hardware

    options = flags.FLAGS
    strategy = strategy_of(options.devices)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = model_in_shards(options.vocab_size, options.units)
    built = resident_bytes()
    rng = np.random.default_rng(0)
    words = rng.integers(0, HASHED, options.positions).astype(np.int32)
    labels = rng.integers(0, options.vocab_size, options.positions)
    losses, seconds = [], []
    for _ in range(options.steps):
        start = time.perf_counter()
        history = model.fit(words, labels, batch_size=options.positions, verbose=0)
        seconds.append(time.perf_counter() - start)
        losses.append(history.history["loss"][0])
        print(f"loss {losses[-1]:.4f}, {seconds[-1]:.1f} s", flush=True)
    exact = model.evaluate(words, labels, batch_size=options.positions, verbose=0)
    gib = MIB << 10
    page = markdown.write(
        Path(options.results) / "README.md", "# Ten million words in shards",
        __doc__.partition("\n\n")[2].strip("\n"),
        f"V = {options.vocab_size:,}, D = {options.units}, P = {options.devices} simulated "
        f"devices, {options.positions} positions a step, float32, on {hardware()}. What each "
        "device holds:",
        memory_table(strategy, model, options.vocab_size, options.units),
        f"The process, which is all {options.devices} devices at once, held {built / gib:.1f} GiB "
        f"with the model built, and {peak_resident_bytes() / gib:.1f} GiB at most: variables, "
        "gradients and the temporaries of the update.",
        f"The loss starts near ln V = {np.log(options.vocab_size):.3f} nats and falls, as it "
        f"should on a batch that repeats, to {exact:.3f} after the last step:",
        markdown.table([
            ["step", *map(str, range(1, options.steps + 1))],
            ["loss, nats", *(f"{loss:.3f}" for loss in losses)],
            ["seconds, the first with tracing", *(f"{s:.1f}" for s in seconds)],
        ]),
    )
    print(page)


if __name__ == "__main__":
    flags.DEFINE_integer("vocab_size", 10_000_000, "Number of words V.")
    flags.DEFINE_integer("units", 64, "Units D.")
    flags.DEFINE_integer("devices", 4, "Number of simulated devices P.")
    flags.DEFINE_integer("positions", 8, "Positions of a step.")
    flags.DEFINE_integer("steps", 5, "Number of steps.")
    flags.DEFINE_string("results", "experiments/results/ten_million", "Directory of the page.")
    program.run(main, __doc__, sys.argv)

"""Where a trained softmax holds its probability, and what a drawn gradient saves and costs.

    python -m experiments.measurements.light_blocks --run=runs/sampled --text=valid.txt.gz \\
        --parts=tiles,variance
    python -m experiments.measurements.light_blocks --run=runs/sampled --text=valid.txt.gz \\
        --parts=time --vocab_size=200606 --results=experiments/results/light_blocks/200606

`FullSoftmax(gradient_share=0.25)` computes the exact loss, and its gradient from a quarter of the
tiles of up to 512 positions times 512 words, drawn so that the mean over all draws is the gradient.
This program reads the text with a trained run whose head has a kernel row and a bias for each word,
in batches of --streams times --time_steps positions as in training, and reports

  * tiles: how many have no probability above 2^-12, which the Cut Cross-Entropy of Wijmans et al.
    2025 leaves out, the mass that they hold, and the error of the gradient without them;
  * variance: that of the drawn gradient by share, by width of a tile and by what decides how likely
    a tile is drawn, relative to the squared norm of the whole gradient, beside that of sampled
    softmax of equal cost, and how much the gradients of other batches differ;
  * time: that of a step by share and width, as ratios to that of the exact gradient and to its
    three bare matrix products, all in turn, on one thread. The update is that of Adagrad.

--vocab_size grows the run's vocabulary as experiments/benchmarks/search.py does. The page is
README.md in --results.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks import floor, search
from experiments.benchmarks.measure import medians
from experiments.framework import markdown, pictures
from experiments.measurements.light_tiles import (
    SHARE,
    SHARES,
    WIDTH,
    Tiles,
    drawing,
    light_table,
    variance_table,
)
from tfsoftmax.commands import program
from tfsoftmax.support import budgets

WIDTHS = (256, 512, 1024, 2048)
WARM_UP, BATCHES = 100, 4


def head_of(kernel, bias, **options):
    """A head with the weights of the run."""
    from tfsoftmax.heads import FullSoftmax, SampledSoftmax

    kind = SampledSoftmax if "num_samples" in options else FullSoftmax
    return search.with_weights(kind(len(kernel), seed=1, **options), kernel, bias)


def stepping(head, hidden, labels, update=False):
    """A function that computes the gradients, and makes the update if told so."""
    from tfsoftmax.optimizers import Adagrad
    from tfsoftmax.profiling.head_step import head_step

    weights = np.full(len(labels), 1 / len(labels), np.float32)
    step = head_step(
        lambda hidden, labels: head.loss_and_nats(hidden, labels, weights)[0],
        head.trainable_variables, hidden, labels, (lambda: Adagrad(0.0)) if update else None,
    )
    step()  # traces it with the share and the width of now
    return step


def dense_gradients(head, hidden, labels):
    """The gradients of the mean nats by hidden states and kernel, as arrays."""
    import tensorflow as tf

    hidden = tf.constant(hidden)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        total, _ = head.loss_and_nats(hidden, labels, tf.fill(labels.shape, 1 / len(labels)))
    found = tape.gradient(total, [hidden, head.kernel.value])
    return [tf.convert_to_tensor(gradient).numpy() for gradient in found]


def noise(kernel, bias, hidden, labels, whole, draws, **options):
    """Mean squared errors of the gradients of hidden states and kernel, relative to their norms."""
    head = head_of(kernel, bias, **options)
    errors = [
        [np.sum(np.square(one - exact)) / np.sum(np.square(exact))
         for one, exact in zip(dense_gradients(head, hidden, labels), whole)]
        for _ in range(draws)
    ]
    return np.mean(errors, axis=0)


def drawn_table(kernel, bias, batches, draws):
    """Measured errors: drawn tiles, sampled softmax, and the gradient of another batch."""
    exact = head_of(kernel, bias)
    wholes = [dense_gradients(exact, *batch) for batch in batches]
    samples = round(len(kernel) * (1 + 2 * SHARE) / 3)
    rows = [["gradient", "kernel", "hidden states"]]
    for name, kwargs in {
        **{f"gradient_share={share:g}": {"gradient_share": share} for share in (0.25, 0.125)},
        f"sampled softmax, S = {samples:,}, of the cost of 0.25": {
            "num_samples": samples, "sampler": "log_uniform", "remove_accidental_hits": True,
        },
    }.items():
        errors = noise(kernel, bias, *batches[0], wholes[0], draws, **kwargs)
        rows.append([name, *(f"{e:.2g}" for e in errors[::-1])])
        print(*rows[-1], sep=" | ", flush=True)
    of_kernel = np.stack([whole[1] for whole in wholes])
    mean = np.sum(np.var(of_kernel, axis=0, ddof=1)) / np.mean(np.sum(of_kernel**2, axis=(1, 2)))
    rows.append([f"another batch of {len(batches[0][1]):,} positions", f"{mean:.2g}", "–"])
    return markdown.table(rows), {"words": len(kernel), "squares": [
        np.sum(np.square(g), dtype=float) for g in wholes[0][::-1]
    ]}


def times_table(kernel, bias, batch, repeats):
    """Times of steps by share and width."""
    shares, widths = map(float, flags.FLAGS.shares), map(int, flags.FLAGS.widths)
    cases = [(None, WIDTH), *((share, WIDTH) for share in shares)]
    cases += [(SHARE, width) for width in widths if width != WIDTH]
    head, found = head_of(kernel, bias, gradient_share=SHARE), {}
    for update in (False, True):
        product = floor.Product(*batch[0].shape, len(kernel))
        functions = {} if update else {"floor": floor.matmuls([product], "float32")}
        for case in cases:
            if not update or case[1] == WIDTH:
                head.gradient_share, budgets.TILE_WORDS = case
                functions[case] = stepping(head, *batch, update)
        found[update] = {case: cpu for case, (_, cpu) in medians(functions, repeats).items()}
    budgets.TILE_WORDS = WIDTH
    rows = [["gradient", "words of a tile", "gradients, ms", "of the exact one",
             "of three matrix products", "with the update, of the exact one"]]
    for share, width in cases:
        seconds, updated = (of.get((share, width)) for of in found.values())
        exact, exact_updated = (of[None, WIDTH] for of in found.values())
        rows.append([
            f"{share:g}" if share else "exact", f"{width:,}" if share else "–",
            f"{1000 * seconds:,.0f}", f"{seconds / exact:.2f}",
            f"{seconds / found[False]['floor']:.2f}",
            f"{updated / exact_updated:.2f}" if updated else "–",
        ])
    return markdown.table(rows)


def main():
    """Writes the page."""
    options = flags.FLAGS
    program.load_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from tfsoftmax.support.hardware import hardware

    steps = options.time_steps
    length = WARM_UP + BATCHES * steps
    *of_run, hidden, labels = search.trained(options.run, options.text, options.streams, length)
    batches = [
        (hidden[:, i : i + steps].reshape(-1, hidden.shape[-1]),
         labels[:, i : i + steps].reshape(-1).astype(np.int32))
        for i in range(WARM_UP, length, steps)
    ]
    kernel, bias, _ = search.grown(*of_run, options.vocab_size or len(of_run[0]))
    hidden, labels = batches[0]
    nats = -head_of(kernel, bias).log_prob(hidden, labels).numpy().mean()
    grown = f", grown from {len(of_run[0]):,}" if len(kernel) > len(of_run[0]) else ""
    note = (
        f"V = {len(kernel):,}{grown}, D = {kernel.shape[1]}, N = {len(labels):,} positions, "
        f"perplexity {np.exp(nats):.0f}, {hardware()}"
    )
    trained_by = json.loads((Path(options.run) / "config.json").read_text())["model"]["head"]
    page = [f"{note}, one thread. The run was trained with `--head={trained_by}`."]
    folder = Path(options.results)
    if {"tiles", "variance"} & {*options.parts}:
        drawn, whole = drawn_table(kernel, bias, batches, options.draws)
        tiles_of = {width: (Tiles(kernel, bias, hidden, width), whole) for width in WIDTHS}
    if "tiles" in options.parts:
        page += [
            "## Light tiles", light_table(tiles_of),
            "The last columns are the norms of what leaving such tiles out takes from the "
            "gradients, relative to the norms of the gradients.",
            pictures.shown(
                lambda: drawing(tiles_of[WIDTH][0], note), folder / "tiles.png",
                "How often each tile is drawn, by the rank of its words. The most frequent words "
                "are certain, and the others are the likelier the more they hold."
            ),
        ]
    if "variance" in options.parts:
        page += [
            "## Variance",
            "Relative to the squared norm of the whole gradient, if tiles are drawn independently:",
            variance_table(tiles_of),
            f"Mean squared errors of {options.draws} draws, and how gradients of batches differ:",
            drawn,
        ]
    if "time" in options.parts:
        page += [
            "## Time", f"CPU time of a step, medians of {options.repeats} turns.",
            times_table(kernel, bias, batches[0], options.repeats),
        ]
    print(markdown.write(
        folder / "README.md", "# Exact loss, drawn gradient",
        __doc__.partition("\n\n")[2].strip("\n"),
        f"Flags of this page besides --run and --text: {_flags()}.", *page,
    ))


def _flags():
    given = [each for each in sys.argv[1:] if not each.startswith(("--run=", "--text="))]
    return f"`{' '.join(given)}`" if given else "none"


if __name__ == "__main__":
    flags.DEFINE_string("run", None, "Directory of a run.", required=True)
    flags.DEFINE_string("text", None, "Text that the run reads, a sentence a line.", required=True)
    flags.DEFINE_integer("vocab_size", 0, "Number of words V; 0 for the run's.")
    flags.DEFINE_list("parts", ["tiles", "variance", "time"], "Parts of the page.")
    flags.DEFINE_list("shares", [f"{share:g}" for share in SHARES], "Shares that are timed.")
    flags.DEFINE_list("widths", [str(width) for width in WIDTHS], "Words of tiles, timed.")
    flags.DEFINE_integer("streams", 128, "Streams of a batch.")
    flags.DEFINE_integer("time_steps", 20, "Positions of a stream in a batch.")
    flags.DEFINE_integer("draws", 8, "Draws of each gradient whose error is measured.")
    flags.DEFINE_integer("repeats", 7, "Timed steps of each case.")
    flags.DEFINE_string("results", "experiments/results/light_blocks", "Directory of the page.")
    program.run(main, __doc__, sys.argv)

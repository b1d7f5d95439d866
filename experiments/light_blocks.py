"""Where a trained softmax holds its probability, and what a drawn gradient saves and costs.

    python -m experiments.light_blocks --run=runs/sampled --text=valid.txt.gz --parts=tiles,variance
    python -m experiments.light_blocks --run=runs/sampled --text=valid.txt.gz --parts=time \\
        --vocab_size=200606 --results=experiments/results/light_blocks/200606

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

import functools
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments import markdown, pictures
from experiments.benchmarks import floor, search
from experiments.benchmarks.measure import medians
from tfsoftmax.commands import program
from tfsoftmax.textio import lines

THRESHOLD = 2.0**-12
ROWS, WIDTH, SHARE = 512, 512, 0.25
WIDTHS, SHARES = (256, 512, 1024, 2048), (0.5, 0.25, 0.125)
WARM_UP, BATCHES = 100, 4


def trained(directory, path, streams, steps):
    """Kernel, bias and counts of a run, and batches of hidden states (N, D) and labels (N,)."""
    import keras

    from tfsoftmax.lm import runs

    model, vocabulary, _ = runs.load(directory, streams=None, stateful=False)
    head, length = model.get_layer("head"), WARM_UP + BATCHES * steps
    words = (word for _, line in lines(path) for word in [*line.split(), "<eos>"])
    ids = vocabulary.encode(["<eos>", *itertools.islice(words, streams * length)])
    inputs, labels = (part.reshape(streams, length) for part in (ids[:-1], ids[1:]))
    hidden = keras.Model(model.input, head.input)(inputs, training=False).numpy()
    batches = [
        (hidden[:, i : i + steps].reshape(streams * steps, -1),
         labels[:, i : i + steps].reshape(-1).astype(np.int32))
        for i in range(WARM_UP, length, steps)
    ]
    return head.kernel.numpy(), head.bias.numpy(), np.array(vocabulary.counts, float), batches


class Tiles:
    """What each tile of a batch holds, and the squared norms of its part of the gradient.

    Args:
        kernel, bias: (V, D) and (V,).
        hidden: (N, D).
        width: words of a tile.

    Attributes:
        highest, mass, below: (chunks, tiles): the largest probability, the sum of all, and how
            many lie below the threshold.
        of_kernel, of_hidden: (chunks, tiles): squared norms of the gradients of the mean nats.
        sizes: {name: (chunks, tiles)} by which tiles may be drawn.
        dropped: squared norms of the gradients' part in tiles below the threshold.
    """

    def __init__(self, kernel, bias, hidden, width):
        found, count = [], len(hidden)
        left_out = np.zeros_like(kernel), np.zeros_like(hidden)
        for first in range(0, count, ROWS):
            rows = slice(first, first + ROWS)
            logits = hidden[rows] @ kernel.T + bias
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            for start in range(0, len(kernel), width):
                words = slice(start, start + width)
                q = p[:, words]
                of_kernel, of_hidden = q.T @ hidden[rows] / count, q @ kernel[words] / count
                if q.max() < THRESHOLD:
                    left_out[0][words] += of_kernel
                    left_out[1][rows] += of_hidden
                squares = [np.sum(np.square(g), dtype=float) for g in (of_kernel, of_hidden)]
                found.append([
                    q.max(), q.sum(), np.sum(q < THRESHOLD), *squares,
                    np.linalg.norm(q.sum(0)), np.linalg.norm(q),
                ])
        tiles = -(-len(kernel) // width)
        columns = np.array(found).reshape(-1, tiles, 7).transpose(2, 0, 1)
        self.highest, self.mass, self.below, self.of_kernel, self.of_hidden, *norms = columns
        self.sizes = {
            "all alike": np.ones_like(self.mass), "mass Σ p": self.mass,
            "norm of Σ_n p (the head's)": norms[0], "root of Σ p²": norms[1],
            "norm of the kernel's gradient": self.of_kernel**0.5,
        }
        self.dropped = [np.sum(np.square(part)) for part in left_out]

    def variance(self, size, share):
        """Of the gradients of kernel and hidden states, if tiles are drawn independently."""
        inclusion = self.inclusion(size, share)
        return [np.sum(g * (1 / inclusion - 1)) for g in (self.of_kernel, self.of_hidden)]

    def inclusion(self, size, share):
        """π (chunks, tiles)."""
        from tfsoftmax.ops.drawn_tiles import inclusion_probabilities

        count = math.ceil(share * self.mass.shape[1])
        return np.stack([inclusion_probabilities(s, count).numpy() for s in self.sizes[size]])


HEADS_SIZE = "norm of Σ_n p (the head's)"


def head_of(kernel, bias, **options):
    """A head with the weights of the run."""
    from tfsoftmax.heads import FullSoftmax, SampledSoftmax

    kind = SampledSoftmax if "num_samples" in options else FullSoftmax
    head = kind(len(kernel), seed=1, **options)
    head.build((None, kernel.shape[1]))
    head.kernel.assign(kernel)
    head.bias.assign(bias)
    return head


def gradients_of(head, hidden, labels):
    """Gradients of the mean nats: those of hidden states, and of kernel and biases."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(hidden)
        total, _ = head.loss_and_nats(hidden, labels, tf.fill(labels.shape, 1 / labels.shape[0]))
    return tape.gradient(total, [hidden, *(v.value for v in head.trainable_variables)])


def stepping(head, hidden, labels, update=False):
    """A function that computes the gradients, and makes the update if told so."""
    import tensorflow as tf

    from tfsoftmax.optimizers import Adagrad

    hidden, labels, optimizer = tf.constant(hidden), tf.constant(labels), Adagrad(0.0)
    if update:
        optimizer.build(head.trainable_variables)

    @functools.partial(tf.function, autograph=False)
    def step():
        of_hidden, *others = gradients_of(head, hidden, labels)
        if update:
            optimizer.apply(others, head.trainable_variables)
        # Gradients of which nothing is used would not be computed.
        return tf.add_n([tf.reshape(g, [-1])[0] for g in (of_hidden, *others)])

    traced = step.get_concrete_function()
    return lambda: traced().numpy()


def dense_gradients(head, hidden, labels):
    """The gradients of hidden states and kernel, as arrays."""
    import tensorflow as tf

    found = gradients_of(head, tf.constant(hidden), tf.constant(labels))[:2]
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


def light_table(tiles_of):
    """How much of the probability lies in tiles with no likely word."""
    rows = [["words of a tile", "tiles below 2^-12", "their mass", "elements below 2^-12",
             "their gradient: kernel", "hidden states"]]
    for width, (tiles, whole) in tiles_of.items():
        light = tiles.highest < THRESHOLD
        rows.append([
            f"{width:,}", f"{light.mean():.1%}",
            f"{tiles.mass[light].sum() / tiles.mass.sum():.1%}",
            f"{tiles.below.sum() / (tiles.mass.sum() * whole['words']):.1%}",
            *(f"{np.sqrt(part / square):.1%}"
              for part, square in zip(tiles.dropped, whole["squares"])),
        ])
    return markdown.table(rows)


def variance_table(tiles_of):
    """Variances by size, share and width."""
    rows = [["tiles are drawn by", "share", "words of a tile", "kernel", "hidden states"]]
    cases = [(name, SHARE, WIDTH) for name in tiles_of[WIDTH][0].sizes]
    cases += [(HEADS_SIZE, share, WIDTH) for share in SHARES if share != SHARE]
    cases += [(HEADS_SIZE, SHARE, width) for width in tiles_of if width != WIDTH]
    for name, share, width in cases:
        tiles, whole = tiles_of[width]
        ratios = [v / w for v, w in zip(tiles.variance(name, share), whole["squares"])]
        rows.append([name, f"{share:g}", f"{width:,}", *(f"{ratio:.2g}" for ratio in ratios)])
    return markdown.table(rows)


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
    from tfsoftmax.ops import drawn_tiles

    shares, widths = map(float, flags.FLAGS.shares), map(int, flags.FLAGS.widths)
    cases = [(None, WIDTH), *((share, WIDTH) for share in shares)]
    cases += [(SHARE, width) for width in widths if width != WIDTH]
    head, found = head_of(kernel, bias, gradient_share=SHARE), {}
    for update in (False, True):
        product = floor.Product(*batch[0].shape, len(kernel))
        functions = {} if update else {"floor": floor.matmuls([product], "float32")}
        for case in cases:
            if not update or case[1] == WIDTH:
                head.gradient_share, drawn_tiles.TILE_WORDS = case
                functions[case] = stepping(head, *batch, update)
        found[update] = {case: cpu for case, (_, cpu) in medians(functions, repeats).items()}
    drawn_tiles.TILE_WORDS = WIDTH
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


def drawing(tiles, note):
    """The picture: how often each tile is drawn, and its mass, by the rank of its words."""
    figure = pictures.new(9, 4.4, "How often the tiles of a chunk are drawn", note)
    axes = figure.subplots()
    edges = np.append(np.arange(tiles.mass.shape[1]) * WIDTH, tiles.mass.shape[1] * WIDTH)
    for share, colour in zip(SHARES, pictures.COLOURS):
        inclusion = tiles.inclusion(HEADS_SIZE, share).mean(0)
        axes.stairs(inclusion, edges, color=colour, label=f"share {share:g}", linewidth=1.5)
    mass = tiles.mass.sum(0) / tiles.mass.sum()
    axes.stairs(mass, edges, color=pictures.GREY, fill=True, label="probability of the tile")
    axes.set(xlabel="rank of the word", ylabel="π, mean of the chunks", ylim=(1e-4, 1.3))
    axes.set_yscale("log")
    pictures.frame(axes)
    axes.legend(fontsize=9, frameon=False)
    return figure


def main():
    """Writes the page."""
    options = flags.FLAGS
    program.load_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from tfsoftmax.hardware import hardware

    *of_run, batches = trained(options.run, options.text, options.streams, options.time_steps)
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
        f"The command was `python -m experiments.light_blocks {' '.join(sys.argv[1:])}`.", *page,
    ))


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

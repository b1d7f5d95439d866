"""Search for the likeliest words: indexes compared with the exact `top_k` of a full softmax.

    python -m experiments.benchmarks.search --run=runs/jiang/full-seed1 \\
        --text=data/novels/valid.txt.gz

Random vectors make searches look worse than they are, so kernel, biases and hidden states come from
a trained run, which reads the text. A vocabulary larger than the run's gets more words, each near
a trained one: its row is that of a word drawn at random, plus 0.7 / √2 of the difference between
two other rows, scaled to the length it had. Counts continue by Zipf's law, and the bias changes by
the logarithm of the ratio of the counts. Every way to search takes turns with the exact `top_k`,
and the medians count; a call of one position takes another position each time. `wta` is
winner-take-all hashing (Yagnik et al. 2011; Vijayanarasimhan et al. 2014), written in NumPy here.

Writes experiments/results/search/README.md. It needs `pip install faiss-cpu`.
"""

import itertools
import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.indexes import BATCH, Way, compared
from experiments.benchmarks.quiet import Others
from experiments.framework import markdown
from tfsoftmax.commands import program
from tfsoftmax.support.textio import lines

RESULTS = Path("experiments/results/search")
KS, K, TRIALS = (1, 10, 100), 10, 10
HEADINGS = ["V", "", "build, s", "bytes / rows'", *(f"recall@{k}" for k in KS),
            "1 position, ms", "times as fast", f"{BATCH} positions, ms", "times as fast"]
ESTIMATES = ["V", "words drawn", "S", "error stated", "error, RMS", "in the interval of 95 %"]
WAYS = {
    "hnsw, breadth 50, no ln Z": Way("hnsw", "efSearch", 50, {"candidates": 50, "samples": 0}),
    "hnsw": Way("hnsw", "efSearch", 200),
    "hnsw, breadth 800": Way("hnsw", "efSearch", 800),
    "ivf, probes 8": Way("ivf", "nprobe", 8),
    "ivf": Way("ivf", "nprobe", 32),
    "ivf, probes 128": Way("ivf", "nprobe", 128),
}


class WinnerTakeAll:
    """Hash tables whose keys say which of a few random units is the largest.

    Args:
        vectors: (V, D) float32.
        bands: number of tables.
        codes: number of such choices that make up a key.
        window: among how many units each choice is.
        seed: of the choices.

    Source: Yagnik et al. 2011; Vijayanarasimhan et al. 2014.
    """

    def __init__(self, vectors, bands=128, codes=4, window=8, seed=0):
        self.vectors, self.powers = vectors, window ** np.arange(codes)
        shape, units = (bands, codes, window), vectors.shape[1]
        self.units = np.random.default_rng(seed).integers(units, size=shape)
        self.order, self.keys = [], []
        for band in range(bands):
            keys = self.keys_of(vectors, band)
            self.order.append(np.argsort(keys, kind="stable").astype(np.int32))
            self.keys.append(keys[self.order[-1]])

    def keys_of(self, vectors, band):
        """The keys (n,) of vectors in one of the tables."""
        codes = [vectors[:, units].argmax(1) for units in self.units[band]]
        return (np.stack(codes, 1) @ self.powers).astype(np.int32)

    def search(self, queries, k, candidates=2000):
        """Ids (n, k): those of the most common keys, the largest inner products first."""
        keys = [self.keys_of(queries, band) for band in range(len(self.keys))]
        result = []
        for row, query in enumerate(queries):
            same = []
            for order, known, own in zip(self.order, self.keys, keys):
                first, last = np.searchsorted(known, [own[row], own[row] + 1])
                same.append(order[first:last])
            votes = np.bincount(np.concatenate(same), minlength=len(self.vectors))
            ids = np.argpartition(-votes, candidates)[:candidates]
            scores = self.vectors[ids] @ query
            result.append(ids[np.argsort(-scores)[:k]])
        return np.array(result)

    @property
    def nbytes(self):
        return sum(array.nbytes for array in self.order + self.keys)


def grown(kernel, bias, counts, vocab_size, seed=0):
    """Kernel, bias and counts of a larger vocabulary; the module's docstring says how."""
    rng, known = np.random.default_rng(seed), len(kernel)
    more = max(0, vocab_size - known)
    parents, one, other = rng.integers(known, size=(3, more))
    rows = kernel[parents] + 0.7 / 2**0.5 * (kernel[one] - kernel[other])
    rows *= np.linalg.norm(kernel[parents], axis=1, keepdims=True) / np.linalg.norm(
        rows, axis=1, keepdims=True
    )
    of_more = counts.min() * known / np.arange(known + 1, known + more + 1)
    biases = bias[parents] + np.log(of_more / counts[parents])
    joined = [np.concatenate(p)[:vocab_size] for p in (
        (kernel, rows), (bias, biases), (counts, of_more)
    )]
    return joined[0].astype(np.float32), joined[1].astype(np.float32), joined[2]


def trained(directory, path, streams, length):
    """What a run has learnt, and what it makes of a text.

    Args:
        directory: that of the run, whose head has a kernel row and a bias for each word.
        path: that of the text, a sentence a line.
        streams, length: how many parts of the text are read, and how many words of each.

    Returns:
        Kernel, biases and counts of the words, hidden states (streams, length, D), and labels
        (streams, length).
    """
    import keras

    from tfsoftmax.runs import runs

    model, vocabulary, _ = runs.load(directory, streams=None, stateful=False)
    head = model.get_layer("head")
    words = (word for _, line in lines(path) for word in [*line.split(), "<eos>"])
    ids = vocabulary.encode(["<eos>", *itertools.islice(words, streams * length)])
    inputs, labels = (part.reshape(streams, length) for part in (ids[:-1], ids[1:]))
    hidden = keras.Model(model.input, head.input)(inputs, training=False).numpy()
    counts = np.array(vocabulary.counts, float)
    return head.kernel.numpy(), head.bias.numpy(), counts, hidden, labels


def with_weights(head, kernel, bias):
    """A head that is built with a kernel (V, D) and biases (V,)."""
    head.build((None, kernel.shape[1]))
    head.kernel.assign(kernel)
    head.bias.assign(bias)
    return head


def measured(head, hidden, repeats):
    """The rows of the table of one vocabulary, the ids of the exact best, and the indexes."""
    def find(rows, index):
        return head.top_k(rows, K, **({} if index is None else {"index": index}))[1]

    return compared(
        head, hidden, WAYS, KS, find, repeats, lambda count, seconds: f"{1000 * seconds:,.2f}",
        [("wta", lambda: WinnerTakeAll(head.vectors()))],
    )


def estimates(head, hidden, counts, index):
    """Rows of the table of ln Z: samples drawn alike and by counts, over several draws."""
    from tfsoftmax.ops.inclusion import inclusion_probabilities
    from tfsoftmax.retrieval.found_words import sample_of

    exact = head.log_normaliser(hidden).numpy()
    for name, sizes in (("alike", np.ones(len(counts))), ("by counts", counts**0.5)):
        for samples in (1024, 8192):
            inclusion, stated, true = inclusion_probabilities(sizes, samples), [], []
            for seed in range(TRIALS):
                index.sample = sample_of(inclusion, seed)
                found = index.likeliest(head, hidden, 1)
                stated.append(found.error)
                true.append(found.log_z - exact)
            stated, true = np.array(stated), np.array(true)
            row = [f"{len(counts):,}", name, f"{samples:,}", f"{np.median(stated):.3f}",
                   f"{np.mean(true**2) ** 0.5:.3f}",
                   f"{np.mean(np.abs(true) < 1.96 * stated):.1%}"]
            print(*row, sep=" | ", flush=True)
            yield row


def main():
    program.load_tensorflow()
    from tfsoftmax.heads import FullSoftmax
    options, rows, of_log_z, shares, others = flags.FLAGS, [], [], [], Others()
    *of_run, hidden, _ = trained(options.run, options.text, 1, 20 * BATCH + 1)
    hidden = np.random.default_rng(0).permutation(hidden[0])[: 2 * BATCH]
    for size in map(int, options.vocab_sizes):
        kernel, bias, counts = grown(*of_run, size)
        head = with_weights(FullSoftmax(size), kernel, bias)
        found, exact, indexes = measured(head, hidden, (options.repeats, 5))
        index, prepare = indexes["hnsw"]
        rows += found
        made_up = exact >= len(of_run[0])
        shares.append((made_up[:, :K].mean(), made_up.mean()))
        prepare()
        of_log_z += estimates(head, hidden[:64], counts, index)
        sizes = len(of_run[0]), hidden.shape[1]
        write(rows, of_log_z, shares, others.machine(), *sizes, options.repeats)


def write(rows, of_log_z, shares, machine, known, units, repeats):
    """Writes the page of results."""
    ten, hundred = (max(column) for column in zip(*shares))
    sizes = ",".join(dict.fromkeys(row[0].replace(",", "") for row in rows))
    markdown.write(
        RESULTS / "README.md",
        "# Search for the likeliest words with an index",
        f"`python -m experiments.benchmarks.search --run=… --text=… --vocab_sizes={sizes}` on "
        f"{machine}. Kernel, biases and hidden states are those of a full "
        f"softmax over {known:,} words with D = {units}, trained on a million words, and of the "
        "validation text. The larger vocabularies are no trained ones: their other words were "
        "drawn near trained words, with biases by Zipf's law, as the docstring of "
        "experiments/benchmarks/search.py says. Of the exact ten likeliest words, at most "
        f"{ten:.1%} are such words, and of the hundred likeliest at most {hundred:.1%}.",
        f"Times are those of `top_k` with k = {K}, in `tf.function`, all ways in turn: medians of "
        f"{repeats} calls of one position and of 5 calls of {BATCH}. The times of an index are "
        "those of the search, of exact scores for its 200 candidates and, unless it says no ln Z, "
        "of the estimate of ln Z by 1,024 words. `hnsw` has links 32 and breadth 200, `ivf` (the "
        "k-means search of Auvolat et al. 2015) has 2 √V clusters and probes 32, where nothing "
        "else is said. `wta` is winner-take-all hashing with 128 tables of keys of 4 codes of 8 "
        "units; the 2,000 words with the most keys of the query's are scored. It is in NumPy, and "
        "others are in C++, so that only its recall compares.",
        markdown.table([HEADINGS, *rows], text_columns=2),
        "## The estimate of ln Z",
        f"`hnsw` with 200 candidates; 64 positions, {TRIALS} draws of S words. The error stated "
        "is the median over positions and draws, in nats; the RMS error is about the exact ln Z. "
        "The last column is the share of the exact ln Z within 1.96 stated errors. Where it is "
        "below 95 %, the sample often misses the few likely words that the search did not find, "
        "and the stated error is then too small.",
        markdown.table([ESTIMATES, *of_log_z], text_columns=2),
    )


if __name__ == "__main__":
    flags.DEFINE_list("vocab_sizes", ["44370", "200606", "793471"], "Sizes V of the vocabulary.")
    flags.DEFINE_string("run", None, "Directory of a run with a full softmax.", required=True)
    flags.DEFINE_string("text", None, "Text that the run reads, a sentence a line.", required=True)
    flags.DEFINE_integer("repeats", 25, "Number of timed calls of one position.")
    program.run(main, __doc__, sys.argv)

"""Retrieval of the best items: an index with exact scores of what it finds, beside exact `top_k`.

    python -m experiments.benchmarks.retrieval

Vectors are made up, in clusters as item towers learn them: 40 genres, √V / 2 topics near a genre,
items near a topic, with lengths that vary and biases that are the logarithm of a popularity by
Zipf's law. A query lies near an item that was drawn by popularity. Random vectors without clusters
would make every index look worse than it is.

Every way takes turns with exact `top_k`, and the medians count; a call of one query takes another
query each time. TensorFlow and faiss use one thread. Building hnsw takes long: `--hnsw_items` says
up to how many items it is built.

Writes experiments/results/retrieval/README.md. It needs `pip install faiss-cpu`.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.indexes import BATCH, Way, compared
from experiments.benchmarks.quiet import Others
from experiments.benchmarks.search import with_weights
from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/retrieval")
UNITS, CANDIDATES, QUERIES, BLOCK = 64, 200, 256, 100_000
KS = 10, 100
HEADINGS = ["items", "", "build, s", "bytes / vectors'", *(f"recall@{k}" for k in KS),
            "queries / s, one by one", "times exact", f"queries / s, by {BATCH}", "times exact"]
WAYS = {
    f"{kind}, {word} {value}": Way(
        kind, attribute, value, {"samples": 0, "candidates": CANDIDATES}
    )
    for kind, word, attribute, values in (
        ("hnsw", "breadth", "efSearch", (200, 800)), ("ivf", "probes", "nprobe", (8, 32, 128)),
    )
    for value in values
}


def made_up(items, seed=0):
    """Kernel (V, UNITS), biases (V,) and queries (QUERIES, UNITS); the module says how."""
    rng = np.random.default_rng(seed)

    def near(centres, count, distance):
        own = centres[rng.integers(len(centres), size=count)]
        return own + distance * rng.normal(size=own.shape).astype(np.float32) / UNITS**0.5

    genres = near(np.zeros((1, UNITS), np.float32), 40, 1.0)
    topics = near(genres, round(items**0.5 / 2), 0.8)
    kernel = np.concatenate([near(topics, n, 0.6) for n in blocks(items)])
    kernel *= np.exp(0.2 * rng.normal(size=(items, 1))).astype(np.float32)
    popularity = rng.permutation(1 / np.arange(1.0, items + 1))
    popularity /= popularity.sum()
    wanted = rng.choice(items, QUERIES, p=popularity)
    queries = 8 * (kernel[wanted] + 0.6 * rng.normal(size=(QUERIES, UNITS)) / UNITS**0.5)
    return kernel, np.log(popularity).astype(np.float32), queries.astype(np.float32)


def blocks(items):
    return [min(BLOCK, items - start) for start in range(0, items, BLOCK)]


def measured(head, queries, ways, repeats):
    """Rows of the table for the items of a head."""
    def find(rows, index):
        if index is None:
            return head.top_k(rows, KS[-1])[0]
        return index.likeliest(head, rows, KS[-1]).ids

    rows, *_ = compared(
        head, queries, ways, KS, find, repeats, lambda count, seconds: f"{count / seconds:,.0f}"
    )
    return rows


def main():
    program.load_tensorflow()
    import faiss
    import tensorflow as tf

    from tfsoftmax.heads import SampledSoftmax

    faiss.omp_set_num_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    options, rows, others = flags.FLAGS, [], Others()
    for items in map(int, options.items):
        kernel, bias, queries = made_up(items)
        head = with_weights(SampledSoftmax(items, 1), kernel, bias)
        ways = {
            name: way for name, way in WAYS.items()
            if way.kind != "hnsw" or items <= options.hnsw_items
        }
        rows += measured(head, queries, ways, (options.repeats, 5))
        write(rows, others.machine(), options.repeats)


def write(rows, machine, repeats):
    """Writes the page of results."""
    sizes = ",".join(dict.fromkeys(row[0].replace(",", "") for row in rows))
    markdown.write(
        RESULTS / "README.md",
        "# Retrieval with an index",
        f"`python -m experiments.benchmarks.retrieval --items={sizes}` on one thread of "
        f"{machine}. Vectors with D = {UNITS} and biases are made up, in "
        "clusters, as the docstring of experiments/benchmarks/retrieval.py says; none are of a "
        "trained model.",
        f"Each way returns the {KS[-1]} best items. `exact`, `top_k`, reads all vectors. The "
        f"others ask an index for {CANDIDATES} candidates and score these exactly, within "
        f"`tf.function`, all ways in turn: medians of {repeats} calls of one query and of 5 calls "
        f"of {BATCH}. "
        "`recall@k` is the share of the exact k best items among the first k found, of "
        f"{QUERIES} queries. `hnsw` has links 32 and construction 100, `ivf` 2 √V clusters. hnsw "
        "is left out where there are more items than `--hnsw_items` says, because it takes too "
        "long to build.",
        markdown.table([HEADINGS, *rows], text_columns=2),
    )


if __name__ == "__main__":
    flags.DEFINE_list("items", ["500000", "3000000"], "Numbers of items.")
    flags.DEFINE_integer("hnsw_items", 500_000, "The most items for which hnsw is built.")
    flags.DEFINE_integer("repeats", 51, "Number of timed calls of one query.")
    program.run(main, __doc__, sys.argv)

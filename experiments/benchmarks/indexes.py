"""Ways to search a head's rows with an index, compared with the head's exact `top_k`."""

import copy
import itertools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.benchmarks.measure import medians

BATCH = 128


class Way(NamedTuple):
    """A way to search.

    Attributes:
        kind: the kind of the index; ways of the same kind share one.
        attribute, value: what is set in the index of faiss before each search.
        options: `candidates`, and `samples=0` to leave out the estimate of ln Z.
    """

    kind: str
    attribute: str
    value: int
    options: dict = {}


def indexes_of(head, ways):
    """{way: (index, function that sets its breadth)}, {kind: (seconds of building, bytes)}."""
    import faiss

    from tfsoftmax.retrieval.search import WordIndex

    built, costs, result = {}, {}, {}
    for name, way in ways.items():
        if way.kind not in built:
            start = time.perf_counter()
            index = built[way.kind] = WordIndex(head, way.kind)
            size = faiss.serialize_index(index._index).nbytes
            costs[way.kind] = time.perf_counter() - start, size
        of = built[way.kind]._index.hnsw if way.kind == "hnsw" else built[way.kind]._index
        index = copy.copy(built[way.kind])
        index.candidates = way.options.get("candidates", index.candidates)
        index.sample = None if way.options.get("samples") == 0 else index.sample
        result[name] = index, lambda of=of, way=way: setattr(of, way.attribute, way.value)
    return result, costs


def recalls(exact, found, ks):
    """The share of the k best ids among the first k found, for each k of `ks`."""
    return [
        np.mean([len(np.intersect1d(a[:k], b[:k])) / k for a, b in zip(exact, found)]) for k in ks
    ]


def compared(
    head, hidden: np.ndarray, ways: dict[str, Way], ks: Sequence[int], find: Callable,
    repeats: tuple[int, int], rate: Callable, others=(),
) -> tuple[list[list[str]], np.ndarray, dict]:
    """Searches in every way, in turn.

    Args:
        head: a built head.
        hidden: (N, D) float32; a call of a way takes other rows each time.
        ways: {name: `Way`}.
        ks: numbers of words of which the recall is wanted.
        find: function (hidden, index or None) that is timed, whose result is a tensor.
        repeats: timed calls of one position and of BATCH.
        rate: function (number of positions, seconds) of what a table says of a call.
        others: searches without a `WordIndex`, as (name, function that builds one).

    Returns:
        Rows of a table, the exact search first: V, name, seconds of building, bytes over those of
        the rows, recalls, and for both calls the rate and how many times as fast they are; the ids
        (N, max(ks)) that the exact search finds; the indexes as `indexes_of` gives them. One of
        the others has `search(rows, k)`, with the ones of the bias beside the rows, and `nbytes`.
    """
    import tensorflow as tf

    most, row_bytes = max(ks), head.vectors().nbytes
    indexes, costs = indexes_of(head, ways)
    exact = head.top_k(hidden, most)[0].numpy()
    found, functions = {"exact": [1.0] * len(ks)}, {}
    for name, (index, prepare) in indexes.items():
        prepare()
        found[name] = recalls(exact, index.likeliest(head, hidden, most).ids.numpy(), ks)
    queries = np.concatenate([hidden, np.ones([len(hidden), 1], np.float32)], axis=1)
    for name, build in others:
        start = time.perf_counter()
        functions[name] = build()
        costs[name] = time.perf_counter() - start, functions[name].nbytes
        found[name] = recalls(exact, functions[name].search(queries, most), ks)

    def calls(count):
        """{way: a function that searches for as many positions, other ones each time}."""
        parts = [slice(i, i + count) for i in range(0, len(hidden) - count + 1, count)]

        def graph(index=None, prepare=lambda: None):
            places, shape = itertools.cycle(parts), tf.TensorSpec([count, hidden.shape[1]])
            search = tf.function(
                lambda rows: find(rows, index), autograph=False
            ).get_concrete_function(shape)

            def call():
                prepare()
                return search(tf.constant(hidden[next(places)])).numpy()

            return call

        places = itertools.cycle(parts)
        return {
            "exact": graph(), **{name: graph(*way) for name, way in indexes.items()},
            **{name: lambda f=f: f.search(queries[next(places)], most)
               for name, f in functions.items()},
        }

    times, rows = [medians(calls(count), n) for count, n in zip((1, BATCH), repeats)], []
    for name, of_name in found.items():
        seconds, size = costs.get(name.partition(",")[0], (0, 0))
        row = [f"{head.vocab_size:,}", name, f"{seconds:,.0f}", f"{size / row_bytes:.2f}",
               *(f"{share:.3f}" for share in of_name)]
        for count, of_way in zip((1, BATCH), times):
            (own, _), (other, _) = of_way[name], of_way["exact"]
            row += [rate(count, own), f"{other / own:,.1f}"]
        print(*row, sep=" | ", flush=True)
        rows.append(row)
    return rows, exact, indexes

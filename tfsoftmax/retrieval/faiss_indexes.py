"""The indexes of faiss that `tfsoftmax.search` builds."""

import inspect

import numpy as np

from tfsoftmax.support.arguments import check_at_least, check_positive, expect, refusal

try:
    import faiss
except ImportError as error:
    raise ImportError(
        "tfsoftmax.search needs faiss. Install it by `pip install faiss-cpu`."
    ) from error


def for_graphs(vectors: np.ndarray, with_bias: bool) -> tuple[np.ndarray, float]:
    """Vectors [w, b] whose inner products tell a graph more of the words than of their biases.

    A graph links words whose inner product is large. It gets the vectors less their mean, which
    lowers all scores of a position alike: if all biases were far below zero, the rarest words would
    have the longest vectors. Biases are divided by a number that makes them vary as the units do.

    Args:
        vectors: (V, D) float32, or (V, D + 1) with biases.
        with_bias: whether the last column holds biases.

    Returns:
        The new vectors, and the number by which a query multiplies its 1.
    """
    vectors = vectors - vectors.mean(0)
    if not with_bias:
        return vectors, 1.0
    scale = float(vectors[:, -1].std() / max(vectors[:, :-1].std(), 1e-12)) or 1.0
    vectors[:, -1] /= scale
    return vectors, scale


def filled(kind: "str | faiss.Index", vectors: np.ndarray, options: dict) -> "faiss.Index":
    """An index of faiss for inner products, with all vectors.

    Args:
        kind: a key of `KINDS`, or an index of faiss.
        vectors: (V, D) float32.
        options: arguments of the kind.

    Raises:
        ValueError: if the kind or an option is unknown, or the index is for other vectors.
    """
    words, units = vectors.shape
    if isinstance(kind, str) and kind in KINDS:
        known = list(inspect.signature(KINDS[kind]).parameters)[2:]
        expect(set(options) <= set(known), "options", f"be among {known} for {kind!r}", [*options])
        index = KINDS[kind](words, units, **options)
    elif isinstance(kind, faiss.Index) and not options:
        index = kind
    else:
        raise refusal("kind", f"be one of {list(KINDS)}, or an index of faiss without options",
                      received={"kind": kind, "options": options})
    suits = index.d == units and index.metric_type == faiss.METRIC_INNER_PRODUCT
    expect(
        suits and index.ntotal in (0, words), "kind",
        f"be an index for inner products of {units} numbers, empty or with {words} vectors",
        received={name: getattr(index, name) for name in ("metric_type", "d", "ntotal")},
    )
    if not index.is_trained:
        index.train(vectors)
    if not index.ntotal:
        index.add(vectors)
    return index


def _hnsw(words, units, links: int = 32, construction: int = 100, breadth: int = 200):
    check_positive(construction=construction, breadth=breadth)
    check_at_least(2, links=links)  # else faiss crashes
    index = faiss.IndexHNSWFlat(units, links, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = construction, breadth
    return index


def _ivf(words, units, lists: int | None = None, probes: int = 32):
    check_positive(lists=lists, probes=probes)
    expect((lists or 1) <= words, "lists", f"be at most {words}", lists)
    lists = lists or min(words, round(2 * words**0.5))
    index = faiss.index_factory(units, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
    index.nprobe = probes
    index.cp.min_points_per_centroid = 1  # no warning where words are few
    index.cp.max_points_per_centroid = 64
    return index


KINDS = {"hnsw": _hnsw, "ivf": _ivf}

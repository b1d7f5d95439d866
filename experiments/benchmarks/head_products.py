"""What a training step of a head cannot do without: products, and rows that it changes.

Each class has a function of a built head and labels (N,). It returns tuples (rows, units, columns):
a product of (rows, units) and (units, columns), with its two gradients.
"""

import math

import numpy as np

from experiments.benchmarks.floor import Product
from tfsoftmax.heads import (
    AdaptiveSoftmax,
    DifferentiatedSoftmax,
    FullSoftmax,
    NarySoftmax,
    SelfOrganisedSoftmax,
    Shortlist,
    SoftmaxHead,
    TreeSoftmax,
)
from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.partitions.bands import band_units
from tfsoftmax.support import budgets
from tfsoftmax.survey import (
    ClassNCE,
    ClassUnigram,
    CubicScores,
    SelfNormalisedSoftmax,
    SphericalSoftmax,
)


def products_of(head: SoftmaxHead, labels: np.ndarray) -> list[Product]:
    """The products of a training step, by the row of `PRODUCTS` of the nearest base of the head.

    Args:
        head: a built head.
        labels: (N,) integers.

    Returns:
        List of `Product`.

    Raises:
        ValueError: if no base of the head has a row.
    """
    for base in type(head).__mro__:
        if base in PRODUCTS:
            return [Product(*product) for product in PRODUCTS[base](head, labels)]
    raise ValueError(
        "`head` must be of a class that has a row in `PRODUCTS` of "
        f"experiments/benchmarks/head_products.py. Received: {type(head).__name__}"
    )


def _units(head):
    return head.input_spec.axes[-1]


def _of_kernel(head, labels):
    return [(len(labels), *head.kernel.shape[::-1])]


def _full(head, labels):
    share = 1.0 if head.gradient_share is None else head.gradient_share
    products = (1 + 2 * share) / 3  # those of scores and gradients, in units of all three
    return [(len(labels), _units(head), math.ceil(products * head.vocab_size))]


def _cubic(head, labels):
    return [(len(labels), _units(head), head.vocab_size)]


def _self_normalised(head, labels):
    chosen = math.ceil(head.fraction * len(labels))
    return [(chosen, _units(head), head.vocab_size)]


def _spherical(head, labels):
    if head.sgd_learning_rate is not None:
        size = head.factors.rows.shape[1]
        return [(len(labels), size, size)] * 2
    units = _units(head)
    # Two products of V D², where a product stands for itself and its two gradients.
    return [(min(len(labels), -(-2 * units // 3)), units, head.vocab_size)]


def _sampling(head, labels):
    units, samples = _units(head), head.num_samples
    if not head.shared_samples:  # a product for each position costs as much as one of all
        return [(1, units, len(labels) * samples)]
    draws = [head.sampler.sample(labels, samples, (0, seed)).ids for seed in range(5)]
    words = np.mean([len(np.unique(ids)) for ids in draws])  # a row that is drawn twice is one
    return [(len(labels), units, round(words))]


def _adaptive(head, labels):
    """The scores of the head cluster and of the tails, and then the projections of the tails."""
    rows = [len(labels), *head.bands.positions(labels)[1:].tolist()]
    first, *tails = head.bands.sizes
    columns = [first + len(tails), *tails]
    units = band_units(_units(head), len(tails), head.projection_factor)
    scores = list(zip(rows, units, columns))
    if head.projection_factor is None:
        return scores
    return scores + [(n, _units(head), width) for n, width in zip(rows[1:], units[1:])]


def _differentiated(head, labels):
    weights = [*(kernel.shape[::-1] for kernel in head.kernels),
               *(projection.shape for projection in head.projections)]
    return [(len(labels), units, columns) for units, columns in weights]


def _tree(head, labels):
    nodes = head.tree.paths(labels) // 2  # -1 where the path has ended
    top, units = min(budgets.TOP_NODES, head.vocab_size - 1), _units(head)
    return [(len(labels), units, top), (int((nodes >= top).sum()), units, 1)]


def _nary(head, labels):
    edges = head.tree.paths(labels)
    nodes, rows = np.unique(head.tree.owners[edges[edges >= 0]], return_counts=True)
    sizes, units = head.tree.sizes[nodes], _units(head)
    return [(n, units, size) for n, size in zip(rows.tolist(), sizes.tolist())]


def _class_nce(head, labels):
    units, samples = _units(head), head.num_samples
    return [(len(labels), units, samples), (1, units, len(labels) * samples)]


def _self_organised(head, labels):
    units, count = _units(head), len(labels)
    clusters, rows = np.unique(head.clusters[np.asarray(labels)], return_counts=True)
    sizes = head.layout["sizes"].numpy()[clusters]
    return [
        (count, units, units), (count, units, units), (count, units, head.num_clusters),
        *((n, units, size) for n, size in zip(rows.tolist(), sizes.tolist())),
    ]


PRODUCTS = {
    FullSoftmax: _full,
    SelfNormalisedSoftmax: _self_normalised,
    SphericalSoftmax: _spherical,
    CubicScores: _cubic,
    SamplingHead: _sampling,
    AdaptiveSoftmax: _adaptive,
    DifferentiatedSoftmax: _differentiated,
    Shortlist: _of_kernel,
    TreeSoftmax: _tree,
    NarySoftmax: _nary,
    ClassUnigram: _of_kernel,
    ClassNCE: _class_nce,
    SelfOrganisedSoftmax: _self_organised,
}


def evaluated(head: SoftmaxHead, labels: np.ndarray) -> list[Product]:
    """The products of exact log-probabilities: of all words where training draws a sample."""
    if isinstance(head, SamplingHead):
        return [Product(*product) for product in _of_kernel(head, labels)]
    return products_of(head, labels)


def moves_of(head: SoftmaxHead, labels: np.ndarray) -> tuple | None:
    """The distinct rows that a step of a hierarchical head changes, of how many, and their units.

    For the other heads None: their rows are few, or all in a dense gradient.
    """
    units = _units(head)
    if isinstance(head, TreeSoftmax):
        nodes = head.tree.paths(labels) // 2
        return len(np.unique(nodes[nodes >= 0])), head.vocab_size - 1, units
    if isinstance(head, NarySoftmax):
        edges = head.tree.paths(labels)
        nodes = np.unique(head.tree.owners[edges[edges >= 0]])
        return int(head.tree.sizes[nodes].sum()), len(head.tree.owners), units
    if isinstance(head, SelfOrganisedSoftmax):
        clusters = np.unique(head.clusters[np.asarray(labels)])
        return int(head.layout["sizes"].numpy()[clusters].sum()), head.vocab_size, units
    return None

"""The bare matmuls that a step cannot do without, in the very sizes of a head and its labels.

A product (n, d, c) stands for three matmuls of n rows of d units and c words: scores, the
gradient of the rows, the gradient of the words. Nothing is between them: no exponentials, no
gathers, no sums.
"""

import collections

import numpy as np

Product = collections.namedtuple("Product", "rows units words")
MOST_SCORES = 2**28  # in one matmul, 1 GiB of float32; more are computed in turns


def products_of(head, labels):
    """The products of a built tfsoftmax head for labels (N,).

    Sampling heads: the distinct words of a sample. Bands: the positions of each tail. Classes and
    trees of wide nodes: of each node that occurs, its positions and children. Binary trees: the
    top nodes as one product, as the head computes them, and every further step of a path a row.
    """
    count = len(labels)
    name = type(head).__name__
    if hasattr(head, "sampler"):
        return _sampled(head, count)
    return {
        "FullSoftmax": lambda: [Product(count, head.kernel.shape[1], head.vocab_size)],
        "SelfNormalisedSoftmax": lambda: [
            Product(int(np.ceil(head.fraction * count)), head.kernel.shape[1], head.vocab_size)
        ],
        "AdaptiveSoftmax": lambda: _adaptive(head, labels),
        "TwoLevelSoftmax": lambda: _adaptive(head, labels),
        "DifferentiatedSoftmax": lambda: _differentiated(head, count),
        "Shortlist": lambda: [Product(count, head.kernel.shape[1], head.kernel.shape[0])],
        "TreeSoftmax": lambda: _binary(head, labels),
        "ClassSoftmax": lambda: _nodes(head.tree, labels, head.kernel.shape[1]),
        "NarySoftmax": lambda: _nodes(head.tree, labels, head.kernel.shape[1]),
        "SelfOrganisedSoftmax": lambda: _self_organised(head, labels),
    }[name]()


def multiplications(products):
    """Multiplications of all three matmuls of all products."""
    return 3 * sum(rows * units * words for rows, units, words in products)


def _sampled(head, count):
    units, samples = head.kernel.shape[1], head.num_samples
    if not head.shared_samples:  # every position its own rows: a product of each is one of all
        return [Product(1, units, count * samples)]
    some = np.zeros(1, np.int32)
    draws = [head.sampler.sample(some, samples, (0, seed)).ids for seed in range(5)]
    return [Product(count, units, round(np.mean([len(np.unique(ids)) for ids in draws])))]


def _adaptive(head, labels):
    bands = head.bands
    ranks = labels if bands.order is None else np.asarray(bands.order.ranks)[labels]
    rows = np.bincount(np.searchsorted(bands.ends, ranks, side="right"), minlength=len(bands.ends))
    result = []
    for k, kernel in enumerate(head.kernels):
        words, units = kernel.shape
        result.append(Product(len(labels) if k == 0 else int(rows[k]), units, words))
    for projection, n in zip(head.projections, rows[1:]):
        result.append(Product(int(n), *projection.shape))
    return result


def _differentiated(head, count):
    return [Product(count, kernel.shape[1], kernel.shape[0]) for kernel in head.kernels] + [
        Product(count, *projection.shape) for projection in head.projections
    ]


def _binary(head, labels):
    from tfsoftmax.ops.tree import TOP_NODES

    edges = np.asarray(head.tree.paths())[labels]
    top = min(TOP_NODES, head.vocab_size - 1)
    units = head.kernel.shape[1]
    return [Product(len(labels), units, top), Product(int((edges >= 2 * top).sum()), units, 1)]


def _nodes(tree, labels, units):
    edges = np.asarray(tree.paths())[labels]
    nodes, rows = np.unique(np.asarray(tree.owners)[edges[edges >= 0]], return_counts=True)
    return [Product(int(n), units, int(tree.sizes[node])) for node, n in zip(nodes, rows)]


def _self_organised(head, labels):
    units, count = head.kernel.shape[1], len(labels)
    clusters, rows = np.unique(head.clusters[labels], return_counts=True)
    sizes = np.bincount(head.clusters, minlength=head.num_clusters)
    return [
        Product(count, units, units), Product(count, units, units),
        Product(count, units, head.num_clusters),
        *(Product(int(n), units, int(sizes[c])) for c, n in zip(clusters, rows)),
    ]


def turns(product):
    """A product as (product, times) of no more scores than `MOST_SCORES`, parted by words."""
    most = max(1, MOST_SCORES // max(1, product.rows))
    whole, rest = divmod(product.words, most)
    parts = [(product._replace(words=most), whole), (product._replace(words=rest), 1)]
    return [(part, times) for part, times in parts if times and part.words and part.rows]


def matmuls(products, dtype):
    """A function () -> float that computes the products with TensorFlow."""
    import tensorflow as tf

    once, often = [], []
    for part, times in (turn for product in products for turn in turns(product)):
        (once if times == 1 else often).append((part, times))

    def matrices(product):
        rows, units, words = product
        shapes = (rows, units), (words, units)
        return [tf.cast(tf.random.normal(shape), dtype) for shape in shapes]

    def three(inputs, kernel):
        scores = tf.matmul(inputs, kernel, transpose_b=True)
        of_inputs = tf.matmul(scores, kernel)
        with tf.control_dependencies([of_inputs]):  # two at a time share caches and threads
            of_kernel = tf.matmul(scores, inputs, transpose_a=True)
        return scores[0, 0] + of_inputs[0, 0] + of_kernel[0, 0]

    small = [matrices(part) for part, _ in once]
    large = [(tf.function(three), matrices(part), times) for part, times in often]

    @tf.function
    def together():
        return tf.add_n([three(*pair) for pair in small])

    def run():
        total = together() if small else None
        for function, pair, times in large:
            for _ in range(times):
                total = function(*pair)
        return float(total)

    return run

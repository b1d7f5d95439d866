"""Logits of the whole vocabulary of adaptive softmax: ways from the clusters to the words."""

import types

import numpy as np

from experiments.benchmarks.cases import cutoffs_of, ways_of
from experiments.benchmarks.programs import Program, parameters_of

LOGITS = types.MappingProxyType({  # calls, with how many positions, and whether they are compiled
    f"logits of {positions}{', eager' * (not compiled)}": (positions, compiled)
    for positions in (8, 128) for compiled in (True, False)
})
BY_ROWS, BY_ELEMENTS = "scatter_nd of rows", "scatter_nd of elements"


def suite(_):
    """Logits of all words of adaptive softmax, gathered and in two ways by `tf.scatter_nd`."""
    return [
        case for ids in ("sorted ids", "ids in no order")
        for case in ways_of(f"AdaptiveSoftmax, {ids}", "logits", "adaptive", (BY_ROWS, BY_ELEMENTS),
                            tuple(LOGITS), {"sorted": ids == "sorted ids"})
    ]


def logits(case, problem):
    """Logits (N, V) of `AdaptiveSoftmax`, or of another way to the same numbers.

    The head joins the logits of all clusters and, unless the ids are sorted by frequency, gathers
    the columns by the words' ranks.
    """
    import keras
    import tensorflow as tf

    from tfsoftmax.heads import AdaptiveSoftmax

    keras.utils.set_random_seed(1)
    size = problem.vocab_size
    order = "ids" if case.options["sorted"] else np.random.default_rng(0).permutation(size)
    head = AdaptiveSoftmax(size, cutoffs_of(size), permutation=order)
    head.build((None, problem.units))
    words, by_rank = tf.constant(head.bands.order.ids), head.distribution().by_rank
    way = {
        None: head, BY_ROWS: lambda hidden: by_rows(hidden, by_rank.parameters, words),
        BY_ELEMENTS: lambda hidden: by_elements(hidden, by_rank, words),
    }[case.options.get("way")]
    functions = {}
    for measure, (positions, compiled) in LOGITS.items():
        function = tf.function(way, autograph=False) if compiled else way
        hidden = tf.constant(problem.hidden()[:positions])
        functions[measure] = lambda f=function, h=hidden: float(f(h)[0, -1])
    return Program(functions, [], parameters_of(head))


def by_rows(hidden, clusters, words):
    """Logits (N, V), whose rows were scattered with words first, and then transposed."""
    import tensorflow as tf

    logits = tf.concat(clusters_with_words_first(hidden, clusters), 0)
    shape = [len(words), hidden.shape[0]]
    return tf.transpose(tf.scatter_nd(words[:, None], logits, shape))


def clusters_with_words_first(hidden, clusters):
    """[(V_k, N)] logits of the words of each cluster by eq. 3.5 and 3.6."""
    import tensorflow as tf

    def logits_of(cluster):
        return tf.matmul(cluster.kernel, cluster.project(hidden), transpose_b=True)

    head = logits_of(clusters[0])
    shortlist = head.shape[0] - len(clusters) + 1
    parts = [head[:shortlist] - head[0]]
    for k, tail in enumerate(clusters[1:], start=shortlist):
        logits = logits_of(tail)
        parts.append(logits + (head[k] - head[0] - tf.reduce_logsumexp(logits, axis=0)))
    return parts


def by_elements(hidden, by_rank, words):
    """Logits (N, V), each scattered by its position and its word."""
    import tensorflow as tf

    shape = [hidden.shape[0], len(words)]
    places = tf.stack(tf.meshgrid(tf.range(shape[0]), words, indexing="ij"), axis=-1)
    return tf.scatter_nd(places, by_rank.logits(hidden), shape)

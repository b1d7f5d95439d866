"""The likeliest words of a binary tree, and random ones, found without visiting all nodes."""

import tensorflow as tf

from tfsoftmax.ops.logits import label_logits, rows_of
from tfsoftmax.ops.ranking import among, best, known
from tfsoftmax.support import budgets


def best_first(hidden, kernel, bias, children, k, excluded=None):
    """The k likeliest words, found by opening the likeliest nodes until no other can matter.

    No word is likelier than a node above it. Each round opens the likeliest nodes that are not
    open yet. A position is done when its kth best word is at least as likely as any of them.

    Args:
        hidden: (N, D) float.
        kernel: (V-1, D) float32 tensor or variable.
        bias: (V-1,) float32 tensor or variable, or None.
        children: (V-1, 2) int32, the node at the end of each of a node's edges, or -1 - w if
            the edge ends in word w.
        k: number of words.
        excluded: (N, E) int32, words to leave out, -1 for none; or None.

    Returns:
        log_probs: (N, k) float32, falling.
        ids: (N, k) int32.
        done: bool scalar. If it is False, the search was given up, and the other results are
            meaningless.

    Source: Jiang et al. 2017 for the tree; best-first search as in Mnih and Hinton 2009.
    """
    hidden = tf.cast(hidden, tf.float32)
    count, width = tf.shape(hidden)[0], max(budgets.OPENED_NODES, k)
    width = min(width, kernel.shape[0])
    places = budgets.KEPT_NODES * width

    def opened(log_probs, nodes):
        """Children of nodes (N, B): log-probabilities and names, (N, 2 B)."""
        inner = tf.maximum(nodes, 0)
        scores = tf.einsum("nbd,nd->nb", rows_of(kernel, inner), hidden)
        scores = scores if bias is None else scores + rows_of(bias, inner)
        both = tf.stack([tf.math.log_sigmoid(scores), tf.math.log_sigmoid(-scores)], 2)
        shape = [count, 2 * log_probs.shape[1]]
        below = known(log_probs[:, :, None] + both)
        return tf.reshape(below, shape), tf.reshape(tf.gather(children, inner), shape)

    def body(round_, log_probs, nodes, lost, likeliest, words, _):
        # `log_probs` and `nodes` are those of nodes not open yet, likeliest first, with -inf for
        # empty places, and `lost` is the greatest log-probability of those that found no place.
        fresh, names = opened(log_probs[:, :width], nodes[:, :width])
        is_word = names < 0
        nowhere = tf.fill(tf.shape(fresh), -float("inf"))
        inner = tf.concat([log_probs[:, width:], tf.where(is_word, nowhere, fresh)], 1)
        inner, place = tf.math.top_k(inner, places + 1)
        nodes = tf.concat([nodes[:, width:], names], 1)
        nodes = tf.gather(nodes, place[:, :places], batch_dims=1)
        log_probs, lost = inner[:, :places], tf.maximum(lost, inner[:, places])
        wanted = is_word if excluded is None else is_word & ~among(-1 - names, excluded)
        found = tf.where(wanted, fresh, nowhere), -1 - names
        likeliest, words = best(k, (likeliest, words), found)
        done = tf.reduce_all(likeliest[:, -1] >= tf.maximum(log_probs[:, 0], lost))
        done = done & tf.reduce_all(likeliest[:, -1] > -float("inf"))
        return round_ + 1, log_probs, nodes, lost, likeliest, words, done

    start = tf.fill([count, places - 1], -float("inf"))
    state = (
        0, tf.concat([tf.zeros([count, 1]), start], 1),  # P(root) = 1
        tf.zeros([count, places], tf.int32), tf.fill([count], -float("inf")),
        tf.fill([count, k], -float("inf")), tf.zeros([count, k], tf.int32), False,
    )
    *_, likeliest, words, done = tf.while_loop(
        lambda i, *rest: (i < budgets.SEARCH_ROUNDS) & ~rest[-1], body, state
    )
    return likeliest, words, done


def walk(hidden, kernel, bias, children, depth, seed):
    """A random word at each position, drawn from P(w | h) by a walk from the root.

    Args:
        hidden, kernel, bias, children: as in `best_first`.
        depth: L, the depth of the tree.
        seed: (2,) int32.

    Returns:
        (N,) int32.
    """
    hidden = tf.cast(hidden, tf.float32)
    chances = tf.random.stateless_uniform([depth, tf.shape(hidden)[0]], seed)
    place = tf.zeros(tf.shape(hidden)[:1], tf.int32)
    for chance in tf.unstack(chances):
        node = tf.maximum(place, 0)
        score, _ = label_logits(hidden, kernel, bias, node)
        bit = tf.cast(chance >= tf.sigmoid(score), tf.int32)
        place = tf.where(place < 0, place, tf.gather_nd(children, tf.stack([node, bit], 1)))
    return -1 - place

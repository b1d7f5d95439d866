"""Facts about functions of positions that are computed for a chunk of them at a time."""

import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from tfsoftmax.ops.chunks import map_chunks, sum_over_chunks


@pytest.mark.parametrize("count", [0, 1, 4, 5, 11])
@pytest.mark.parametrize("known", [False, True])
def test_chunks_of_a_graph_are_joined_as_eagerly(count, known):
    def function(rows):
        total = sum_over_chunks(
            lambda part, total: ([tf.square(part)], [tf.reduce_sum(part) + (total or [0.0])[0]]),
            4, rows,
        )
        return total, map_chunks(lambda part: (part[:, 0], tf.exp(part)), rows, 4)

    def with_gradient(rows):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            results = function(rows)
            loss = tf.reduce_sum(results[1][1])
        return results, tape.gradient(loss, rows)

    rows = tf.constant(np.random.default_rng(0).normal(size=(count, 3)), tf.float32)
    specification = tf.TensorSpec((count if known else None, 3))
    graph = tf.function(with_gradient, input_signature=[specification])
    for ours, eager in zip(tf.nest.flatten(graph(rows)), tf.nest.flatten(with_gradient(rows))):
        np.testing.assert_allclose(ours, eager, rtol=1e-6)
        assert ours.shape == eager.shape


def test_a_chunk_is_written_without_a_copy_of_the_others():
    head = tfsoftmax.TreeSoftmax(50)
    head.build((None, 4))
    traced = tf.function(head.log_probs).get_concrete_function(tf.TensorSpec((None, 4)))
    loops = [node.op for f in traced.graph.as_graph_def().library.function for node in f.node_def]
    assert "TensorListSetItem" in loops  # which writes in place
    assert "TensorScatterUpdate" not in loops

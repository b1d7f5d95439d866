"""`computed_if_used`: the same results and gradients, and no reading of what nothing uses."""

import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, assert_all_close, built, positions
from tfsoftmax.ops.computed_if_used import computed_if_used
from tfsoftmax.support import budgets

# A step of class-unigram needs the whole of its kernel, which has no row for a word.
PRUNED = [case for case in CASES if case.startswith(("tree", "class", "nary", "self-org"))]
PRUNED.remove("class-unigram")


def results(function, weights, hidden):
    @tf.function
    def step(hidden):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            value = function(hidden)
            loss = tf.reduce_sum(tf.square(value))
        return value, *tape.gradient(loss, [hidden, *[w.value for w in weights]])

    return step(tf.constant(hidden))


def test_results_and_gradients_are_the_same():
    head, (hidden, _) = built("full", 13), positions(13, 5)
    plain = results(head._logits, head.weights, hidden)
    ours = results(lambda h: computed_if_used(head._logits, h), head.weights, hidden)
    assert_all_close(ours, plain, rtol=1e-6, atol=0)


def test_follows_the_variables_from_call_to_call():
    head, (hidden, _) = built("full", 13), positions(13, 5)
    function = tf.function(lambda h: computed_if_used(head._logits, h))
    function(hidden)
    head.set_weights([2 * w for w in head.get_weights()])
    np.testing.assert_allclose(function(hidden), head._logits(hidden), rtol=1e-6)


def must_run(function, hidden):
    """Types of the operations that the graph runs whether or not they are used."""
    graph = tf.function(function).get_concrete_function(tf.TensorSpec(hidden.shape)).graph
    return {op.type for op in graph.control_outputs}


def test_an_unused_result_reads_nothing():
    head, (hidden, _) = built("full", 13), positions(13, 5)
    assert "ReadVariableOp" in must_run(lambda h: (head._logits(h), h)[1], hidden)
    assert must_run(lambda h: (computed_if_used(head._logits, h), h)[1], hidden) == set()


@pytest.mark.parametrize("case", [*PRUNED, "spherical, exact update"])
def test_heads_whose_logits_are_unused_read_nothing(case):
    head, (hidden, _) = built(case, 41), positions(41, 5)
    assert must_run(lambda h: (head(h, training=True), h)[1], hidden) == set()


@pytest.mark.parametrize("case", PRUNED)
def test_loops_over_chunks_read_no_variables(case, monkeypatch):
    """TensorFlow runs a loop that reads variables even if nothing uses its results."""
    monkeypatch.setattr(budgets, "CHUNK_ROWS", 2)  # so that five positions take a loop
    head, (hidden, _) = built(case, 41), positions(41, 5)
    log_probs = tf.function(lambda hidden: head.log_probs(hidden))
    graph = log_probs.get_concrete_function(tf.TensorSpec(hidden.shape)).graph
    loops = [op for op in graph.get_operations() if op.type in ("While", "StatelessWhile")]
    assert loops and not any(t.dtype == tf.resource for op in loops for t in op.inputs)

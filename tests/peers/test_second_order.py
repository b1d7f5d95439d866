"""Second derivatives: the hand-written gradients are differentiable themselves, and right."""

import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, built, positions, rewind
from tfsoftmax.support import budgets

V, STEP = 13, 1e-2
WEIGHTS = np.array([0.3, -1.1, 2.0, 0.7, 1.0], np.float32)

METHODS = {
    "log_prob": lambda head, hidden, labels: tf.reduce_sum(WEIGHTS * head.log_prob(hidden, labels)),
    "training_loss": lambda head, hidden, labels: tf.reduce_sum(
        WEIGHTS * head.training_loss(hidden, labels)
    ),
    "loss_and_nats": lambda head, hidden, labels: head.loss_and_nats(hidden, labels, WEIGHTS)[0],
    "call": lambda head, hidden, labels: tf.reduce_sum(
        WEIGHTS * tf.gather(tf.nn.log_softmax(head(hidden)), labels, batch_dims=1)
    ),
}


def hessian_products(head, method, graph=False):
    """H v for a random v over hidden states and weights: by two tapes, and by differences."""
    hidden, labels = positions(head.vocab_size, len(WEIGHTS))
    hidden = tf.Variable(hidden)
    sources = [hidden, *(w.value for w in head.trainable_weights)]
    rng = np.random.default_rng(3)
    direction = [rng.normal(size=s.shape).astype(np.float32) for s in sources]

    def gradients():
        with tf.GradientTape() as tape:
            total = METHODS[method](head, hidden, labels)
        zeros = tf.UnconnectedGradients.ZERO
        return list(map(tf.convert_to_tensor, tape.gradient(total, sources, None, zeros)))

    def twice():
        with tf.GradientTape() as tape:
            along = tf.add_n([tf.reduce_sum(g * v) for g, v in zip(gradients(), direction)])
        zeros = tf.UnconnectedGradients.ZERO
        return list(map(tf.convert_to_tensor, tape.gradient(along, sources, None, zeros)))

    rewind(head)
    ours = (tf.function(twice) if graph else twice)()
    ends = []
    for sign in (STEP, -STEP):
        for source, v in zip(sources, direction):
            source.assign_add(sign * v)
        rewind(head)
        ends.append(gradients())
        for source, v in zip(sources, direction):
            source.assign_sub(sign * v)
    return ours, [(a - b) / (2 * STEP) for a, b in zip(*ends)]


def check(head, method, graph=False):
    ours, wanted = hessian_products(head, method, graph)
    size = max(np.linalg.norm(w) for w in wanted)
    assert size > 0.1
    for a, b in zip(ours, wanted):
        assert np.linalg.norm(a - b) <= 0.01 * np.linalg.norm(b) + 1e-3 * size


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_of_the_training_loss(case):
    check(built(case, V), "training_loss")


@pytest.mark.parametrize("case", ["full", "self-normalised", "adaptive", "differentiated", "class"])
@pytest.mark.parametrize("method", ["log_prob", "loss_and_nats", "call"])
def test_second_derivatives_of_other_results(case, method):
    check(built(case, V), method)


@pytest.mark.parametrize("case, method", [("two-level", "loss_and_nats"), ("sampled", "call")])
def test_second_derivatives_in_a_graph(case, method):
    check(built(case, V), method, graph=True)


@pytest.mark.parametrize("graph", [False, True])
def test_second_derivatives_through_several_chunks(graph, monkeypatch):
    monkeypatch.setattr(budgets, "CHUNK_ROWS", 2)
    check(built("full smoothed", V), "loss_and_nats", graph)


@pytest.mark.parametrize("graph", [False, True])
def test_second_derivatives_below_the_top_of_a_tree(graph, monkeypatch):
    monkeypatch.setattr(budgets, "TOP_NODES", 3)
    check(built("tree", 101), "log_prob", graph)

"""A head that is `self_normalised` has, at its minimum, the ln Z that it takes itself to have.

A sampling head draws each word exactly as often as is to be expected, so that its loss is the
expected one, which is minimised over the scores of three contexts.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, with_gradients
from tfsoftmax import NCE, FullSoftmax, NegativeSampling, SelfNormalisedSoftmax

COUNTS = np.array([1, 4, 2, 3, 6])  # the sample that is expected of 16 draws
V, CONTEXTS = len(COUNTS), 3
JOINT = np.random.default_rng(4).dirichlet(np.ones(CONTEXTS * V)).reshape(CONTEXTS, V)
TRUTH = JOINT / JOINT.sum(1, keepdims=True)

HEADS = {
    "full": lambda: FullSoftmax(V, z_loss=0.1),
    "full, capped": lambda: FullSoftmax(V, z_loss=0.5, soft_cap=9.0),
    "full, smoothed": lambda: FullSoftmax(V, z_loss=0.1, label_smoothing=0.2),
    "self-normalised": lambda: SelfNormalisedSoftmax(V, fraction=1.0),
    "self-normalised, alpha": lambda: SelfNormalisedSoftmax(V, fraction=1.0, alpha=0.3),
    "nce": lambda: NCE(V, 16, counts=COUNTS),
    "nce with Z": lambda: NCE(V, 16, counts=COUNTS, Z=0.5),
    "nce with trained Z": lambda: NCE(V, 16, counts=COUNTS, train_z=True),
    "nce with Z of each context": lambda: NCE(V, 16, counts=COUNTS, train_z="context"),
    "negative": lambda: NegativeSampling(V, 16, counts=COUNTS),
    "not squared": lambda: SelfNormalisedSoftmax(V, fraction=1.0, squared=False),
    "full without z_loss": lambda: FullSoftmax(V),
    "full, capped below ln V": lambda: FullSoftmax(V, z_loss=0.5, soft_cap=1.5),
    "negative as it is": lambda: NegativeSampling(V, 16, counts=COUNTS, restore_proposal=False),
    "nce without correction": lambda: NCE(V, None, tfsoftmax.samplers.InBatch(V, None)),
}


def at_minimum(head):
    """The head, trained on all contexts and words, weighted by their probabilities."""
    head.build((None, CONTEXTS))
    for variable in head.trainable_variables:  # as far from a constant as a start may be
        variable.assign(np.random.default_rng(1).normal(size=variable.shape))
    sampler = getattr(head, "sampler", None)
    given = isinstance(sampler, tfsoftmax.samplers.InBatch)
    if sampler is not None and not given:
        sampler._draw = lambda count, seed: tf.repeat(tf.range(V), COUNTS)
    hidden, labels = np.repeat(np.eye(CONTEXTS, dtype=np.float32), V, 0), np.tile(range(V), 3)
    if given:  # labels as often as they are to be expected
        counts = np.rint(200 * JOINT.ravel()).astype(int)
        hidden, labels = np.repeat(hidden, counts, 0), np.repeat(labels, counts)
        weights = np.full(len(labels), 1 / len(labels), np.float32)
    else:
        weights = JOINT.ravel().astype(np.float32)
    variables = [v.value for v in head.trainable_variables]

    @tf.function
    def train():
        means = [tf.zeros(v.shape) for v in variables]
        squares = [tf.zeros(v.shape) for v in variables]
        for step in tf.range(2500):
            rate = 0.05 * 0.5 * (1 + tf.cos(np.pi * tf.cast(step, tf.float32) / 2500))
            _, slopes = with_gradients(
                lambda: weights * head.training_loss(hidden, labels), variables
            )
            means = [0.9 * m + 0.1 * g for m, g in zip(means, slopes)]
            squares = [0.99 * s + 0.01 * g**2 for s, g in zip(squares, slopes)]
            for v, m, s in zip(variables, means, squares):
                v.assign_sub(rate * m / (tf.sqrt(s) + 1e-8))

    train()
    return head


@pytest.mark.parametrize("name", HEADS)
def test_a_self_normalised_head_takes_the_normaliser_that_its_minimum_has(name):
    head = at_minimum(HEADS[name]())
    hidden, labels = np.repeat(np.eye(CONTEXTS), V, 0), np.tile(range(V), CONTEXTS)
    taken = head.self_normalised_log_prob(hidden, labels).numpy()
    errors = np.abs(taken - head.log_prob(hidden, labels))
    assert (errors.max() < 5e-3) == head.self_normalised, errors
    if head.self_normalised and "smoothed" not in name:
        np.testing.assert_allclose(taken, np.log(TRUTH.ravel()), atol=5e-3)


def test_every_class_that_may_be_self_normalised_is_minimised_here():
    heads = [make(V) for make in CASES.values()]
    claimed = {type(head) for head in heads if head.self_normalised}
    claimed -= {tfsoftmax.ShardedSoftmax}  # a FullSoftmax whose replicas hold a part each
    assert claimed == {type(make()) for make in HEADS.values() if make().self_normalised}


def test_chunks_that_each_sum_to_z_make_no_self_normalised_head():
    sampler = tfsoftmax.samplers.TargetSampling(V, [[0, 1], [2, 3]], [1, 2])
    assert not NCE(V, 2, sampler).self_normalised


def test_scores_below_the_constant_make_the_objective_a_penalised_cross_entropy():
    """Up to a constant, -z + α ln² Z is equation 2.45 for scores lower by 1 / (2 α)."""
    alpha, rng = 0.3, np.random.default_rng(0)
    ours = SelfNormalisedSoftmax(V, fraction=1.0, alpha=alpha)
    penalised = FullSoftmax(V, z_loss=alpha)
    hidden, labels = rng.normal(size=(9, CONTEXTS)), rng.integers(V, size=9)
    kernel, bias = rng.normal(size=(V, CONTEXTS)), rng.normal(size=V)
    for head, shift in ((ours, 0.5 / alpha), (penalised, 0.0)):
        head.build((None, CONTEXTS))
        head.kernel.assign(kernel)
        head.bias.assign(bias + shift)
    gaps = ours.training_loss(hidden, labels) - penalised.training_loss(hidden, labels)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-5)
    np.testing.assert_allclose(
        ours.self_normalised_log_prob(hidden, labels),
        penalised.self_normalised_log_prob(hidden, labels), atol=1e-5,
    )


def test_a_penalty_without_a_minimum_is_refused():
    with pytest.raises(ValueError, match="`alpha` must be 1 with squared=False.*alpha=0.7"):
        SelfNormalisedSoftmax(V, alpha=0.7, squared=False)

"""Gradients accumulated over batches of few and of many tokens equal those of the one batch."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, language_model, slow_unless
from keras_helper import T, V

STEPS, ROWS, PADDING = 3, 2, 0
LENGTHS = [5, 4, 1, 1, 2, 3]
OPTIMIZERS = {
    "sgd": lambda **o: tfsoftmax.optimizers.SGD(0.5, global_clipnorm=0.2, **o),
    "adagrad": lambda **o: tfsoftmax.optimizers.Adagrad(0.5, **o),
    "adam": lambda **o: tfsoftmax.optimizers.Adam(0.05, epsilon=1e-3, **o),
    "keras": lambda **o: keras.optimizers.SGD(0.5, **o),
}


def padded():
    """Words and labels (6, T), of which as many as `LENGTHS` are no padding."""
    words = np.random.default_rng(3).integers(1, V, (len(LENGTHS), T + 1)).astype(np.int32)
    labels = np.where(np.arange(T) < np.array(LENGTHS)[:, None], words[:, 1:], PADDING)
    return words[:, :-1], labels


def weigh(inputs, labels):
    """As in docs/keras.md."""
    weights = tf.cast(labels != PADDING, "float32")
    return inputs, labels, STEPS * weights / tf.reduce_sum(weights)


def trained(case, optimizer, loss, data):
    model = language_model(CASES[case](V))
    model.compile(optimizer, loss)
    model.fit(data, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


def difference(case, optimizer, losses, how=lambda x, y: (x, y)):
    """The largest difference of weights after accumulation and after steps of one batch."""
    whole = tf.data.Dataset.from_tensor_slices(padded()).batch(STEPS * ROWS)
    accumulating = OPTIMIZERS[optimizer](gradient_accumulation_steps=STEPS)
    cut = whole.map(how).unbatch().batch(ROWS)
    cut = cut.apply(tf.data.experimental.assert_cardinality(STEPS))
    found = trained(case, accumulating, losses[0], cut)
    wanted = trained(case, OPTIMIZERS[optimizer](), losses[1], whole)
    return max(np.abs(x - y).max() for x, y in zip(found, wanted, strict=True))


@pytest.mark.parametrize("case, optimizer", slow_unless(
    [("full", "adam"), ("adaptive", "adagrad"), ("tree", "sgd"), ("full", "keras")],
    itertools.product(["full", "adaptive", "tree"], OPTIMIZERS),
))
def test_sums_with_weights_that_add_up_to_the_steps_are_the_mean_over_all_tokens(case, optimizer):
    mean = tfsoftmax.SoftmaxLoss(PADDING, reduction="mean_with_sample_weight")
    losses = tfsoftmax.SoftmaxLoss(reduction="sum"), mean
    assert difference(case, optimizer, losses, weigh) < 2e-5


@pytest.mark.parametrize("optimizer", slow_unless(["sgd", "keras"], OPTIMIZERS))
def test_sums_over_steps_weigh_all_tokens_alike(optimizer):
    loss = tfsoftmax.SoftmaxLoss(PADDING, reduction="sum_over_steps")
    assert difference("full", optimizer, (loss, loss)) < 2e-5


def test_means_of_batches_do_not():
    loss = tfsoftmax.SoftmaxLoss(PADDING, reduction="mean_with_sample_weight")
    assert difference("full", "sgd", (loss, loss)) > 1e-2

"""Nats per token by the frequency of the words."""

import keras
import numpy as np
import pytest

import tfsoftmax
from cases import randomise

V, D = 12, 6
COUNTS = [0, 1, 9, 10, 99, 100, 5, 50, 12345, 3, 0, 700]
BANDS = [0, 1, 1, 10, 10, 100, 1, 10, 10000, 1, 0, 100]


def test_nats_of_each_band_are_those_of_its_words():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(40, D)).astype(np.float32)
    labels = rng.integers(0, V - 1, 40)
    labels[labels == 8] = 7  # no token of the band of 10,000
    weights = rng.uniform(size=40).astype(np.float32)
    head, metric = tfsoftmax.FullSoftmax(V), tfsoftmax.metrics.NatsByFrequency(COUNTS)
    model = keras.Sequential([keras.Input((D,)), head])
    randomise(model)
    again = tfsoftmax.metrics.NatsByFrequency.from_config(metric.get_config())
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=[metric, again])
    model.evaluate(hidden, labels, sample_weight=weights, batch_size=7, verbose=0)
    nats = -head.log_prob(hidden, labels).numpy()
    bands = np.array(BANDS)[labels]
    for start in (0, 1, 10, 100, 10000):
        own = weights * (bands == start)
        for measured in (metric.result(), again.result()):
            np.testing.assert_allclose(
                measured[f"tokens_{start}"], own.sum() / weights.sum(), rtol=1e-5
            )
            with np.errstate(invalid="ignore"):
                wanted = (own * nats).sum() / own.sum()
            np.testing.assert_allclose(measured[f"nats_{start}"], wanted, rtol=1e-5)


def test_counts_must_be_those_of_the_words():
    for counts in ([], [3, -1], [[1, 2]], ["a"], [np.nan, 1]):
        with pytest.raises(ValueError, match="`counts` must be"):
            tfsoftmax.metrics.NatsByFrequency(counts)
    logits = tfsoftmax.FullSoftmax(V)(np.zeros([2, D], np.float32))
    for counts in (COUNTS[1:], [*COUNTS, 1]):
        metric = tfsoftmax.metrics.NatsByFrequency(counts)
        with pytest.raises(ValueError, match=f"`counts` must be those of .* {V} words. Received: "):
            metric.update_state(np.array([V - 1, 0]), logits)


def test_a_word_of_no_probability_leaves_the_other_bands():
    head = tfsoftmax.FullSoftmax(V)
    model = keras.Sequential([keras.Input((D,)), head])
    head.bias.assign(np.where(np.arange(V) == 5, -np.inf, 0.0))
    metrics = [tfsoftmax.metrics.NatsByFrequency(COUNTS), tfsoftmax.metrics.Perplexity()]
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=metrics)
    hidden, labels = np.zeros((3, D), np.float32), np.array([5, 4, 8])
    said = model.evaluate(hidden, labels, verbose=0, return_dict=True)
    assert said["nats_100"] == np.inf and said["perplexity"] == np.inf
    np.testing.assert_allclose([said["nats_10"], said["nats_10000"]], np.log(V - 1), rtol=1e-5)
    weights = np.array([0.0, 1, 1])
    said = model.evaluate(hidden, labels, sample_weight=weights, verbose=0, return_dict=True)
    np.testing.assert_allclose(said["perplexity"], V - 1, rtol=1e-5)

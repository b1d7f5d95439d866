"""`num_samples` that follows the effective sample size."""

import keras
import numpy as np
import pytest

import tfsoftmax
from refusals import refuses
from tfsoftmax import AdjustNumSamples, EffectiveSampleSize, SampledSoftmax

V, UNITS = 40, 6


def compiled(head, metrics=True):
    model = keras.Sequential([keras.Input((UNITS,)), head])
    metrics = [EffectiveSampleSize()] if metrics else []
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=metrics)
    return model


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(32, UNITS)).astype(np.float32), rng.integers(0, V, 32)


def test_the_sample_doubles_until_enough_of_it_counts_and_is_saved(through_a_file):
    model = compiled(SampledSoftmax(V, 4, "uniform", kernel_initializer="zeros", seed=1))
    adjust = AdjustNumSamples(target=10, max_samples=1000, monitor="val_effective_sample_size")
    model.fit(*data(), validation_data=data(), epochs=4, callbacks=[adjust], verbose=0)
    # With scores near zero and a uniform proposal, nearly all of the sample counts.
    assert [samples for *_, samples in adjust.history] == [8, 16, 16, 16]
    sizes = [size for _, size, _ in adjust.history]
    np.testing.assert_allclose(sizes, [4, 8, 16, 16], rtol=0.1)  # so the steps were traced anew
    assert through_a_file(model).layers[-1].num_samples == 16


def test_the_sample_halves_where_too_much_of_it_counts():
    model = compiled(SampledSoftmax(V, 32, "uniform", kernel_initializer="zeros", seed=1))
    adjust = AdjustNumSamples(target=2, min_samples=6)
    model.fit(*data(), epochs=4, callbacks=[adjust], verbose=0)
    assert [samples for *_, samples in adjust.history] == [16, 8, 8, 8]


def test_the_bounds_hold():
    model = compiled(SampledSoftmax(V, 6, "uniform", seed=1))
    for target, bounds in ((500, {"max_samples": 10}), (0.1, {"min_samples": 7})):
        adjust = AdjustNumSamples(target, **bounds)
        model.fit(*data(), epochs=2, callbacks=[adjust], verbose=0)
        assert [samples for *_, samples in adjust.history] == 2 * [*bounds.values()]


@pytest.mark.parametrize("exclude", [[], [0, 7]], ids=["all", "excluding"])
def test_a_sample_without_replacement_grows_to_all_words_that_may_be_drawn(exclude):
    options, most = {"unique": True}, V - len(exclude)
    head = SampledSoftmax(V, 16, "uniform", sampler_options=options, not_items=exclude, seed=1)
    adjust = AdjustNumSamples(target=500)
    inputs, labels = data()
    labels = np.where(np.isin(labels, exclude), 1, labels)
    compiled(head).fit(inputs, labels, epochs=3, callbacks=[adjust], verbose=0)
    assert [samples for *_, samples in adjust.history] == [32, most, most]


@pytest.mark.parametrize("head, name, rule", [
    (lambda: tfsoftmax.FullSoftmax(V), "model", "end in a SampledSoftmax"),
    (lambda: SampledSoftmax(V, None, "in_batch", counts=np.ones(V)), "model",
     "whose sampler draws `num_samples` words"),
    (lambda: SampledSoftmax(V, 4), "monitor", "be a metric in the logs, ['loss'"),
])
def test_models_that_do_not_fit_are_named(head, name, rule):
    with refuses(name, rule):
        compiled(head(), False).fit(*data(), callbacks=[AdjustNumSamples(5)], verbose=0)


@pytest.mark.parametrize("arguments, name, rule", [
    ([0], "target", "be a positive number"), ([float("nan")], "target", " number"),
    (["5"], "target", " number"), ([5, 4, 3], "min_samples", "be at most max_samples=3"),
])
def test_arguments_that_do_not_fit_are_named(arguments, name, rule):
    with refuses(name, rule):
        AdjustNumSamples(*arguments)

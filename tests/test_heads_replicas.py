"""Every head under `MirroredStrategy`: two replicas learn what one device learns."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_helper as base
import replicas_helper
from cases import CASES
from replicas_helper import strategy_here
from tfsoftmax import ShardedSoftmax
from tfsoftmax.optimizers import Adagrad

RANDOM = (
    "sampled", "sampled TAPAS", "sampled, no hits", "nce with trained Z", "negative",
    "sampled, rows by an LSTM of characters", "sampled, smoothed, rows of a tower",
)


def check_two_replicas(chosen):
    """Run in a process of its own."""
    strategy = strategy_here()
    words, labels, weights = base.data()
    heads = {case: CASES[case](2) for case in reversed(CASES)}
    cases = {type(head): case for case, head in heads.items() if head.trains_exactly}
    cases["smoothed"] = "full smoothed"
    del cases[ShardedSoftmax]  # tests/test_sharded.py trains it, as no device has its logits
    for case in {*chosen} & {*cases.values()}:  # the first of each class
        results = []
        for scope in (strategy.scope, tf.distribute.get_strategy().scope):
            keras.utils.set_random_seed(1)
            with scope():
                model = base.compiled(case, optimizer=Adagrad(0.2))  # replicas clip apart
            options = {"batch_size": base.B, "sample_weight": weights, "verbose": 0}
            history = model.fit(words, labels, epochs=2, shuffle=False, **options).history
            exact = model.evaluate(words, labels, return_dict=True, **options)
            logits = model.predict(words, verbose=0)
            results.append([history["loss"], exact["loss"], exact["perplexity"], logits])
        for ours, wanted in zip(*results):
            np.testing.assert_allclose(ours, wanted, rtol=3e-4, atol=1e-4, err_msg=case)
    for case in {*chosen} & {*RANDOM}:
        check_random_head(case, strategy)


def check_random_head(case, strategy):
    """Replicas end with the same weights, and learn."""
    words, labels, _ = base.data()
    with strategy.scope():
        model = base.compiled(case, optimizer=Adagrad(0.2))
    before = model.evaluate(words, labels, verbose=0)[0]
    model.fit(words, labels, base.B, epochs=8, verbose=0)
    assert model.evaluate(words, labels, verbose=0)[0] < before, case
    head = model.layers[-1]
    for weight in head.weights:
        one, other = (value.numpy() for value in weight.value.values)
        np.testing.assert_array_equal(one, other, err_msg=f"{case} {weight.path}")


@pytest.mark.slow  # tests/test_replicas_training.py has some heads
def test_every_head_trains_on_two_replicas():
    replicas_helper.run(check_two_replicas, devices=2, seconds=1200, chosen=[*CASES])


def cutoffs_of_workers(in_a_replica):
    """The cutoffs that a worker finds where each has measured other costs."""

    from tfsoftmax.heads import AdaptiveSoftmax, TwoLevelSoftmax
    from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
    from tfsoftmax.partitions import cutoffs
    from tfsoftmax.partitions.cost_model import MachineCosts

    strategy = strategy_here()
    rank = strategy.cluster_resolver.task_id
    costs = MachineCosts(1e-4, 2e-11, logit_seconds=1e-8 * rank)
    cutoffs.machine_constants = lambda: costs
    counts = 10**6 // np.arange(1, 20_001)
    if in_a_replica:
        head = AdaptiveSoftmax(20_000, counts=counts)
        try:
            strategy.run(lambda: head.build((None, 64)))
        except ValueError as error:
            return str(error)
    with strategy.scope():
        embedding = AdaptiveEmbedding(20_000, 64, counts=counts)
        heads = AdaptiveSoftmax(20_000, counts=counts), TwoLevelSoftmax(20_000, counts=counts)
        for head in heads:
            head.build((None, 64))
    alone = cutoffs.auto_cutoffs(counts, 64, constants=costs)
    return alone, [layer.bands.cutoffs for layer in (embedding, *heads)]


def test_workers_agree_on_automatic_cutoffs():
    (first, agreed), (second, same) = replicas_helper.run(
        cutoffs_of_workers, workers=2, in_a_replica=False
    )
    assert first != second
    assert agreed == same and agreed[:2] == [first, first]


def test_automatic_cutoffs_are_refused_where_workers_cannot_agree():
    for message in replicas_helper.run(cutoffs_of_workers, workers=2, in_a_replica=True):
        assert "must be made in the scope of the strategy" in message


def step_of_nothing():
    """Run in a process of its own: the preferences before and after, and the loss."""
    with strategy_here().scope():
        model = base.compiled("self-organised", optimizer=Adagrad(0.2))
    words, labels, weights = base.data()
    model(words[:2])
    (before,) = (w.numpy() for w in model.layers[-1].weights if w.name == "preferences")
    history = model.fit(words, labels, base.B, sample_weight=0 * weights, verbose=0).history
    (after,) = (w.numpy() for w in model.layers[-1].weights if w.name == "preferences")
    return before, after, history["loss"][0]


def test_a_step_in_which_no_position_counts_changes_no_preferences():
    ((before, after, loss),) = replicas_helper.run(step_of_nothing, devices=2)
    np.testing.assert_array_equal(before, after)
    assert loss == 0

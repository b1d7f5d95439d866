"""Keras's `fit`, `evaluate` and `predict` with several replicas, and with several workers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from tfsoftmax._compat import mend_fit_of_replicas, trainer

V = 11


def model_and_data(optimizer):
    from tfsoftmax import FullSoftmax, Perplexity, SoftmaxLoss

    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((None,), dtype="int32"), keras.layers.Embedding(V, 4), FullSoftmax(V)
    ])
    model.compile(optimizer(), SoftmaxLoss(), weighted_metrics=[Perplexity()])
    rng = np.random.default_rng(0)
    return model, rng.integers(0, V, (12, 3)), rng.integers(0, V, (12, 3))


def results(model, words, labels):
    """Everything that a user of `compile`, `fit`, `evaluate` and `predict` sees."""
    history = model.fit(words, labels, batch_size=4, epochs=2, shuffle=False, verbose=0).history
    exact = model.evaluate(words, labels, batch_size=4, verbose=0, return_dict=True)
    logits = model.predict(words, batch_size=4, verbose=0)
    return history, exact, logits, model.get_weights()


def sgd():
    return keras.optimizers.SGD(0.5)


def by_a_worker():
    assert not mended_functions()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, *data = model_and_data(sgd)
    check_that_keras_fails_unless_mended(model, strategy, *data)
    return results(model, *data)


def mended_functions():
    functions = trainer.TensorFlowTrainer._maybe_symbolic_build, trainer.reduce_per_replica
    return [function.__wrapped__ for function in functions if hasattr(function, "__wrapped__")]


def check_that_keras_fails_unless_mended(model, strategy, *data):
    """If it does not fail any more, `_compat.mend_fit_of_replicas` can go."""
    build, reduce = mended_functions()
    batches = trainer.TFEpochIterator(strategy, *data, batch_size=4)
    with pytest.raises(ValueError, match="PerReplica"):
        build(model, iterator=batches)
    with pytest.raises(ValueError, match="dimension"):
        reduce(tf.constant(1.0), strategy, "auto")


def test_keras_stays_as_it_is_without_replicas():
    mend_fit_of_replicas()
    assert not mended_functions()


def test_two_workers_equal_one_process():
    for worker in replicas_helper.run(by_a_worker, workers=2):
        model, *data = model_and_data(sgd)
        got, wanted = worker, results(model, *data)
        for x, y in zip(keras.tree.flatten(got), keras.tree.flatten(wanted), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)

"""Keras's `fit`, `evaluate` and `predict` with several replicas, and with several workers."""

import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
import tfsoftmax
from cases import UNITS, assert_all_close, positions
from replicas_helper import strategy_here
from tfsoftmax.support._compat import trainer

V, T = 11, 3


def model_and_data(steps_per_execution=1):
    """A model of recurrent language modelling, 15 rows of words and labels, and their weights."""
    keras.utils.set_random_seed(1)
    words = keras.Input((T,), dtype="int32")
    hidden = keras.layers.Embedding(V, 4)(words)
    hidden = keras.layers.LSTM(5, return_sequences=True)(hidden)
    model = keras.Model(words, tfsoftmax.SampledSoftmax(V, 4, seed=1, name="head")(hidden))
    model.compile(
        tfsoftmax.optimizers.Adagrad(0.5, global_clipnorm=0.1),
        tfsoftmax.SoftmaxLoss(reduction="mean_with_sample_weight"),
        weighted_metrics=[
            tfsoftmax.Perplexity(), tfsoftmax.metrics.Accuracy(), tfsoftmax.metrics.NDCG(4),
            tfsoftmax.metrics.Coverage(V, 2),
        ],
        steps_per_execution=steps_per_execution,
    )
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=(15, T)).astype(np.float32) + 3 * (np.arange(15) % 3 == 0)[:, None]
    return model, {
        "x": rng.integers(0, V, (15, T)), "y": rng.integers(0, V, (15, T)),
        "sample_weight": weights, "batch_size": 7, "verbose": 0,
    }


class BatchLogs(keras.callbacks.Callback):
    """What a callback is told of our metrics after each batch of evaluation."""

    def on_test_begin(self, logs=None):
        self.logs = []

    def on_test_batch_end(self, batch, logs=None):
        self.logs.append([float(logs["perplexity"]), float(logs["accuracy"])])


def results(model, options):
    """Whatever a user of `fit`, `evaluate` and `predict` sees.

    Batches of 7, 7 and 1 rows: the last has none for the second replica.
    """
    fitted = model.fit(epochs=2, shuffle=False, **options)
    batches = BatchLogs()
    exact = model.evaluate(return_dict=True, callbacks=[batches], **options)
    # With several steps per execution, Keras's LSTM cannot predict for a replica without rows.
    rows = options["x"][: 15 if model.steps_per_execution == 1 else 14]
    return {
        "history": fitted.history, "evaluate": exact, "batches": batches.logs,
        "logits": model.predict(rows, batch_size=7, verbose=0), "weights": model.get_weights(),
    }


def check(got, wanted):
    for name in wanted:
        for x, y in zip(*(keras.tree.flatten(r[name]) for r in (got, wanted)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=name)


def by_replicas():
    with strategy_here().scope():
        by_steps = [results(*model_and_data(steps)) for steps in (1, 2)]
        model, options = model_and_data(steps_per_execution=2)
        fit = trainer.TensorFlowTrainer
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fit, "_make_function", fit._make_function.__wrapped__)
            with pytest.raises(tf.errors.InvalidArgumentError):
                model.evaluate(**options)  # if it does not fail any more, the mending can go
    return by_steps


@pytest.mark.slow
def test_uneven_batches_on_two_replicas_equal_one():
    (by_steps,) = replicas_helper.run(by_replicas, devices=2)
    for steps, got in zip((1, 2), by_steps, strict=True):
        check(got, results(*model_and_data(steps)))


def by_a_worker():
    strategy = strategy_here()
    with strategy.scope():
        model, options = model_and_data()
    check_that_keras_fails_unless_mended(model, strategy, options["x"], options["y"])
    return results(model, options)


@pytest.mark.slow
def test_two_workers_equal_one_process():
    for got in replicas_helper.run(by_a_worker, workers=2):
        check(got, results(*model_and_data()))


def check_that_keras_fails_unless_mended(model, strategy, *data):
    """If it does not fail any more, what `mend_keras` does about it can go."""
    build = trainer.TensorFlowTrainer._maybe_symbolic_build.__wrapped__
    reduce = trainer.reduce_per_replica.__wrapped__
    batches = trainer.TFEpochIterator(strategy, *data, batch_size=4)
    with pytest.raises(ValueError, match="PerReplica"):
        build(model, iterator=batches)
    with pytest.raises(ValueError, match="dimension"):
        reduce(tf.constant(1.0), strategy, "auto")


class Killed(keras.callbacks.Callback):
    """Ends `fit` in the middle, as a user or a cluster does."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


def with_callbacks(folder):
    """Trains with Keras's callbacks, is killed and goes on, then saves and exports."""
    strategy = strategy_here()
    folder = tempfile.mkdtemp(dir=folder)  # each worker needs its own
    validation = {"validation_data": [model_and_data()[1][name] for name in ("x", "y")]}
    models = []
    with strategy.scope():
        for _ in range(2):
            models.append(model_and_data())
    for (model, options), others in zip(models, ([Killed()], [])):
        callbacks = [
            keras.callbacks.BackupAndRestore(f"{folder}/backup"),
            keras.callbacks.ModelCheckpoint(
                f"{folder}/best.keras", "val_perplexity", save_best_only=True
            ),
            keras.callbacks.EarlyStopping("val_perplexity", min_delta=1e9, patience=3),
            keras.callbacks.CSVLogger(f"{folder}/log.csv", append=True), *others,
        ]
        try:
            model.fit(epochs=9, shuffle=False, callbacks=callbacks, **validation, **options)
        except KeyboardInterrupt:
            assert others
    model.save(f"{folder}/model.keras")
    model.export(f"{folder}/exported", verbose=False)
    return folder, model.get_weights(), options["x"]


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [{"workers": 2}, {"devices": 2}], ids=str)
def test_callbacks_saving_and_export(replicas, tmp_path):
    alone, options = model_and_data()
    # Four epochs after the two that the backup had, since EarlyStopping begins anew.
    alone.fit(epochs=6, shuffle=False, **options)
    for folder, weights, x in replicas_helper.run(with_callbacks, folder=str(tmp_path), **replicas):
        assert_all_close(weights, alone.get_weights(), atol=1e-6)
        loaded = keras.models.load_model(f"{folder}/model.keras")
        np.testing.assert_allclose(loaded(x), alone(x), rtol=1e-4, atol=1e-5)
        exported = tf.saved_model.load(f"{folder}/exported")
        logits = exported.serve(x.astype(np.int32))
        np.testing.assert_allclose(logits, alone(x), rtol=1e-4, atol=1e-5)
        assert keras.models.load_model(f"{folder}/best.keras").get_layer("head").vocab_size == V
        with open(f"{folder}/log.csv") as file:
            assert [line.split(",")[0] for line in file][1:] == ["0", "1", "2", "3", "4", "5"]


def measured_where_a_replica_has_only_padding():
    """Figures of a head whose padding is no item: two rows for one replica, none for the other."""
    with strategy_here().scope():
        inputs, head = keras.Input((UNITS,)), tfsoftmax.FullSoftmax(V, not_items=[0])
        model = keras.Model(inputs, head(inputs))
        metrics = [
            tfsoftmax.Normaliser(0), tfsoftmax.Perplexity(0), tfsoftmax.metrics.RecallAtK(2, 0),
            tfsoftmax.metrics.Accuracy(ignore_class=0),
        ]
        model.compile(None, tfsoftmax.SoftmaxLoss(0), metrics=metrics)
        hidden, labels = positions(V, 4)[0], np.array([3, 4, 0, 0])
        return model.evaluate(hidden, labels, 4, 0, return_dict=True)


def test_metrics_where_a_replica_has_only_padding():
    (found,) = replicas_helper.run(measured_where_a_replica_has_only_padding, devices=2)
    exact = found["log_z_mean"] + found["self_normalised_nats"]
    np.testing.assert_allclose(np.log(found["perplexity"]), exact, rtol=1e-5)

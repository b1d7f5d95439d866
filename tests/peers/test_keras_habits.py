"""Things that Keras users do around `fit` and that no other test does with a head."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, UNITS, built, positions, randomise, rewind
from keras_helper import B, T, V, compiled, data
from tfsoftmax import AdaptiveEmbedding, Perplexity, SoftmaxLoss

WORDS, LABELS, WEIGHTS = data()


class Batches(keras.utils.PyDataset):
    """The batches that `fit` makes of the arrays without shuffling."""

    def __len__(self):
        return len(WORDS) // B

    def __getitem__(self, i):
        rows = slice(B * i, B * (i + 1))
        return WORDS[rows], LABELS[rows], WEIGHTS[rows]


def test_a_dataset_and_single_batches_train_as_arrays_do():
    models = [compiled("full") for _ in range(3)]
    wanted = models[0].fit(
        WORDS, LABELS, B, sample_weight=WEIGHTS, shuffle=False, verbose=0
    ).history
    ours = models[1].fit(Batches(), shuffle=False, verbose=0).history
    logs = [models[2].train_on_batch(*Batches()[i], return_dict=True) for i in range(3)]
    assert wanted.keys() == ours.keys() == logs[0].keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-5)
    for model in models[1:]:
        np.testing.assert_allclose(
            model.get_weights()[-1], models[0].get_weights()[-1], rtol=1e-4, atol=1e-6
        )
    rows = Batches()[0]
    exact = models[0].evaluate(*rows[:2], B, sample_weight=rows[2], return_dict=True, verbose=0)
    models[2].reset_metrics()
    tested = models[2].test_on_batch(*rows, return_dict=True)
    for name, value in exact.items():
        np.testing.assert_allclose(tested[name], value, rtol=1e-4)
    np.testing.assert_allclose(
        models[2].predict_on_batch(rows[0]), models[0].predict(rows[0], verbose=0),
        rtol=1e-3, atol=1e-4,
    )


class Interruption(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 0:
            raise KeyboardInterrupt


def test_a_backup_restores_the_run_and_its_samples(tmp_path):
    def fit(*callbacks):
        model = compiled("sampled", optimizer=keras.optimizers.Adam(0.1))
        options = {"epochs": 2, "shuffle": False, "verbose": 0, "callbacks": list(callbacks)}
        return model.fit(WORDS, LABELS, B, **options).history["loss"]

    def backup(keep):
        folder = str(tmp_path / "backup")
        return keras.callbacks.BackupAndRestore(folder, delete_checkpoint=not keep)

    with pytest.raises(KeyboardInterrupt):
        fit(backup(True), Interruption())
    resumed = fit(backup(False))
    assert len(resumed) == 1
    np.testing.assert_allclose(resumed[0], fit()[1], rtol=1e-5)


# Masks


@pytest.mark.filterwarnings("ignore:`training` should be True")
@pytest.mark.parametrize("case", ["full", "sampled", "adaptive"])
def test_padding_behind_a_mask_changes_nothing(case):
    """From an embedding through a recurrent layer, a head and the loss to the gradients."""
    rng = np.random.default_rng(0)
    words = rng.integers(1, V, (B, T)).astype(np.int32)
    embedding = AdaptiveEmbedding(V, UNITS, [4, 9], mask_zero=True)
    inputs = keras.Input((None,), dtype="int32")
    hidden = keras.layers.SimpleRNN(UNITS, return_sequences=True)(embedding(inputs))
    head = CASES[case](V)
    model = keras.Model(inputs, head(hidden))
    randomise(model)
    words[1, 3:] = words[3, 1:] = 0
    longer = np.pad(words, [[0, 0], [0, 4]])
    results = []
    for batch, ours in ((words, LABELS[:B]), (longer, np.pad(LABELS[:B], [[0, 0], [0, 4]]))):
        rewind(head)
        with tf.GradientTape() as tape:
            logits = model(batch, training=case != "sampled")  # whose draws see all labels
            loss = SoftmaxLoss(reduction="sum")(ours, logits)
        metric = Perplexity()
        metric.update_state(ours, logits)
        gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
        results.append([loss, metric.result(), *map(tf.convert_to_tensor, gradients)])
    for short, long in zip(*results):
        np.testing.assert_allclose(short, long, rtol=1e-4, atol=1e-5)


# Recomputation and stateless calls


@pytest.mark.parametrize("case", ["full", "sampled", "adaptive", "tree", "class"])
def test_a_loss_may_be_recomputed_for_its_gradient(case):
    head, (hidden, labels) = built(case, V), positions(V, 6)
    source = tf.Variable(hidden)
    sources = [source, *(w.value for w in head.trainable_weights)]
    if case == "sampled":  # recomputation would draw anew
        seed = head.random_state.next()
        head.random_state.next = lambda synchronized: seed
    results = []
    for wrap in (keras.remat, lambda function: function):
        nats = wrap(lambda hidden: head.training_loss(hidden, labels))
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(nats(source))
        results.append([total, *map(tf.convert_to_tensor, tape.gradient(total, sources))])
    for ours, wanted in zip(*results):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", ["full", "sampled"])
def test_a_head_made_in_a_scope_of_recomputation_trains_as_any(case):
    """Eagerly: in a graph, Keras 3.15 cannot recompute even a Dense layer on TensorFlow."""
    histories = []
    for mode in ("full", None):
        with keras.RematScope(mode):
            dense, head = keras.layers.Dense(UNITS), CASES[case](V)
        model = keras.Sequential([keras.layers.Embedding(V, UNITS), dense, head])
        model.build((None, T))
        randomise(model)
        model.compile("sgd", SoftmaxLoss(), run_eagerly=True)
        history = model.fit(WORDS, LABELS, B, epochs=2, shuffle=False, verbose=0).history
        histories.append(history["loss"])
    np.testing.assert_allclose(*histories, rtol=1e-5)


@pytest.mark.parametrize("case", ["full", "sampled", "adaptive"])
def test_stateless_calls_use_the_values_given(case):
    model = compiled(case)
    model.evaluate(WORDS[:B], LABELS[:B], verbose=0)  # builds the metrics
    values = [
        [tf.convert_to_tensor(v.value) for v in variables] for variables in
        (model.trainable_variables, model.non_trainable_variables, model.metrics_variables)
    ]
    values[0] = [2 * v for v in values[0]]
    inputs = WORDS[:B], LABELS[:B]
    logits, values[1] = model.stateless_call(*values[:2], inputs[0], training=False)
    with pytest.raises(ValueError, match="`y_pred` must be given .*stateless_compute_loss"):
        SoftmaxLoss()(inputs[1], logits)
    loss, _ = model.stateless_compute_loss(*values, *inputs, logits, None, training=False)
    for variable, value in zip(model.trainable_variables, values[0]):
        variable.assign(value)
    np.testing.assert_allclose(logits, model(inputs[0]), rtol=1e-5)
    wanted = keras.losses.SparseCategoricalCrossentropy(True)(inputs[1], logits)
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)

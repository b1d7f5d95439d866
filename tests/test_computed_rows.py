"""Rows that a layer computes: what heads ask for, and when the whole table is computed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import assert_all_close, chosen, counts, prepared, randomise, spelled, with_gradients
from experiments.benchmarks.head_products import products_of
from refusals import refuses
from tfsoftmax import (
    AdaptiveSoftmax,
    CharacterEmbedding,
    CharCnnSoftmax,
    FullSoftmax,
    SampledSoftmax,
    SoftmaxLoss,
)
from tfsoftmax.layers.computed_rows import ComputedRows
from tfsoftmax.ops.computed_table import table_of

V, D = 23, 6


class Tower(ComputedRows):
    """Rows of items from features, which counts the rows that it computes."""

    def __init__(self, input_dim, output_dim=None, **kwargs):
        super().__init__(input_dim, output_dim, **kwargs)
        self.features = np.random.default_rng(1).normal(size=(input_dim, 4)).astype(np.float32)
        self.computed = tf.Variable(0, trainable=False)

    def build(self, input_shape=None):
        self.own = keras.layers.Embedding(self.input_dim, 3)
        self.own.build()
        self.layer = keras.layers.Dense(self.output_dim, "tanh")
        self.layer.build((None, 7))
        self.built = True

    def rows(self, ids):
        self.computed.assign_add(tf.size(ids))
        return self.layer(tf.concat([tf.gather(self.features, ids), self.own(ids)], 1))


def tied(make=FullSoftmax, at_once=9, **options):
    head = prepared(make(V, tied_to=Tower(V), **options), units=D)
    head.tied_to.rows_at_once = at_once
    return head


def count(head):
    """How many rows were computed since the last call."""
    result = int(head.tied_to.computed)
    head.tied_to.computed.assign(0)
    return result


def hidden_and_labels():
    rng = np.random.default_rng(2)
    return rng.normal(size=(8, D)).astype(np.float32), rng.integers(0, V, 8)


@pytest.mark.parametrize("order", [None, np.arange(V)[::-1]])
@pytest.mark.parametrize("at_once", [1, 9, 50])
def test_the_gradient_of_the_table_is_that_of_all_rows(at_once, order):
    layer = tied(at_once=at_once).tied_to
    layer.order = order
    upstream = tf.random.stateless_normal([V, D], [1, 2])

    def gradients(rows):
        return with_gradients(lambda: upstream * rows(), layer.trainable_weights)[1]

    np.testing.assert_allclose(layer.table(), layer.rows(tf.range(V)), rtol=1e-6, atol=1e-6)
    wanted = gradients(lambda: layer.rows(tf.range(V)))
    assert_all_close(gradients(layer.table), wanted, rtol=1e-4)
    assert_all_close(tf.function(lambda: gradients(layer.table))(), wanted, rtol=1e-4)


def logits_of(head, hidden):
    """The logits by rows that are computed now."""
    return hidden @ tf.transpose(head.tied_to.rows(tf.range(V))) + head.bias.value


def model_of(head, optimizer="sgd", **options):
    model = keras.Sequential([keras.Input((D,)), head])
    model.compile(optimizer, SoftmaxLoss(), **options)
    return model


def test_a_sampled_step_computes_the_rows_of_labels_and_samples_once():
    head = tied(SampledSoftmax, num_samples=5, sampler="uniform", seed=1)
    hidden, labels = hidden_and_labels()
    count(head)
    head.training_loss(hidden, labels)
    assert count(head) <= len(set(labels)) + 5
    assert not head.tied_to._kept  # no memory before the table is needed


def test_sizes_of_a_head_are_known_without_rows():
    class WithoutTable(Tower):
        def table(self):
            raise AssertionError("all rows are computed")

    nce = tfsoftmax.NCE(V, 5, tied_to=WithoutTable(V), train_z="context")
    cubic = tfsoftmax.CubicScores(V, tied_to=WithoutTable(V))
    spherical = tfsoftmax.SphericalSoftmax(V, tied_to=WithoutTable(V))
    for head in (nce, cubic, spherical):
        head.build((None, D))
        assert products_of(head, np.arange(3))
    assert nce.log_z_kernel.shape == (D,)


def test_the_table_is_computed_once_and_again_when_a_weight_has_changed():
    head, (hidden, labels) = tied(), hidden_and_labels()
    rounds = -(-V // 9)
    padded = rounds * -(-V // rounds)  # a chunk is filled up
    traced = tf.function(lambda: head.log_prob(hidden, labels))
    count(head)
    first = head.log_probs(hidden)
    assert count(head) == padded
    for call in (lambda: head.log_probs(hidden), lambda: head.top_k(hidden, 3), traced, traced):
        call()
        assert count(head) == 0
    for weight in head.tied_to.weights:  # behind its back; the sum of the weights stays the same
        weight.assign(-weight.numpy()[::-1])
        after = traced()
        assert count(head) == padded
        wanted = chosen(tf.nn.log_softmax(logits_of(head, hidden)), labels)
        np.testing.assert_allclose(after, wanted, rtol=1e-5)
        count(head)
    assert np.abs(head.log_probs(hidden) - first).max() > 0.01
    assert count(head) == 0


def test_training_and_evaluation_in_turn():
    head, (hidden, labels) = tied(), hidden_and_labels()
    model = model_of(head)
    for _ in range(2):
        model.fit(hidden, labels, verbose=0)
        logits = model.predict(hidden, verbose=0)
        np.testing.assert_allclose(logits, logits_of(head, hidden), rtol=1e-4, atol=1e-5)


def test_the_table_follows_weights_that_a_layer_gets_later(tmp_path):
    head, (hidden, labels) = tied(), hidden_and_labels()
    model = model_of(head)
    before = model.predict(hidden, verbose=0)
    layer = head.tied_to.layer
    layer.enable_lora(2)
    head.log_probs(hidden)
    layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    wanted = logits_of(head, hidden)
    np.testing.assert_allclose(head(hidden), wanted, rtol=1e-4, atol=1e-5)
    assert np.abs(wanted - before).max() > 0.01
    # The function that was traced before knows nothing of the new weights, and goes on working.
    np.testing.assert_allclose(model.predict(hidden, verbose=0), before, rtol=1e-5)
    head.tied_to.own.trainable = False
    model.compile(keras.optimizers.Adam(0.05), SoftmaxLoss())
    losses = model.fit(hidden, labels, epochs=4, verbose=0).history["loss"]
    assert np.all(np.diff(losses) < 0)
    exact = model.evaluate(hidden, labels, verbose=0)
    logits = logits_of(head, hidden)
    nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    np.testing.assert_allclose(exact, tf.reduce_mean(nats), rtol=1e-5)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(served.serve(hidden), logits, rtol=1e-4, atol=1e-5)


def test_the_table_follows_quantised_weights():
    head, (hidden, _) = tied(), hidden_and_labels()
    before = head.log_probs(hidden)
    head.tied_to.layer.activation = None  # int8 leaves rows as they are but for rounding
    head.tied_to.layer.quantize("int8")
    np.testing.assert_allclose(head(hidden), logits_of(head, hidden), rtol=1e-4, atol=1e-4)
    assert np.abs(head.log_probs(hidden) - before).max() > 1e-3


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "mixed_float16"])
@pytest.mark.parametrize("make", [
    lambda dtype: CharacterEmbedding(V, None, spelled(V), filters=[3, 2], dtype=dtype),
    lambda dtype: Tower(V, dtype=dtype),
])
def test_rows_of_any_dtype(make, dtype):
    head = FullSoftmax(V, tied_to=make(dtype), dtype=dtype)
    hidden, labels = hidden_and_labels()
    model = model_of(head, weighted_metrics=[])
    randomise(head)
    table = head.tied_to.table()
    assert table.dtype == head.tied_to.variable_dtype
    rows = tf.cast(head.tied_to.rows(tf.range(V)), tf.float32)
    wanted = hidden @ tf.transpose(rows) + tf.cast(head.bias.value, tf.float32)
    np.testing.assert_allclose(head(hidden), wanted, rtol=0.05, atol=0.1)
    np.testing.assert_allclose(tf.cast(table, tf.float32), rows, rtol=0.02, atol=0.02)
    losses = model.fit(hidden, labels, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert SampledSoftmax(V, 5, "uniform", tied_to=head.tied_to)(hidden).shape == (8, V)


class Squares(ComputedRows):
    """Rows that the layer computes from a weight of its own, without another layer."""

    def build(self, input_shape=None):
        self.scale = self.add_weight(shape=(self.output_dim,), initializer="random_normal")
        self.built = True

    def rows(self, ids):
        scale = tf.convert_to_tensor(self.scale)
        shares = tf.cast(ids, scale.dtype)[:, None] / self.input_dim
        return tf.square(shares + scale)


def test_rows_depend_on_no_call_around_them():
    """Half precision rounds weights within the calls of layers, and not within other methods."""
    for ask in (lambda head, hidden: head(hidden), lambda head, hidden: head.log_probs(hidden)):
        head = prepared(FullSoftmax(
            400, tied_to=Squares(400, dtype="mixed_bfloat16"), dtype="mixed_bfloat16"
        ), units=D)
        ask(head, hidden_and_labels()[0])
        rows = head.tied_to.rows(tf.range(400))
        np.testing.assert_allclose(head.tied_to.table(), rows, rtol=1e-5)
        words = np.arange(400.0)  # which bfloat16 does not hold
        np.testing.assert_array_equal(head.tied_to(words), tf.cast(rows, tf.bfloat16))


def test_the_table_is_no_weight_and_in_no_file(through_a_file, tmp_path):
    words = spelled(V)
    model = keras.Sequential([keras.Input((D,)), CharCnnSoftmax(V, words, {"filters": [2]})])
    head, hidden = model.layers[-1], hidden_and_labels()[0]
    before = [w.path for w in head.weights]
    logits = model.predict(hidden, verbose=0)
    assert [w.path for w in head.weights] == before
    again = through_a_file(model)
    assert not again.layers[-1].tied_to._kept
    np.testing.assert_allclose(again.predict(hidden, verbose=0), logits, rtol=1e-5)
    other = keras.models.clone_model(model)
    other.predict(hidden, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(other.predict(hidden, verbose=0), logits, rtol=1e-5)


def test_an_exported_model_has_the_table(tmp_path):
    head, (hidden, _) = tied(), hidden_and_labels()
    model = model_of(head)
    logits = model.predict(hidden, verbose=0)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(served.serve(hidden), logits, rtol=1e-5)
    stored = tf.train.list_variables(str(tmp_path / "served" / "variables" / "variables"))
    assert [V, D] in [shape for _, shape in stored]


def test_adaptive_rows_are_the_layers_times_the_projections():
    head = tied(AdaptiveSoftmax, cutoffs=[5, 12], projection_factor=2.0, counts=counts(V))
    rows = tf.gather(head.tied_to.rows(tf.range(V)), head.bands.order.ids).numpy()
    first, *tails = head._clusters()
    np.testing.assert_allclose(first.kernel[:5], rows[:5], rtol=1e-5)
    np.testing.assert_allclose(first.kernel[5:], head.kernels[0], rtol=1e-6)
    for tail, start, end in zip(tails, (5, 12), (12, V)):
        np.testing.assert_allclose(tail.kernel, rows[start:end] @ tail.projection, rtol=1e-4)
    whole = tied(AdaptiveSoftmax, cutoffs=[5], projection_factor=None, counts=counts(V))
    rows = tf.gather(whole.tied_to.rows(tf.range(V)), whole.bands.order.ids)
    np.testing.assert_allclose(whole._clusters()[1].kernel, rows[5:], rtol=1e-6)


def test_adaptive_trains_the_layer():
    head = tied(AdaptiveSoftmax, cutoffs=[5, 12], projection_factor=2.0, counts=counts(V))
    hidden, labels = hidden_and_labels()
    np.testing.assert_allclose(np.exp(head.log_probs(hidden)).sum(-1), 1, rtol=1e-5)
    model = model_of(head, keras.optimizers.Adam(0.05))
    before = [w.numpy() for w in head.trainable_weights]
    losses = model.fit(hidden, labels, epochs=9, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert all(np.any(w.numpy() != old) for w, old in zip(head.trainable_weights, before))
    exact = model.evaluate(hidden, labels, verbose=0)
    np.testing.assert_allclose(exact, -np.mean(head.log_prob(hidden, labels)), rtol=1e-5)


@pytest.mark.parametrize("name, rule, vocab_size, layer, options", [
    ("tied_to", f"be of the class Embedding, of {V + 1}", V + 1, Tower(V, D), {}),
    ("tied_to", "as many units as the hidden state, 6", V, Tower(V, D + 1), {}),
    ("shard", "be False", V, Tower(V), {"shard": True}),
])
def test_what_cannot_be_tied_is_named(name, rule, vocab_size, layer, options):
    with refuses(name, rule):
        FullSoftmax(vocab_size, tied_to=layer, **options).build((None, D))


def test_a_table_in_a_graph_is_that_of_eager_mode_and_not_copied_in_each_chunk():
    features = np.random.default_rng(0).normal(size=(23, 3)).astype(np.float32)
    tower = tfsoftmax.ItemTower(
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)]), features, rows_at_once=5
    )
    function = tf.function(lambda: table_of(tower.rows, tf.range(22, -1, -1), 5))
    np.testing.assert_allclose(function(), tower.table(), rtol=1e-6)
    graph = function.get_concrete_function().graph.as_graph_def()
    kinds = {node.op for each in graph.library.function for node in each.node_def}
    assert "TensorListSetItem" in kinds and "TensorScatterUpdate" not in kinds

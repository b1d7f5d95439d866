"""Rows of items from a model of their features."""

import shutil
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from tfsoftmax import FullSoftmax, ItemTower, SampledSoftmax, SoftmaxLoss

V, D, N = 23, 6, 40
TITLES = np.array([f"a film of {('love', 'war', 'été')[i % 3]} no {i % 7}" for i in range(V)])
GENRES = [("drama", "war", "été", "noir")[i % 4] for i in range(V)]
YEARS = np.random.default_rng(0).uniform(1950, 2000, (V, 1))


def preprocessed():
    """A model of titles, genres, years and ids by the preprocessing layers of Keras."""
    titles = keras.layers.TextVectorization(12, output_mode="multi_hot")
    genres, years = keras.layers.StringLookup(), keras.layers.Normalization()
    for layer, values in ((titles, TITLES), (genres, GENRES), (years, YEARS)):
        layer.adapt(np.asarray(values))
    kinds = {"title": "string", "genre": "string", "id": "int64"}
    inputs = {name: keras.Input((), dtype=kind, name=name) for name, kind in kinds.items()}
    inputs["year"] = keras.Input((1,), name="year")
    features = keras.layers.Concatenate()([
        titles(inputs["title"]), tfsoftmax.Embedding(6, 3)(genres(inputs["genre"])),
        years(inputs["year"]), tfsoftmax.Embedding(5, 2)(keras.layers.Hashing(5)(inputs["id"])),
    ])
    vectors = keras.layers.Dense(D)(keras.layers.Dense(9, "tanh")(features))
    model = keras.Model(inputs, keras.layers.UnitNormalization()(vectors))
    return ItemTower(
        model, {"title": TITLES, "genre": GENRES, "year": YEARS, "id": np.arange(V)}, 9
    )


def numeric():
    features = np.random.default_rng(1).normal(size=(V, 4))
    return ItemTower(keras.layers.Dense(D, "tanh"), features)


def listed():
    inputs = [keras.Input((2,)), keras.Input((), dtype="int32")]
    merged = keras.layers.Concatenate()([inputs[0], tfsoftmax.Embedding(4, 3)(inputs[1])])
    model = keras.Model(inputs, keras.layers.Dense(D)(merged))
    return ItemTower(model, [np.ones((V, 2), np.float32), tf.range(V) % 4])


TOWERS = {"preprocessed": preprocessed, "numeric": numeric, "listed": listed}


def queries(count=N):
    rng = np.random.default_rng(2)
    return rng.normal(size=(count, 5)).astype(np.float32), rng.integers(0, V, count) % 7


def retrieval_model(tower, **options):
    inputs = keras.Input((5,))
    queries = keras.layers.UnitNormalization()(keras.layers.Dense(D)(inputs))
    queries = keras.layers.Rescaling(1 / 0.1)(queries)
    options = {"num_samples": 8, "sampler": "uniform", "use_bias": False, **options}
    model = keras.Model(inputs, SampledSoftmax(V, tied_to=tower, **options)(queries))
    model.compile(tfsoftmax.optimizers.Adam(0.05), SoftmaxLoss(),
                  weighted_metrics=[tfsoftmax.Perplexity()])
    return model


@pytest.mark.parametrize("name", TOWERS)
def test_rows_are_the_models_vectors_of_the_features(name):
    tower = TOWERS[name]()
    assert (tower.input_dim, tower.output_dim) == (V, D)
    features = tower.features
    wanted = tower.model(features)
    np.testing.assert_allclose(tower.table(), wanted, rtol=1e-5, atol=1e-6)
    ids = np.array([[3, 20, 3], [0, 0, 22]])
    np.testing.assert_allclose(tower(ids), wanted.numpy()[ids], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TOWERS)
def test_training_lowers_the_exact_loss_that_evaluation_reports(name):
    keras.utils.set_random_seed(1)
    model, (inputs, labels) = retrieval_model(TOWERS[name]()), queries()
    before = model.evaluate(inputs, labels, verbose=0)[1]
    model.fit(inputs, labels, epochs=8, verbose=0)
    nats, perplexity = model.evaluate(inputs, labels, verbose=0)
    assert perplexity < before
    tower = model.layers[-1].tied_to
    hidden = model.layers[-2].output
    hidden = keras.Model(model.input, hidden).predict(inputs, verbose=0)
    scores = hidden.astype(np.float64) @ tower.model(tower.features).numpy().T
    total = 0.0
    for position, label in enumerate(labels):
        total += np.log(np.exp(scores[position]).sum()) - scores[position, label]
    np.testing.assert_allclose(nats, total / N, rtol=1e-5)
    ids, log_probs = model.layers[-1].top_k(hidden, 4)
    best = np.take_along_axis(scores, ids.numpy(), axis=1)  # items of like features tie
    np.testing.assert_allclose(best, -np.sort(-scores, axis=1)[:, :4], rtol=1e-5, atol=1e-5)
    assert (np.diff(log_probs) <= 0).all() and all(len({*row}) == 4 for row in ids.numpy())


@pytest.mark.parametrize("name", TOWERS)
def test_a_saved_model_has_the_features(name, through_a_file):
    model, (inputs, labels) = retrieval_model(TOWERS[name]()), queries()
    model.fit(inputs, labels, verbose=0)
    wanted = model.predict(inputs, verbose=0)
    again = through_a_file(model)
    np.testing.assert_allclose(again.predict(inputs, verbose=0), wanted, rtol=1e-5, atol=1e-6)
    again.fit(inputs, labels, verbose=0)
    features = again.layers[-1].tied_to.features
    tf.nest.map_structure(
        np.testing.assert_array_equal, features, model.layers[-1].tied_to.features
    )


def test_a_keras_file_has_the_table_beside_its_configuration(tmp_path):
    features = np.random.default_rng(1).normal(size=(V, 1000))
    model = retrieval_model(ItemTower(keras.layers.Dense(D), features))
    path = tmp_path / "model.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
        archive.extractall(tmp_path / "parts")
    assert sizes["config.json"] < 20_000 < 4 * features.size
    assert max(size for name, size in sizes.items() if "/features" in name) >= 4 * features.size
    again = keras.saving.load_model(path).layers[-1].tied_to
    again_twice = ItemTower.from_config(again.get_config())
    np.testing.assert_array_equal(again_twice.features, features.astype(np.float32))

    shutil.rmtree(tmp_path / "parts" / "assets")
    archive = shutil.make_archive(str(tmp_path / "without"), "zip", tmp_path / "parts")
    without = keras.saving.load_model(shutil.copy(archive, tmp_path / "without.keras"))
    with pytest.raises(ValueError, match="`features` must be loaded from the assets"):
        without.layers[-1].top_k(np.ones((2, D), np.float32), 3)


def test_numbers_in_a_list_are_one_feature():
    tower = ItemTower(keras.layers.Embedding(9, D), [np.int64(3), np.int64(5)])
    assert tower.input_dim == 2 and tower.features.numpy().tolist() == [3, 5]


def test_features_may_have_any_names():
    features = {name: np.full((V, 1), i) for i, name in enumerate(("shape", "dtype", "values"))}
    inputs = {name: keras.Input((1,), name=name) for name in features}
    model = keras.Model(inputs, keras.layers.Concatenate()(list(inputs.values())))
    again = ItemTower.from_config(ItemTower(model, features).get_config())
    np.testing.assert_array_equal(again.table(), [[0, 1, 2]] * V)


def test_another_process_loads_and_serves_the_model(tmp_path):
    model, (inputs, labels) = retrieval_model(preprocessed()), queries()
    model.fit(inputs, labels, verbose=0)
    np.savez(tmp_path / "data.npz", inputs=inputs, wanted=model.predict(inputs, verbose=0))
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "served", verbose=False)
    script = """if True:
        import sys, keras, numpy as np, tensorflow as tf
        data = np.load(sys.argv[1] + "/data.npz")
        served = tf.saved_model.load(sys.argv[1] + "/served")
        scores = served.serve(data["inputs"])
        np.testing.assert_allclose(scores, data["wanted"], rtol=1e-4, atol=1e-4)
        import tfsoftmax
        again = keras.saving.load_model(sys.argv[1] + "/model.keras")
        scores = again.predict(data["inputs"], verbose=0)
        np.testing.assert_allclose(scores, data["wanted"], rtol=1e-4, atol=1e-4)
    """
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


def test_the_tower_of_users_may_read_items_through_the_same_tower(through_a_file):
    tower, history = numeric(), keras.Input((3,), dtype="int32")
    hidden = keras.layers.GlobalAveragePooling1D()(tower(history))
    model = keras.Model(history, SampledSoftmax(V, 5, "uniform", tied_to=tower)(hidden))
    words = np.random.default_rng(0).integers(0, V, (4, 3))
    wanted = model.predict(words, verbose=0)
    again = through_a_file(model)
    assert again.layers[-1].tied_to is again.layers[1]
    np.testing.assert_allclose(again.predict(words, verbose=0), wanted, rtol=1e-5, atol=1e-6)
    assert keras.models.clone_model(model).layers[-1].tied_to.input_dim == V


class Counting(keras.layers.Layer):
    """A layer that counts the rows that it computes."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], D), name="kernel")
        self.computed = tf.Variable(0, trainable=False)

    def call(self, features):
        self.computed.assign_add(tf.shape(features)[0])
        return features @ self.kernel


def test_a_step_of_fit_computes_no_table():
    layer = Counting()
    model, (inputs, labels) = retrieval_model(ItemTower(layer, np.eye(V), 4)), queries(3)
    model.fit(inputs, labels, verbose=0)
    layer.computed.assign(0)
    model.fit(inputs, labels, verbose=0)
    assert 0 < layer.computed.numpy() <= 3 + 8  # labels and samples
    assert not model.layers[-1].tied_to._kept or not tf.size(
        model.layers[-1].tied_to._kept[-1].rows
    )
    layer.computed.assign(0)
    model.evaluate(inputs, labels, batch_size=1, verbose=0)
    assert V <= layer.computed.numpy() < V + 4  # once, for all batches


@pytest.mark.parametrize("use_bias", [False, True])
def test_queries_compute_no_rows(use_bias):
    layer, (hidden, _) = Counting(), queries(3)
    head = SampledSoftmax(V, 8, "uniform", tied_to=ItemTower(layer, np.eye(V)), use_bias=use_bias)
    hidden = np.resize(hidden, (3, D)).astype(np.float32)
    head.build(hidden.shape)
    layer.computed.assign(0)
    for ask in (head.queries, tf.function(head.queries)):
        assert ask(hidden).shape == (3, D + use_bias)
    assert layer.computed.numpy() == 0


def test_one_item_mixed_precision_and_a_frozen_tower():
    one = ItemTower(keras.layers.Dense(2), [[1.0, 2.0]])
    assert SampledSoftmax(1, 1, "uniform", tied_to=one)(np.ones((3, 2))).shape == (3, 1)
    model = keras.layers.Dense(D, dtype="mixed_bfloat16")
    tower = ItemTower(model, np.eye(V), dtype="mixed_bfloat16")
    assert tower.table().dtype == "float32"
    assert np.isfinite(retrieval_model(tower).fit(*queries(), verbose=0).history["loss"]).all()
    frozen = numeric()
    frozen.trainable = False
    before = frozen.table().numpy()
    retrieval_model(frozen).fit(*queries(), verbose=0)
    np.testing.assert_array_equal(frozen.table(), before)


def test_layers_of_keras_rs_are_parts_of_towers(through_a_file):
    keras_rs = pytest.importorskip("keras_rs")
    inputs = keras.Input((4,))
    crossed = keras_rs.layers.FeatureCross()(inputs, inputs)
    tower = ItemTower(keras.Model(inputs, keras.layers.Dense(D)(crossed)), np.eye(V)[:, :4])
    model, (inputs, labels) = retrieval_model(tower), queries()
    model.fit(inputs, labels, verbose=0)
    wanted = model.predict(inputs, verbose=0)
    again = through_a_file(model)
    np.testing.assert_allclose(again.predict(inputs, verbose=0), wanted, rtol=1e-5, atol=1e-6)


def test_features_and_models_that_do_not_fit_are_named():
    dense = keras.layers.Dense(D)
    for features in ({"a": np.ones((3, 1)), "b": np.ones((4, 1))}, 1.0, np.ones((0, 2)), []):
        with pytest.raises(ValueError, match="`features` must have one row for each item"):
            ItemTower(dense, features)
    with pytest.raises(ValueError, match=r"`model` must map .* results of shape \(None, 3, 6\)"):
        ItemTower(dense, np.ones((V, 3, 2)))
    with pytest.raises(ValueError, match="as many units as the hidden state, 7"):
        FullSoftmax(V, tied_to=numeric())(np.ones((2, 7), np.float32))
    with pytest.raises(ValueError, match="`rows_at_once` must lie in"):
        ItemTower(dense, np.ones((3, 2)), rows_at_once=0)


def test_strings_are_stored_as_long_as_they_are():
    titles = [b"", b"nul\0", "été".encode(), b"x" * 5000, *(b"%d" % i for i in range(1996))]
    model = keras.layers.Hashing(D, output_mode="one_hot")
    tower = ItemTower(model, tf.constant(titles)[:, None])
    config = tower.get_config()
    assert len(str(config)) < 30_000  # padded they would be 2,000 times 5,000 bytes
    again = ItemTower.from_config(config)
    assert again.features.numpy()[:, 0].tolist() == titles


def test_dropout_acts_in_the_steps_of_heads_that_sample_alone():
    layers = [keras.layers.Dense(D), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    tower, (inputs, labels) = ItemTower(keras.Sequential(layers), np.eye(V)), queries()
    model = retrieval_model(tower)
    ids, before = np.arange(V), tower.table().numpy()
    np.testing.assert_allclose(tower(ids), before, rtol=1e-5, atol=1e-6)
    in_training = tower(ids, training=True).numpy()
    assert 0.3 < np.mean(in_training == 0) < 0.7
    moving = layers[1].moving_mean.numpy()
    hidden = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    head = model.layers[-1]
    assert len({float(tf.reduce_sum(head.training_loss(hidden, labels))) for _ in range(2)}) == 2
    exact = {float(tf.reduce_sum(head.log_prob(hidden, labels))) for _ in range(2)}
    assert len(exact) == 1
    model.fit(inputs, labels, verbose=0)
    assert not np.array_equal(layers[1].moving_mean.numpy(), moving)
    losses = [model.evaluate(inputs, labels, verbose=0)[0] for _ in range(2)]
    assert losses[0] == losses[1]
    full = FullSoftmax(V, tied_to=tower)
    values = [float(tf.reduce_sum(full.training_loss(hidden, labels))) for _ in range(2)]
    assert values[0] == values[1]

"""Wrong ids, counts, flags and objects are refused, each kind by one check, and none is cast."""

import importlib.util
import os
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import UNITS, built, positions
from refusals import refused
from tfsoftmax import samplers
from tfsoftmax.ops.inputs import checked_ids
from tfsoftmax.partitions.classes import class_tree
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.partitions.tree_builders import from_codes, from_nested
from tfsoftmax.support.arguments import check_positive, whole_numbers

V = 13
HIDDEN, LABELS = positions(V, 6)
HUGE = (2**32, 2**32 + 1, -(2**32))  # what a cast to int32 makes 0, 1 and 0
WRONG = (tf.errors.InvalidArgumentError, TypeError, ValueError)


def tower():
    return tfsoftmax.ItemTower(keras.layers.Dense(4), np.ones((V, 3)))


def exclude(head):
    return lambda ids: head.top_k(HIDDEN[:1], 3, exclude=ids[None])


def hard(head):
    return lambda ids: head.training_loss(HIDDEN[:1], LABELS[:1], ids[None])


def scored(head):
    return lambda ids: head.log_prob(HIDDEN[:2], ids)


READERS = {
    "Embedding": (lambda: tfsoftmax.Embedding(V, UNITS), "words"),
    "AdaptiveEmbedding": (lambda: tfsoftmax.AdaptiveEmbedding(V, UNITS, [4]), "words"),
    "ShardedEmbedding": (lambda: tfsoftmax.ShardedEmbedding(V, UNITS), "words"),
    "ItemTower": (tower, "words"),
    "HardNegatives": (lambda: tfsoftmax.HardNegatives(V, 2), "queries"),
    "top_k": (lambda: exclude(built("full", V)), "exclude"),
    "training_loss": (lambda: hard(built("sampled", V)), "hard_negatives"),
    "log_prob": (lambda: scored(built("full", V)), "labels"),
    "sample": (lambda: lambda ids: samplers.Uniform(V).sample(ids, 3, 1), "labels"),
    "sample, in-batch": (lambda: lambda ids: samplers.InBatch(V, None).sample(ids, 3, 1), "labels"),
    "update": (lambda: samplers.LearnedUnigram(V).update, "labels"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("traced", [False, True])
def test_an_id_is_compared_with_the_size_before_it_is_cast(reader, traced):
    make, name = READERS[reader]
    read = made = make()
    if traced:
        made(tf.constant([1, 2]))  # builds it
        read = tf.function(made, autograph=False)
    for wrong in (V, *HUGE, 2**62):
        with pytest.raises(WRONG, match=rf"`{name}` must lie in .* {V}\).*{wrong}"):
            read(tf.constant([1, wrong], tf.int64))


@pytest.mark.parametrize("reader", ["Embedding", "AdaptiveEmbedding", "ItemTower", "HardNegatives"])
@pytest.mark.parametrize("wrong", [0.9, 1.9, np.nan, np.inf])
def test_fractions_are_no_ids_and_whole_floats_are(reader, wrong):
    make, name = READERS[reader]
    read = make()
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"`{name}` must lie in"):
        read(np.array([1, wrong], np.float32))
    np.testing.assert_array_equal(read(np.array([1.0, 5], np.float32)), read(np.array([1, 5])))


@pytest.mark.parametrize("layer", [
    lambda: tfsoftmax.Embedding(V, UNITS), lambda: tfsoftmax.AdaptiveEmbedding(V, UNITS, [4]),
])
def test_xla_which_drops_errors_gets_nan_for_wrong_words_alone(layer):
    made = layer()
    expected = made(np.array([1, 2]))
    found = tf.function(made, jit_compile=True)(tf.constant([1, 2**32 + 2], tf.int64))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "uint64", "float64"])
def test_right_ids_of_any_type_are_what_they_are(dtype):
    ids, valid = checked_ids(np.array([0, V - 1], dtype), V, "ids")
    assert ids.dtype == tf.int32 and ids.numpy().tolist() == [0, V - 1] and valid.numpy().all()


def test_a_wrong_unsigned_id_is_not_taken_for_a_negative_one():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`ids` must lie in \[-1, 13\)"):
        checked_ids(np.array([0, 2**64 - 1], np.uint64), V, "ids", least=-1)


@pytest.mark.parametrize("wrong", ["3", 2.0, 1.5, True, np.True_, [3], 0, -1, 2**31, float("nan")])
def test_a_count_is_an_integer(wrong):
    refused(r"`every` must lie in \[1, 2\*\*31\) and be an integer", check_positive, every=wrong)
    check_positive(every=np.int64(3), other=None)


def test_the_words_of_a_step_may_be_a_mean_as_those_of_pairs_are():
    assert tfsoftmax.TrainingMonitor("logs", words_per_step=26.875).words_per_step == 26.875
    with pytest.raises(ValueError, match="`words_per_step` must be positive"):
        tfsoftmax.TrainingMonitor("logs", words_per_step=0)


NEGATIVES = tfsoftmax.HardNegatives(5, 2)


@pytest.mark.parametrize("make", [
    lambda x: tfsoftmax.HardNegatives(x, 3), lambda x: tfsoftmax.HardNegatives(5, x),
    lambda x: tfsoftmax.MineHardNegatives(NEGATIVES, np.arange(5), every=x),
    lambda x: tfsoftmax.MineHardNegatives(NEGATIVES, np.arange(5), batch_size=x),
    lambda x: tfsoftmax.ItemTower(keras.layers.Dense(4), np.ones((V, 3)), x),
    lambda x: tfsoftmax.Embedding(x, 3), lambda x: tfsoftmax.Embedding(3, x),
    lambda x: tfsoftmax.LSTM(x), lambda x: tfsoftmax.TransformerBlock(x),
    lambda x: tfsoftmax.TrainingMonitor("logs", x), lambda x: tfsoftmax.Reassign(x),
    lambda x: tfsoftmax.AdjustNumSamples(3.0, x), lambda x: tfsoftmax.metrics.NDCG(x),
    lambda x: tfsoftmax.metrics.Coverage(x),
    lambda x: samplers.audit_sampler(samplers.Uniform(V), 3, draws=x),
    lambda x: samplers.target_vocabularies([[1]], x, 1),
])
@pytest.mark.parametrize("wrong", ["3", 1.5, True, None, [3]])
def test_every_count_is_named_where_it_is_no_integer(make, wrong):
    refused("`[a-z_]+` must (be an integer|lie in)", make, wrong)


@pytest.mark.parametrize("wrong", [1.5, True, "a", None, [1, 2, 3]])
def test_a_seed_of_draws_is_one_integer_or_two(wrong):
    refused("`seed` must be an integer, or two", samplers.Uniform(V).sample, LABELS, 3, seed=wrong)


@pytest.mark.parametrize("make, name", [
    (lambda: from_nested([0, 1.5]), "nested"), (lambda: from_nested(3), "nested"),
    (lambda: from_nested([0, "a"]), "nested"), (lambda: from_codes([]), "codes"),
    (lambda: from_codes("01"), "codes"), (lambda: from_codes([0, 1]), "codes"),
    (lambda: Tree([2.5], [0, 1]), "sizes"), (lambda: Tree(["a"], [0, 1]), "sizes"),
    (lambda: Tree([2], [0, 2**32 + 1]), "words"), (lambda: Tree.from_config(None), "tree"),
    (lambda: class_tree([0, 10**12]), "classes"),
    (lambda: tfsoftmax.Vocabulary(["<unk>", "<eos>"], [1.5, 2]), "counts"),
    (lambda: samplers.TargetSampling(V, [[0.5, 1]], [1]), "vocabularies"),
    (lambda: samplers.TargetSampling(V, [[2**32, 1]], [1]), "vocabularies"),
    (lambda: samplers.TargetSampling(V, [[0, 1]], ["a"]), "ends"),
    (lambda: samplers.TargetSampling(V, None, [1]), "vocabularies"),
    (lambda: samplers.target_vocabularies([[0.5]], V, 3), "label_batches"),
    (lambda: samplers.Interpolated(V, np.ones(V), "half"), "unigram_weight"),
    (lambda: samplers.Interpolated(V, np.ones(V), True), "unigram_weight"),
    (lambda: samplers.Interpolated(V, np.ones(V), {"class_name": "Odd"}), "unigram_weight"),
    (lambda: tfsoftmax.FullSoftmax(V, dtype="int32"), "dtype"),
    (lambda: tfsoftmax.Embedding(V, 3, dtype="int32"), "dtype"),
    (lambda: tfsoftmax.AdaptiveEmbedding(V, 3, [4], dtype="int32"), "dtype"),
    (lambda: tfsoftmax.CharacterEmbedding(3, 4, ["a", "b", "c"], highway_layers=10**12),
     "highway_layers"),
    (lambda: tfsoftmax.ModelConfig(layers=10**12), "layers"),
])
def test_what_was_truncated_or_failed_obscurely_is_named(make, name):
    refused(f"`{name}` must ", make)


@pytest.mark.parametrize("features", [
    None, tf.ragged.constant([[1], [2, 3]]), tf.sparse.from_dense(np.ones((V, 3))),
    np.ones((V, 3), complex), {"a": None}, [[1, 2], [3]],
])
def test_features_of_a_tower_are_dense_numbers_or_strings(features):
    with pytest.raises(ValueError, match="`features` must be dense arrays of numbers or strings"):
        tfsoftmax.ItemTower(keras.layers.Dense(4), features)


@pytest.mark.parametrize("model, features, message", [
    (keras.layers.Dense(4), np.ones(V), "`model` must take the features, of shapes .*13, 'float32"),
    (lambda x: x, np.ones((V, 3)), "`model` must be a Layer. Received: "),
    (None, np.ones((V, 3)), "`model` must be a Layer. Received: model=None"),
])
def test_a_model_of_a_tower_takes_its_features(model, features, message):
    refused(message, tfsoftmax.ItemTower, model, features)


@pytest.mark.parametrize("arguments, message", [
    ((None, np.arange(5)), "`negatives` must be a HardNegatives. Received: negatives=None"),
    ((NEGATIVES, np.arange(5), 1, 3), "`index` must be a function, or None. Received: index=3"),
])
def test_what_mining_needs_is_named(arguments, message):
    refused(message, tfsoftmax.MineHardNegatives, *arguments)


@pytest.mark.parametrize("inputs", [None, [], "a", {"a": np.arange(5)}])
def test_inputs_that_keras_cannot_read_are_named_when_mining(inputs):
    users = keras.Input((), dtype="int32")
    head = tfsoftmax.SampledSoftmax(V, 5, "uniform")
    negatives = tfsoftmax.HardNegatives(5, 2)
    model = keras.Model(users, head(tfsoftmax.Embedding(5, 4)(users), negatives(users)))
    mine = tfsoftmax.MineHardNegatives(negatives, inputs)
    mine.set_model(model)
    mine.on_train_begin()
    refused("`inputs` must be ", mine.mined)


def two_towers(words=V):
    inputs = keras.Input((UNITS,), name="query")
    return keras.Model(inputs, tfsoftmax.FullSoftmax(words)(inputs))


@pytest.mark.parametrize("options, message", [
    ({"exclude": "no"}, "`exclude` must be True or False. Received: exclude='no'"),
    ({"index": "index"}, "`index` must be a tfsoftmax.search.WordIndex. Received: index='index'"),
    ({"ids": "a" * V}, "`ids` must be a list of strings, or None"),
    ({"ids": 3}, "`ids` must be a list of strings, or None. Received: ids=3"),
    ({"folder": None}, "`folder` must be a string, or a PathLike. Received: folder=None"),
    ({"folder": ""}, "`folder` must name a directory. Received: folder=''"),
    ({"model": 3}, "`model` must be a Model. Received: model=3"),
])
def test_arguments_of_the_export_of_retrieval_are_named(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        tfsoftmax.export_retrieval(
            **{"model": two_towers(), "folder": tmp_path / "x", "k": 3, **options}
        )
    assert not (tmp_path / "x").exists()


needs_faiss = pytest.mark.skipif(not importlib.util.find_spec("faiss"), reason="needs faiss")


@needs_faiss
def test_an_export_of_retrieval_refuses_the_index_of_another_head(tmp_path):
    for other in (two_towers(V + 1).layers[-1], built("full without bias", V)):
        index = tfsoftmax.search.WordIndex(other, samples=0)
        with pytest.raises(ValueError, match="`index` must be one of a head with 13 words"):
            tfsoftmax.export_retrieval(two_towers(), tmp_path / "x", 3, index=index)


@needs_faiss
@pytest.mark.parametrize("change", [
    {"inclusion.npy": np.full(5, np.nan)}, {"inclusion.npy": np.zeros(5)},
    {"inclusion.npy": np.ones(3)}, {"ids.npy": np.arange(V, V + 5, dtype=np.int32)},
    {"ids.npy": np.arange(5) / 2}, {"about.json": b"[]"}, {"about.json": b"{}"},
    {"about.json": b'{"candidates": "3", "scale": 1.0, "weights_sha256": ""}'},
    {"about.json": b'{"candidates": 3, "scale": "a", "weights_sha256": ""}'},
])
def test_an_edited_index_is_refused_by_name(change, tmp_path):
    head = built("full", V)
    tfsoftmax.search.WordIndex(head, samples=5).save(tmp_path / "index")
    with zipfile.ZipFile(tmp_path / "index") as old, zipfile.ZipFile(tmp_path / "new", "w") as new:
        for name in old.namelist():
            value = change.get(name, old.read(name))
            with new.open(name, "w") as file:
                file.write(value) if isinstance(value, bytes) else np.save(file, value)
    with pytest.raises(ValueError, match="new: must be an index that `save` wrote. Received: ."):
        tfsoftmax.search.WordIndex.load(tmp_path / "new", head)


def test_a_file_never_takes_the_place_of_a_device_or_a_folder(tmp_path):
    vocabulary = tfsoftmax.Vocabulary(["<unk>", "<eos>"], [1, 2])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(os.devnull)
    for name in ("pipe", "link"):
        refused(f"must be a file: .*{name}", vocabulary.save, tmp_path / name, error=OSError)
    refused("must be a file", vocabulary.save, tmp_path, error=IsADirectoryError)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("values", [[0.5], [np.nan], ["a"], [True], [[1], [2, 3]], [2**40], None])
def test_whole_numbers_are_never_rounded(values):
    refused("`x` must be whole numbers", whole_numbers, "x", values, "int32")
    assert whole_numbers("x", [1.0, 2], "int32").tolist() == [1, 2]

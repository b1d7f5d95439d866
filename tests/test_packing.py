"""Configurations hold large arrays in few bytes, and restore them exactly."""

import json

import keras
import numpy as np
import pytest

import tfsoftmax
from tfsoftmax import samplers
from tfsoftmax.partitions import tree_builders
from tfsoftmax.support.packing import LISTED, packed, unpacked

V, D = 3001, 5
RNG = np.random.default_rng(0)
COUNTS = RNG.permutation(100_000 // np.arange(1, V + 1) + 1)
ORDER = RNG.permutation(V).astype(np.int32)

LAYERS = {
    "tree": lambda: tfsoftmax.TreeSoftmax(V, counts=COUNTS),
    "nary": lambda: tfsoftmax.NarySoftmax(V, tree_builders.from_nested(
        [[[int(w), int(w + 1), int(w + 2)] for w in range(0, V - 1, 3)], V - 1]
    )),
    "class": lambda: tfsoftmax.ClassSoftmax(V, RNG.permutation(np.arange(V) % 7)),
    "self-organised": lambda: tfsoftmax.SelfOrganisedSoftmax(V, COUNTS),
    "adaptive": lambda: tfsoftmax.AdaptiveSoftmax(V, [10, 100], permutation=ORDER),
    "adaptive, not built": lambda: tfsoftmax.AdaptiveSoftmax(V, counts=COUNTS, permutation="ids"),
    "differentiated": lambda: tfsoftmax.DifferentiatedSoftmax(V, [10], [3, 2], counts=COUNTS),
    "shortlist": lambda: tfsoftmax.Shortlist(
        V, 10, tail_log_probs=-np.log(COUNTS), permutation=ORDER
    ),
    "sampled": lambda: tfsoftmax.SampledSoftmax(V, 9, counts=COUNTS, seed=1),
    "interpolated": lambda: samplers.Interpolated(V, COUNTS),
    "in batch": lambda: samplers.InBatch(V, COUNTS),
    "target": lambda: samplers.TargetSampling(V, [range(V)], [9]),
    "embedding": lambda: tfsoftmax.AdaptiveEmbedding(V, D, [10], permutation=ORDER),
}


@pytest.mark.parametrize("values", [
    COUNTS, ORDER, np.sort(COUNTS)[::-1], np.log(COUNTS), COUNTS.astype(np.uint8), -COUNTS,
    np.array([-2**63, 2**63 - 1] * LISTED), ORDER[:3000].reshape(60, 50), np.float32(1) / COUNTS,
])
def test_arrays_are_restored_exactly(values):
    config = json.loads(json.dumps(packed(values)))
    again = unpacked(config)
    assert isinstance(config, dict) and again.dtype == values.dtype
    np.testing.assert_array_equal(again, values)


def test_small_arrays_stay_lists_and_others_stay_as_they_are():
    assert packed(COUNTS[:3]) == COUNTS[:3].tolist() and packed((1, 2)) == [1, 2]
    assert packed(None) is None and packed("ids") == "ids"
    for value in (None, "ids", [1, 2], {"sizes": 2, "words": [0, 1]}):
        assert unpacked(value) is value


@pytest.mark.parametrize("name", LAYERS)
def test_layers_say_in_few_bytes_how_to_make_them_again(name):
    layer = LAYERS[name]()
    config = json.dumps(layer.get_config())
    again = type(layer).from_config(json.loads(config))
    assert again.get_config() == layer.get_config()
    assert len(config) < 0.7 * len(json.dumps(_with_lists(layer.get_config())))


@pytest.mark.parametrize("name", ["tree", "sampled"])
def test_saved_and_cloned_models_keep_the_arrays(name, tmp_path):
    hidden = keras.Input((D,))
    model = keras.Model(hidden, LAYERS[name]()(hidden))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    from_json = keras.models.model_from_json(model.to_json())
    from_json.load_weights(tmp_path / "model.weights.h5")
    cloned = keras.models.clone_model(model)
    cloned.set_weights(model.get_weights())
    states = np.ones((2, D), np.float32)
    for again in (loaded, from_json, cloned):
        np.testing.assert_array_equal(again(states), model(states))


@pytest.mark.parametrize("name", ["tree", "class", "adaptive", "sampled", "embedding"])
def test_configurations_with_lists_still_load(name):
    """As tfsoftmax wrote them before it packed arrays."""
    layer = LAYERS[name]()
    config = json.loads(json.dumps(_with_lists(layer.get_config())))
    assert '"packed"' not in json.dumps(config) and len(json.dumps(config)) > 3 * V
    assert type(layer).from_config(config).get_config().keys() == layer.get_config().keys()


def _with_lists(config):
    if isinstance(config, dict) and "packed" in config:
        return unpacked(config).tolist()
    if isinstance(config, dict):
        return {name: _with_lists(value) for name, value in config.items()}
    return config

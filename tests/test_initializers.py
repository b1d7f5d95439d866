"""Every head and layer takes any initializer, and all weights start out different."""

import itertools

import keras
import numpy as np
import pytest

from cases import CASES, UNITS, WITH_A_KERNEL
from tfsoftmax import (
    AdaptiveEmbedding,
    CharacterEmbedding,
    Embedding,
    ModelConfig,
    SphericalSoftmax,
    Vocabulary,
    language_model,
)

V = 20
LAYERS = {
    "embedding": (lambda: Embedding(V, UNITS)),
    "adaptive embedding": (lambda: AdaptiveEmbedding(V, UNITS, [4, 9], projection_factor=2.0)),
}


def rebuilt(case, make):
    """A built layer of the case with make(index) for each of its initializers."""
    layer = LAYERS[case]() if case in LAYERS else CASES[case](V)
    config = layer.get_config()
    names = sorted(name for name in config if name.endswith("initializer"))
    again = type(layer).from_config({**config, **{n: make(i) for i, n in enumerate(names)}})
    again.build((None, UNITS))
    return again, len(names)


@pytest.mark.parametrize("case", [*LAYERS, *WITH_A_KERNEL])
def test_functions_initialise_every_weight(case):
    layer, count = rebuilt(case, lambda i: lambda shape, dtype: keras.ops.full(shape, i + 1, dtype))
    for weight in layer.trainable_weights:
        (value,) = np.unique(weight.numpy())
        assert value in range(1, count + 1), weight.path


def test_functions_initialise_what_other_layers_hold():
    def halves(shape, dtype):
        return keras.ops.full(shape, 0.5, dtype)

    words = [str(i) for i in range(V)]
    embedding = CharacterEmbedding(
        V, UNITS, words, correction_units=2, embeddings_initializer=halves
    )
    head = SphericalSoftmax(
        V, sgd_learning_rate=0.1, kernel_initializer=halves, bias_initializer=halves
    )
    for layer in (embedding, head):
        layer.build((None, UNITS))
    tables = embedding.characters.embeddings, embedding.corrections.embeddings, head.factors.rows
    assert all(np.all(table.numpy() == 0.5) for table in tables)


@pytest.mark.parametrize("case", [*LAYERS, *WITH_A_KERNEL])
def test_weights_of_one_initializer_start_apart(case):
    one = keras.initializers.RandomUniform(-1, 1)
    layer, _ = rebuilt(case, lambda _: one)
    for first, second in itertools.combinations(layer.trainable_weights, 2):
        assert not np.isin(first.numpy(), second.numpy()).any(), (first.path, second.path)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("head, options", [
    ("adaptive", {"cutoffs": [5, 50]}), ("self_organised", {}),
    ("differentiated", {"cutoffs": [5, 50], "projected": True}),
])
def test_all_matrices_of_a_language_model_start_uniform_in_the_range(head, options, tied):
    if tied and head != "adaptive":
        pytest.skip("cannot be tied")
    config = ModelConfig(
        head=head, head_options=options, init_scale=0.001, embedding_units=16, hidden_units=16,
        tie_embeddings=tied,
    )
    words = [f"w{i}" for i in range(298)]
    vocabulary = Vocabulary(["<unk>", "<eos>", *words], np.arange(300, 0, -1))
    names = []
    for weight in language_model(config, vocabulary, 1).trainable_weights:
        if len(weight.shape) == 2:
            names.append(weight.path)
            largest = np.abs(weight.numpy()).max()
            assert 0.0007 < largest <= 0.001, weight.path
    assert any("projection" in name for name in names)

"""Keras's own test of a layer, on every head, embedding and recurrent layer."""

import pytest
from keras.src.testing import TestCase  # What Keras tests its own layers by; it needs only absl.

from cases import CASES, UNITS, WITH_A_KERNEL
from tfsoftmax import GRU, LSTM, AdaptiveEmbedding, Embedding

B, T, V = 2, 3, 13
# The fit of Keras's test sums the logits, and each compilation takes seconds. Our own tests fit
# every head by its own loss, and these the ones that are alone of their kind.
FITTED = ["full", "sampled", "adaptive"]

# Trained weights and others: seeds, learnt proposals, the classes of words.
WEIGHTS = {
    "full": (2, 0), "self-normalised": (2, 1), "sampled": (2, 1), "nce": (2, 1),
    "negative": (2, 1), "blackout": (1, 1), "tree": (2, 0), "adaptive": (5, 0),
    "two-level": (4, 0), "differentiated": (6, 0), "shortlist": (2, 0), "class": (2, 0),
    "nary": (2, 0), "self-organised": (4, 5), "class-unigram": (2, 0), "class-nce": (2, 1),
    "sharded": (2, 0), "spherical": (2, 0),
    "taylor": (2, 0),
}


def run_layer_test(make, **options):
    """`TestCase.run_layer_test` of the layer that `make(**kwargs)` returns.

    It checks the configuration, `build`, symbolic and eager calls, the mixed policy, and `fit`.
    """
    test = TestCase()
    try:
        test.run_layer_test(make, {}, **options)
    finally:
        test.doCleanups()


def from_config(layer, more):
    """A layer as a file gives it back. One made of arrays remembers that they are no JSON."""
    return type(layer).from_config({**layer.get_config(), **more})


@pytest.mark.parametrize("case", WITH_A_KERNEL)
@pytest.mark.filterwarnings("ignore:`loss` should be tfsoftmax.SoftmaxLoss")
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
def test_heads(case):
    trained, others = WEIGHTS[case]
    run_layer_test(
        lambda **more: from_config(CASES[case](V), more), input_shape=(B, T, UNITS),
        expected_output_shape=(B, T, V), expected_output_dtype="float32",
        expected_num_trainable_weights=trained, expected_num_non_trainable_weights=others,
        expected_num_seed_generators=0, expected_num_losses=0, supports_masking=True,
        run_training_check=case in FITTED,
    )


@pytest.mark.parametrize("case", ["full", "adaptive", "class"])
def test_regularised_heads(case):
    trained, others = WEIGHTS[case]
    run_layer_test(
        lambda **more: from_config(CASES[case](V), {"kernel_regularizer": "l2", **more}),
        input_shape=(B, UNITS), expected_output_shape=(B, V),
        expected_num_trainable_weights=trained, expected_num_non_trainable_weights=others,
        expected_num_losses={"full": 1, "adaptive": 3, "class": 1}[case],
        run_training_check=False,
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
def test_embeddings(masked):
    adaptive = {"cutoffs": [4, 9], "projection_factor": 2.0}
    for layer, options, trained in ((Embedding, {}, 1), (AdaptiveEmbedding, adaptive, 5)):
        TestCase().run_layer_test(
            layer,
            {"input_dim": V, "output_dim": UNITS, "mask_zero": masked, **options},
            input_shape=(B, T), input_dtype="int32", expected_output_shape=(B, T, UNITS),
            expected_output_dtype="float32", expected_num_trainable_weights=trained,
            expected_num_non_trainable_weights=0, expected_num_seed_generators=0,
            expected_num_losses=0, supports_masking=masked,
            expected_mask_shape=(B, T) if masked else None,
            run_training_check=not masked,
        )


@pytest.mark.parametrize("backend", ["fused", "cell"])
@pytest.mark.parametrize("layer", [LSTM, GRU])
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
def test_recurrent_layers(layer, backend):
    TestCase().run_layer_test(
        layer, {"units": 4, "backend": backend, "return_sequences": backend == "fused"},
        input_shape=(B, T, UNITS),
        expected_output_shape=(B, T, 4) if backend == "fused" else (B, 4),
        expected_output_dtype="float32", expected_num_trainable_weights=3,
        expected_num_non_trainable_weights=0, expected_num_seed_generators=1,
        expected_num_losses=0, supports_masking=True, run_training_check=backend == "fused",
    )

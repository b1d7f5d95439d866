"""Facts about the memory that saving a model takes, and about the size of the file."""

import tracemalloc

import keras
import numpy as np
import pytest

from cases import assert_all_equal
from tfsoftmax import AdaptiveSoftmax, Embedding, FullSoftmax, SampledSoftmax, TreeSoftmax
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.optimizers import Adagrad
from tfsoftmax.support import mends

V, UNITS = 60_000, 24
COUNTS = np.random.default_rng(0).permutation(10**9 // np.arange(1, V + 1))
HEADS = {
    "full": lambda: FullSoftmax(V),
    "adaptive": lambda: AdaptiveSoftmax(V, [V // 2, 3 * V // 4], counts=COUNTS),
    "sampled": lambda: SampledSoftmax(V, 9, counts=COUNTS),
    "tree": lambda: TreeSoftmax(V, counts=COUNTS),
}


def model_of(head, words=1):
    tokens = keras.Input((), dtype="int32")
    model = keras.Model(tokens, head(Embedding(words, UNITS)(tokens)))
    model.compile(Adagrad(0.1), SoftmaxLoss())
    model.optimizer.build(model.trainable_variables)
    return model


def bytes_of(variables):
    return sum(v.numpy().nbytes for v in variables)


def memory_of_saving(model, path):
    tracemalloc.start()
    model.save(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("head", [*HEADS, "embedding"])
def test_saving_takes_no_more_than_the_weights_again(head, tmp_path, monkeypatch, mended_keras):
    """Of a large model, as this one is taken to be."""
    monkeypatch.setattr(mends, "LARGE_BYTES", 0)
    model = model_of(TreeSoftmax(9), V) if head == "embedding" else model_of(HEADS[head]())
    path = tmp_path / "model.keras"
    assert memory_of_saving(model, path) < 1.3 * bytes_of(model.weights)
    written = bytes_of([*model.weights, *model.optimizer.variables])
    assert path.stat().st_size < 1.3 * written
    assert not list(tmp_path.glob("tmp*"))  # the temporary file
    loaded = keras.saving.load_model(path)
    assert_all_equal(
        [*loaded.weights, *loaded.optimizer.variables], [*model.weights, *model.optimizer.variables]
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_in_half_precision_are_saved_as_they_are(dtype, through_a_file):
    model = model_of(FullSoftmax(9, dtype=dtype))
    loaded = through_a_file(model)
    kernels = [np.float32(m.layers[-1].kernel.value) for m in (model, loaded)]
    assert kernels[0].any()
    np.testing.assert_array_equal(*kernels)


def test_keras_still_forms_the_file_of_a_large_model_in_memory(tmp_path):
    """If it does not any more, `mends._by_way_of_the_disk` can go."""
    model = model_of(FullSoftmax(V))
    assert memory_of_saving(model, tmp_path / "model.keras") > 2.5 * bytes_of(model.weights)

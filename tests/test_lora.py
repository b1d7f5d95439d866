"""LoRA of a head's kernel is that of Keras's `Dense`."""

import keras
import numpy as np
import pytest

from cases import UNITS, positions, randomise
from keras_helper import V
from tfsoftmax.heads import FullSoftmax
from tfsoftmax.losses import SoftmaxLoss

HIDDEN, LABELS = positions(V, 8)


def compiled_head(**options):
    head = FullSoftmax(V, **options)
    model = keras.Sequential([keras.Input((UNITS,)), head])
    randomise(model)
    model.compile(keras.optimizers.SGD(0.3), SoftmaxLoss())
    return model, head


def test_training_equals_dense():
    model, head = compiled_head()
    dense = keras.layers.Dense(V)
    other = keras.Sequential([keras.Input((UNITS,)), dense])
    other.compile(
        keras.optimizers.SGD(0.3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    dense.set_weights([head.kernel.numpy().T, head.bias.numpy()])
    for layer in (head, dense):
        layer.enable_lora(3, lora_alpha=5.0)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(V, 3)), rng.normal(size=(3, UNITS))
    head.lora_kernel_a.assign(a), head.lora_kernel_b.assign(b)
    dense.lora_kernel_a.assign(b.T), dense.lora_kernel_b.assign(a.T)
    before = head.kernel.numpy()
    for each in (model, other):
        each.compile(each.optimizer.from_config(each.optimizer.get_config()), each.loss)
        each.fit(HIDDEN, LABELS, 4, epochs=3, shuffle=False, verbose=0)
    np.testing.assert_array_equal(head.kernel.numpy(), before)
    np.testing.assert_allclose(
        model.predict(HIDDEN, verbose=0), other.predict(HIDDEN, verbose=0), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(head.lora_kernel_a, dense.lora_kernel_b.numpy().T, atol=1e-5)


def test_a_head_that_was_frozen_for_a_while_does_not_train_its_kernel():
    model, head = compiled_head(lora_rank=2)
    model.trainable = False
    model.trainable = True
    assert [w.name for w in head.trainable_weights] == ["bias", "lora_kernel_a", "lora_kernel_b"]
    model.compile(keras.optimizers.SGD(0.3), model.loss)
    before = head.kernel.numpy()
    model.fit(HIDDEN, LABELS, verbose=0)
    np.testing.assert_array_equal(head.kernel.numpy(), before)


@pytest.mark.parametrize("use_bias", [True, False])
def test_files_hold_the_adapted_kernel(tmp_path, use_bias):
    model, head = compiled_head(use_bias=use_bias, lora_rank=2)
    wanted = model.predict(HIDDEN, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[-1].lora_enabled and again.layers[-1].lora_rank == 2
    np.testing.assert_allclose(again.predict(HIDDEN, verbose=0), wanted, rtol=1e-5, atol=1e-5)
    model.save_weights(tmp_path / "model.weights.h5")
    plain, _ = compiled_head(use_bias=use_bias)
    plain.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(plain.predict(HIDDEN, verbose=0), wanted, rtol=1e-5, atol=1e-5)


def test_errors_name_the_condition():
    model, head = compiled_head(lora_rank=2)
    with pytest.raises(ValueError, match="`enable_lora` needs .* once.*lora_enabled=True"):
        head.enable_lora(2)
    with pytest.raises(ValueError, match="`enable_lora` needs a built head.*built=False"):
        FullSoftmax(V).enable_lora(2)
    tied_to = keras.layers.Embedding(V, UNITS)
    with pytest.raises(ValueError, match="without `tied_to`.*enable_lora` of the emb"):
        FullSoftmax(V, tied_to=tied_to, lora_rank=2)
    with pytest.raises(ValueError, match=r"LoRA \(`lora_rank`\) needs a kernel of the head's own"):
        FullSoftmax(V, tied_to=tied_to).enable_lora(2)

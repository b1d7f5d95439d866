"""LSTM, GRU and vanilla RNN layers that several backends can compute from the same weights.

| backend | computes with |
|---|---|
| `cell` | Keras's loop over the cell, such as `LSTMCell`: takes every option, the slowest |
| `cudnn` | NVIDIA's kernel; an error where there is no GPU, or for the vanilla RNN, for which |
|         | Keras has none (Müller 2017, section 3.5) |
| `fused` | `tfsoftmax.ops.fused_rnn`, on any device, also under `jit_compile=True` |
| `auto` | `cudnn` where there is a GPU and a kernel, else `fused`; Keras's loop for other options |

Weights `[kernel, recurrent_kernel, bias]` have the same shapes and gate order everywhere, so
`set_weights(get_weights())` and saved weights carry over from one backend to another. No cell has
peepholes: neither Keras's cells nor cuDNN's kernels do.
"""

import keras
import tensorflow as tf

from tfsoftmax.layers.names import BACKENDS, CELLS
from tfsoftmax.ops import fused_rnn
from tfsoftmax.support.arguments import check_positive, expect, refusal
from tfsoftmax.support.saved_options import SavedOptions

# The only options that the cuDNN kernel and our own loop support.
_KERNEL_OPTIONS = {
    "activation": keras.activations.tanh,
    "recurrent_activation": keras.activations.sigmoid,
    "use_bias": True,
    "dropout": 0,
    "recurrent_dropout": 0,
    "unroll": False,
    "reset_after": True,
}


def recurrent_layer(
    cell: str, units: int, backend: str = "auto", **kwargs
) -> keras.layers.Layer:
    """Returns an LSTM, GRU or vanilla RNN layer.

    Args:
        cell: `"lstm"`, `"gru"` or `"rnn"`.
        units: positive int, H.
        backend: `"auto"`, `"cudnn"`, `"cell"` or `"fused"`, see the module.
        kwargs: arguments of `keras.layers.LSTM`, `GRU` or `SimpleRNN`, with their defaults, except
            `unit_forget_bias=False`: the forget gate's bias starts at 0.

    Returns:
        A Keras layer, (B, T, D) -> (B, T, H), or (B, H) without `return_sequences`.

    Raises:
        ValueError: unknown cell or backend; `cudnn` without a GPU or for a vanilla RNN; `cudnn` or
            `fused` with other activations than tanh and sigmoid, without bias or `reset_after`,
            or with `dropout` or `unroll`.
    """
    expect(cell in CELLS, "cell", f"be one of {CELLS}", cell)
    if cell == "lstm":
        kwargs.setdefault("unit_forget_bias", False)
    return {"lstm": LSTM, "gru": GRU, "rnn": SimpleRNN}[cell](units, backend=backend, **kwargs)


class _KernelBackends(SavedOptions):
    """What the layers here add to Keras's: the choice of the sequence kernel.

    States, `stateful`, `go_backwards`, `return_state` and serialisation are Keras's. The output of
    masked steps before the first that is not masked is the initial state, where Keras's loop has
    zeros. With `zero_output_for_mask` all backends but `cudnn` use Keras's loop.
    """

    saved_options = ("backend",)
    has_cudnn = True

    def __init__(self, units: int, backend: str = "auto", **kwargs):
        check_positive(units=units)
        backends = BACKENDS if self.has_cudnn else tuple(b for b in BACKENDS if b != "cudnn")
        expect(backend in backends, "backend", f"be one of {backends}", backend)
        use_cudnn = {"auto": "auto", "cudnn": True}.get(backend, False)
        super().__init__(units, **({"use_cudnn": use_cudnn} if self.has_cudnn else {}), **kwargs)
        self.backend = backend
        if backend == "cudnn" and not _gpus():
            devices = [device.name for device in tf.config.list_logical_devices()]
            rule = 'have a GPU that TensorFlow sees for "cudnn"; "auto" and "fused" run anywhere'
            raise refusal("backend", rule, received={"backend": backend, "devices": devices})
        if backend in ("cudnn", "fused"):
            self._require_kernel_options()

    def _require_kernel_options(self):
        for name, required in _KERNEL_OPTIONS.items():
            received = getattr(self, name, required)
            fits, needed = received == required, getattr(required, "__name__", required)
            expect(fits, name, f'be {needed!r} for backend="{self.backend}"; "auto" and "cell" '
                   "take any", getattr(received, "__name__", received))

    def build(self, sequences_shape, initial_state_shape=None):
        chosen = self.cell.recurrent_initializer
        self.cell.recurrent_initializer = _any_dtype(chosen)
        super().build(sequences_shape, initial_state_shape)
        self.cell.recurrent_initializer = chosen

    def _fuses(self, mask):
        left_to_keras = self.has_cudnn and _gpus()
        wanted = self.backend == "fused" or (self.backend == "auto" and not left_to_keras)
        if not wanted or (mask is not None and self.zero_output_for_mask):
            return False
        return all(getattr(self, name, value) == value for name, value in _KERNEL_OPTIONS.items())

    def inner_loop(self, sequences, initial_state, mask, training=False):
        mask = keras.tree.flatten(mask)[0] if keras.tree.is_nested(mask) else mask
        if not self._fuses(mask):
            return super().inner_loop(sequences, initial_state, mask, training=training)
        if self.go_backwards:
            sequences = tf.reverse(sequences, axis=[1])
            mask = None if mask is None else tf.reverse(mask, axis=[1])
        cell = self.cell
        weights = [
            tf.convert_to_tensor(weight, dtype=sequences.dtype)
            for weight in (cell.kernel, cell.recurrent_kernel, cell.bias)
        ]
        outputs, *states = self._sequence_kernel(sequences, *initial_state, *weights, mask)
        return states[0], outputs, states


@keras.saving.register_keras_serializable(package="tfsoftmax")
class LSTM(_KernelBackends, keras.layers.LSTM):
    """`keras.layers.LSTM` with `backend`: `"auto"`, `"cudnn"`, `"cell"` or `"fused"`.

    Example:
        words = keras.Input((20,), dtype="int32")
        hidden = tfsoftmax.Embedding(1000, 64)(words)
        hidden = tfsoftmax.LSTM(64, backend="fused", return_sequences=True)(hidden)
        model = keras.Model(words, tfsoftmax.FullSoftmax(1000)(hidden))
    """

    _sequence_kernel = staticmethod(fused_rnn.lstm)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class GRU(_KernelBackends, keras.layers.GRU):
    """`keras.layers.GRU` with `backend`: `"auto"`, `"cudnn"`, `"cell"` or `"fused"`.

    Example:
        words = keras.Input((20,), dtype="int32")
        hidden = tfsoftmax.Embedding(1000, 64)(words)
        hidden = tfsoftmax.GRU(64, backend="fused", return_sequences=True)(hidden)
        model = keras.Model(words, tfsoftmax.FullSoftmax(1000)(hidden))
    """

    _sequence_kernel = staticmethod(fused_rnn.gru)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SimpleRNN(_KernelBackends, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN`, the vanilla RNN, with `backend`: `"auto"`, `"cell"` or `"fused"`.

    Example:
        words = keras.Input((20,), dtype="int32")
        hidden = tfsoftmax.Embedding(1000, 64)(words)
        hidden = tfsoftmax.SimpleRNN(64, backend="fused", return_sequences=True)(hidden)
        model = keras.Model(words, tfsoftmax.FullSoftmax(1000)(hidden))
    """

    has_cudnn = False
    _sequence_kernel = staticmethod(fused_rnn.rnn)


def _any_dtype(initializer):
    """The initializer, which draws in float32 for bfloat16: that has no orthogonal matrices."""

    def draw(shape, dtype):
        drawn_in = "float32" if dtype == "bfloat16" else dtype
        return tf.cast(initializer(shape, dtype=drawn_in), dtype)

    return draw


def _gpus():
    return tf.config.list_logical_devices("GPU")

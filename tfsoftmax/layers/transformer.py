"""A block of a causal Transformer, as a recurrent layer whose state is its cache."""

import keras
import tensorflow as tf

from tfsoftmax.layers.dropout import Dropout
from tfsoftmax.layers.initializers import Initializer, own_initializer
from tfsoftmax.ops.attention import attention_to_context
from tfsoftmax.ops.gelu import gelu
from tfsoftmax.support.arguments import check_positive, expect
from tfsoftmax.support.saved_options import SavedOptions


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TransformerCell(SavedOptions, keras.layers.Layer):
    """The cell of `TransformerBlock`, for `keras.layers.RNN`.

    Its state is the keys and the values of the last C words, and which of these C are words; at the
    beginning of a text, the state is zeros. Positions are relative, so a text may have any length.

    Args:
        units, attention_heads, context, dropout, kernel_initializer: as in `TransformerBlock`.
        **kwargs: arguments of `keras.layers.Layer`.

    Example:
        cell = tfsoftmax.layers.transformer.TransformerCell(16, attention_heads=2, context=8)
        layer = keras.layers.RNN(cell, return_sequences=True)
        hidden = layer(keras.random.normal((2, 5, 16)))
        print(hidden.shape)
    """

    saved_options = ("units", "attention_heads", "context", "dropout", "kernel_initializer")

    def __init__(
        self, units: int, attention_heads: int = 8, context: int = 128, dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform", **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(units=units, attention_heads=attention_heads, context=context)
        expect(0 <= dropout < 1, "dropout", "lie in [0, 1)", dropout)
        expect(units % (2 * attention_heads) == 0, "units",
               "be a multiple of twice `attention_heads`, since positions rotate pairs of units",
               received={"units": units, "attention_heads": attention_heads})
        self.units, self.attention_heads, self.context = units, attention_heads, context
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.state_size, self.output_size = [context * units, context * units, context], units

    def build(self, input_shape):
        rule = f"have as many units as the block, {self.units}, to which its outputs are added"
        expect(input_shape[-1] == self.units, "inputs", rule,
               received=f"shape {tuple(input_shape)}")
        policy, units = self.dtype_policy, self.units

        def dense(name, units, activation=None):
            return keras.layers.Dense(
                units, activation, use_bias=False, dtype=policy, name=name,
                kernel_initializer=own_initializer(self.kernel_initializer),
            )

        self.norms = [
            keras.layers.RMSNormalization(dtype=policy, name=name)
            for name in ("attention_norm", "words_norm")
        ]
        self.projections = [dense(name, units) for name in ("queries", "keys", "values")]
        self.attended, self.hidden = dense("attended", units), dense("hidden", 4 * units, gelu)
        self.outputs = dense("outputs", units)
        self.drop = Dropout(self.dropout, dtype=policy, name="dropout")
        for layer in (*self.norms, *self.projections, self.attended, self.hidden):
            layer.build((None, units))
        self.outputs.build((None, 4 * units))
        self.built = True

    def call(self, inputs, states, training=False):
        outputs, states = self.read(inputs[:, None], states, training=training)
        return outputs[:, 0], states

    def read(self, sequences, states, count=None, training=False):
        """Reads several words at once: what `call` would return for one after the other.

        Args:
            sequences: (B, T, D) float.
            states: three tensors, the states after the words before.
            count: (B,) int32, how many of the T words count, from the first; None for all. Outputs
                for the others have no meaning, and the states do not remember them.

        Returns:
            Outputs (B, T, D), and the new states.
        """
        rows = tf.shape(sequences)[0]
        *cached, real_before = states
        normalised = self.norms[0](sequences)
        queries, *now = (project(normalised) for project in self.projections)
        keys, values = (
            tf.concat([tf.reshape(before, (rows, self.context, self.units)), new], axis=1)
            for before, new in zip(cached, now, strict=True)
        )
        real = tf.concat([real_before, tf.ones_like(sequences[..., 0])], axis=1)
        attended = attention_to_context(queries, keys, values, real, self.attention_heads)
        hidden = sequences + self.drop(self.attended(attended), training=training)
        outputs = self.outputs(self.hidden(self.norms[1](hidden)))
        hidden += self.drop(outputs, training=training)
        kept = (self._last(each, count) for each in (keys, values, real))
        return hidden, [tf.reshape(each, (rows, -1)) for each in kept]

    def _last(self, cached, count):
        """The last C of what the words before and `count` new ones have left."""
        if count is None:
            return cached[:, -self.context :]
        return tf.gather(cached, count[:, None] + tf.range(self.context), axis=1, batch_dims=1)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TransformerBlock(keras.layers.RNN):
    """A pre-norm Transformer block: each word attends to itself and the C words before it.

        h = x + Attention(RMSNorm(x))
        y = h + W_2 gelu(W_1 RMSNorm(h)), where W_1 has four times as many units

    It is a recurrent layer of Keras, whose state is the keys and values of the last C words. Hence
    `stateful`, `return_state` and `initial_state` work as in `keras.layers.LSTM`, and a text may be
    read in parts, even word by word, with the same result up to rounding. Masked words are skipped,
    wherever they are: the state does not change, and the previous output is repeated, or the output
    is zero before the first word of a call. Inputs are (B, T, D); outputs are (B, T, D) with
    `return_sequences=True`, else the last one, (B, D). With `stateful`, gradients end where a part
    begins. In the last of L blocks a word depends on the L · C words before it.

    Attention rotates keys and queries by their positions, so that the model needs no embedding of
    positions. The layer does not normalise its outputs: put a normalisation, such as
    `keras.layers.RMSNormalization`, after the last block. No matrix has a bias.

    Args:
        units: D, the units of inputs and outputs.
        attention_heads: number of heads. D must be a multiple of twice this number.
        context: C, at least 1.
        dropout: share of the units of both branches that are dropped in training.
        kernel_initializer: initializer of the matrices.
        **kwargs: arguments of `keras.layers.RNN`.

    Raises:
        ValueError: an argument is out of its range, or inputs have other units.

    Example:
        words = keras.Input((20,), dtype="int32")
        hidden = tfsoftmax.Embedding(1000, 64)(words)
        hidden = tfsoftmax.TransformerBlock(64, return_sequences=True)(hidden)
        model = keras.Model(words, tfsoftmax.FullSoftmax(1000)(hidden))

    Source: Vaswani et al. 2017; Su et al. 2021 for the positions. As in Dai et al. 2019
        (Transformer-XL), words of earlier parts are remembered, and gradients do not reach them.
        Departure: each word sees the same number of words before it, wherever a part begins.
    """

    def __init__(
        self, units: int, attention_heads: int = 8, context: int = 128, dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform", **kwargs,
    ):
        cell = TransformerCell(
            units, attention_heads, context, dropout, kernel_initializer,
            dtype=kwargs.get("dtype"), name="cell",
        )
        super().__init__(cell, **kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=3)

    @property
    def context(self) -> int:
        """C, how many words before a word it attends to."""
        return self.cell.context

    def inner_loop(self, sequences, initial_state, mask, training=False):
        mask = keras.tree.flatten(mask)[0] if keras.tree.is_nested(mask) else mask
        if self.go_backwards:
            sequences = tf.reverse(sequences, axis=[1])
            mask = None if mask is None else tf.reverse(mask, axis=[1])
        if mask is None:
            outputs, states = self.cell.read(sequences, initial_state, None, training)
        else:
            outputs, states = self._skipping(sequences, initial_state, mask, training)
        return outputs[:, -1], outputs, states

    def _skipping(self, sequences, initial_state, mask, training):
        """Reads the words that are not masked, and repeats outputs at the others."""
        order = tf.argsort(tf.cast(~mask, tf.int32), axis=1, stable=True)  # real words first
        read = tf.cumsum(tf.cast(mask, tf.int32), axis=1)  # how many up to each word
        words = tf.where(mask[..., None], sequences, 0)  # 0 times NaN is NaN
        words = tf.gather(words, order, axis=1, batch_dims=1)
        outputs, states = self.cell.read(words, initial_state, read[:, -1], training)
        outputs = tf.gather(outputs, tf.maximum(read - 1, 0), axis=1, batch_dims=1)
        has_output = mask if self.zero_output_for_mask else read > 0
        return tf.where(has_output[..., None], outputs, 0), states

    def get_config(self):
        cell, config = self.cell.get_config(), super().get_config()
        del config["cell"]
        return {**cell, **config}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

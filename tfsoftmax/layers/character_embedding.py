"""Rows of words that are computed from the words' characters."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.layers.computed_rows import ComputedRows
from tfsoftmax.layers.embedding import Embedding
from tfsoftmax.layers.initializers import Initializer, own_initializer
from tfsoftmax.layers.recurrent import LSTM
from tfsoftmax.ops.graphs import held
from tfsoftmax.support.arguments import check_positive, expect

ENCODERS = ("cnn", "lstm")
MOST_HIGHWAY_LAYERS = 1000  # each of which makes the graph larger
BEGIN, END, PADDING = 256, 257, 258  # after the bytes


@keras.saving.register_keras_serializable(package="tfsoftmax")
class CharacterEmbedding(ComputedRows):
    """ψ(w) = CNN(chars(w)) + corr(w): a word's row from its characters, as input or as kernel.

    The characters are the bytes of the word in UTF-8, between a start symbol and an end symbol.
    There are 256 of them whatever the corpus is, so every word has a row, even one in another
    alphabet. The CNN takes the maximum over time of each filter, its tanh, passes the features
    through highway layers, and projects them to D units. The LSTM reads the characters in both
    directions, and its two last outputs are projected. A narrow vector for each word, the
    correction, distinguishes words of similar spelling.

    Rows do not depend on the other words that are computed with them. All layers compute in the
    dtype of the weights under any policy, as the rows take the place of weights.

    Args:
        input_dim: V, the number of words.
        output_dim: D, units of a row; None for those of the head that is tied to the layer.
        words: V str, the words in the order of their ids. If words longer than `max_bytes` begin
            alike, only the correction distinguishes them.
        encoder: "cnn" or "lstm".
        character_units: units of a character's embedding.
        filters: for the CNN: number of filters of the widths 1, 2, 3, ...; 0 for no such filter.
        highway_layers: for the CNN: number of highway layers.
        highway_activation: for the CNN: activation of what a highway layer mixes into its input.
        lstm_units: for the LSTM: units of each direction.
        correction_units: units of the correction, which is projected to D; 0 for none.
        max_bytes: the number of bytes of a word that are read.
        embeddings_initializer: initializer of the embeddings of characters, and of corrections.
        **kwargs: arguments of `keras.layers.Layer`.

    Example:
        words = [f"word{i}" for i in range(1000)]
        embedding = tfsoftmax.CharacterEmbedding(1000, 64, words, correction_units=8)
        hidden = embedding(keras.random.randint((32, 20), 0, 1000))  # (32, 20, 64)
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50, tied_to=embedding)

    Source: Müller 2017, equation 2.48 (Jozefowicz et al. 2016; Kim et al. 2015, whose small model
    has the default sizes; Ling et al. 2015). Departures: bytes, as in Jozefowicz et al., where Kim
    et al. have characters; a projection after the highway layers, as D is the head's.
    """

    saved_options = (
        "words", "encoder", "character_units", "filters", "highway_layers", "highway_activation",
        "lstm_units", "correction_units", "max_bytes", "embeddings_initializer",
    )

    def __init__(
        self, input_dim: int, output_dim: int | None = None, words: Sequence[str] = (),
        encoder: str = "cnn", character_units: int = 15,
        filters: Sequence[int] = (25, 50, 75, 100, 125, 150), highway_layers: int = 1,
        highway_activation: str = "relu", lstm_units: int = 150, correction_units: int = 0,
        max_bytes: int = 50, embeddings_initializer: Initializer = "uniform", **kwargs,
    ):
        super().__init__(input_dim, output_dim, **kwargs)
        self.words = tuple(words)
        strings = all(isinstance(word, str) for word in self.words)
        expect(strings, "words", "be a list of strings", words)
        expect(len(self.words) == input_dim, "words", f"be the {input_dim} words",
               received=f"{len(self.words)} words")
        expect(encoder in ENCODERS, "encoder", f"be one of {ENCODERS}", encoder)
        check_positive(character_units=character_units, lstm_units=lstm_units, max_bytes=max_bytes)
        for name, value, end in (
            ("highway_layers", highway_layers, MOST_HIGHWAY_LAYERS + 1),
            ("correction_units", correction_units, 1 << 31),
        ):
            expect(0 <= value < end, name, f"lie in [0, {end})", value)
        right = min(filters, default=0) >= 0 and sum(filters)
        expect(right, "filters", "be integers >= 0, of which one is positive", filters)
        self.encoder, self.character_units, self.filters = encoder, character_units, [*filters]
        self.highway_layers, self.highway_activation = highway_layers, highway_activation
        self.lstm_units, self.correction_units = lstm_units, correction_units
        self.max_bytes = max_bytes
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.spelling = Spelling(self.words, max_bytes)
        self.order = np.argsort(self.spelling.lengths, kind="stable")

    def build(self, input_shape=None):
        self._add("characters", keras.layers.Embedding, PADDING + 1, self.character_units,
                  embeddings_initializer=own_initializer(self.embeddings_initializer))
        self.characters.build()
        (self._build_cnn if self.encoder == "cnn" else self._build_lstm)()
        if self.correction_units:
            self._add("corrections", Embedding, self.input_dim, self.correction_units,
                      embeddings_initializer=own_initializer(self.embeddings_initializer))
            self.corrections.build()
            self._add("correction_projection", keras.layers.Dense, self.output_dim, use_bias=False)
            self.correction_projection.build((None, self.correction_units))
        self.built = True

    def rows(self, ids):
        rows = self._encoded(self.spelling, ids)
        if self.correction_units:
            rows += self.correction_projection(self.corrections(ids))
        return rows

    def rows_of_words(self, words: Sequence[str]) -> tf.Tensor:
        """Rows (n, D) of any words, in the vocabulary or not, without their corrections."""
        return self._encoded(Spelling(words, self.max_bytes), tf.range(len(words)))

    def with_words(self, words: Sequence[str]) -> "CharacterEmbedding":
        """A layer of V + U words with copies of this layer's weights.

        Args:
            words: U str, whose ids follow those of the words that the layer has. Their corrections
                are zero.
        """
        expect(self.built, "A CharacterEmbedding", "be built before it gets more words",
               received=f"{self.name!r}, which has no weights yet")
        config = {**self.get_config(), "input_dim": self.input_dim + len(words)}
        wider = type(self).from_config({**config, "words": [*self.words, *words]})
        wider.build()
        for new, old in zip(wider.weights, self.weights, strict=True):
            added = [(0, a - b) for a, b in zip(new.shape, old.shape)]
            new.assign(np.pad(old.numpy(), added))
        return wider

    def _add(self, name, layer, *args, **kwargs):
        setattr(self, name, layer(*args, name=name, dtype=self.variable_dtype, **kwargs))

    def _build_cnn(self):
        widths = [width for width, count in enumerate(self.filters, start=1) if count]
        self.convolutions = []
        for width in widths:
            layer = keras.layers.Conv1D(
                self.filters[width - 1], width, name=f"filters_{width}", dtype=self.variable_dtype
            )
            layer.build((None, None, self.character_units))
            self.convolutions.append(layer)
        features, self.highways = sum(self.filters), []
        for i in range(self.highway_layers):
            layer = Highway(self.highway_activation, name=f"highway_{i}", dtype=self.variable_dtype)
            layer.build((None, features))
            self.highways.append(layer)
        self._build_projection(features)

    def _build_lstm(self):
        lstm = LSTM(self.lstm_units, dtype=self.variable_dtype)
        self._add("lstm", keras.layers.Bidirectional, lstm)
        self.lstm.build((None, None, self.character_units))
        self._build_projection(2 * self.lstm_units)

    def _build_projection(self, features):
        # A bias would add the same to the scores of all words.
        self._add("projection", keras.layers.Dense, self.output_dim, use_bias=False)
        self.projection.build((None, features))

    def _encoded(self, spelling, ids):
        """Rows (n, D) of the words of a `Spelling` that have these ids (n,)."""
        least = len(self.filters) if self.encoder == "cnn" else 1
        symbols, lengths = spelling.symbols(ids, least)
        embedded = self.characters(symbols)
        if self.encoder == "lstm":
            inside = tf.sequence_mask(lengths, tf.shape(symbols)[1])
            return self.projection(self.lstm(embedded, mask=inside))
        embedded *= tf.cast(symbols != PADDING, embedded.dtype)[:, :, None]
        features = tf.concat([
            self._maximum(convolution(embedded), lengths - convolution.kernel_size[0])
            for convolution in self.convolutions
        ], axis=1)
        features = tf.tanh(features)
        for highway in self.highways:
            features = highway(features)
        return self.projection(features)

    @staticmethod
    def _maximum(features, last):
        """Maxima (n, F) of features (n, L, F) over the places from the first to `last` (n,)."""
        places = tf.range(tf.shape(features)[1])
        inside = places <= tf.maximum(last, 0)[:, None]
        return tf.reduce_max(tf.where(inside[:, :, None], features, features.dtype.min), axis=1)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Highway(keras.layers.Layer):
    """y = t ⊙ g(x W + b) + (1 - t) ⊙ x with t = sigmoid(x U + c), which starts near y = x.

    Args:
        activation: g.
        **kwargs: arguments of `keras.layers.Layer`.

    Example:
        layer = tfsoftmax.layers.character_embedding.Highway("relu")
        features = layer(keras.random.normal((8, 64)))  # (8, 64)

    Source: Srivastava et al. 2015; c starts at -2, as in Kim et al. 2015.
    """

    def __init__(self, activation: str = "relu", **kwargs):
        super().__init__(**kwargs)
        self.activation = activation

    def build(self, input_shape):
        units = input_shape[-1]
        carry = keras.initializers.Constant(-2.0)
        self.transform = keras.layers.Dense(units, self.activation, dtype=self.dtype_policy)
        self.gate = keras.layers.Dense(
            units, "sigmoid", bias_initializer=carry, dtype=self.dtype_policy
        )
        self.transform.build(input_shape)
        self.gate.build(input_shape)
        self.built = True

    def call(self, features):
        share = self.gate(features)
        return share * self.transform(features) + (1 - share) * features

    def get_config(self):
        return {**super().get_config(), "activation": self.activation}


class Spelling:
    """The bytes of words between two marks, joined to one array.

    Args:
        words: n str.
        max_bytes: the number of bytes of a word that are kept.

    Attributes:
        lengths: (n,) int32, the number of symbols of each word, marks included.

    Example:
        spelling = tfsoftmax.layers.character_embedding.Spelling(["cat", "be"], 50)
        symbols, lengths = spelling.symbols([0, 1], least=1)
        print(symbols[1])  # [256 98 101 257 258]: the marks and the padding are 256 to 258
    """

    def __init__(self, words: Sequence[str], max_bytes: int):
        # A surrogate, which has no UTF-8, may stand in a word that was read from a damaged file.
        texts = [word.encode("utf-8", "surrogatepass")[:max_bytes] for word in words]
        self.lengths = np.array([len(text) + 2 for text in texts], np.int32)
        symbols = [[BEGIN, *text, END] for text in texts]
        symbols = np.concatenate([np.zeros(0), *symbols]).astype(np.int32)
        starts = np.cumsum([0, *self.lengths])[:-1].astype(np.int32)
        with tf.init_scope():  # outside the graph that asks first, as other graphs use them
            self._tensors = tf.constant(symbols), tf.constant(starts), tf.constant(self.lengths)

    def symbols(self, ids: tf.Tensor, least: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Symbols (n, L) of words and their numbers (n,), padded to the longest, at least `least`.
        """
        symbols, starts, lengths = held(self._tensors)
        lengths = tf.gather(lengths, ids)
        places = tf.range(tf.maximum(tf.reduce_max(lengths), least))
        inside = places < lengths[:, None]
        where = tf.where(inside, tf.gather(starts, ids)[:, None] + places, 0)
        return tf.where(inside, tf.gather(symbols, where), PADDING), lengths

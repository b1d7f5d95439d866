"""The word that a position has read, carried to the head in units of the hidden state."""

import keras
import tensorflow as tf

PLACES = (1, 256, 256**2, 256**3)  # of digits, whole numbers that every float type holds exactly
UNITS = len(PLACES)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class PreviousWord(keras.layers.Layer):
    """Appends the id of a word to each hidden state (..., D), as four digits: (..., D + 4).

    A head whose probabilities depend on the word before a label, such as `Shortlist` with an
    n-gram model, takes its hidden states from here. Whatever handles hidden states, such as
    evaluation, scoring and beam search, then handles the words too.

    Call arguments:
        inputs: the hidden states (..., D) float, and the ids (...) integers.

    Example:
        hidden, words = keras.random.normal((2, 5, 16)), keras.random.randint((2, 5), 0, 1000)
        carried = tfsoftmax.ngrams.previous_word.PreviousWord()([hidden, words])  # (2, 5, 20)
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask and previous_mask[0]  # of the hidden states

    def call(self, inputs):
        hidden, words = inputs
        digits = tf.cast(words, tf.int32)[..., None] // PLACES % 256
        return tf.concat([hidden, tf.cast(digits, hidden.dtype)], axis=-1)

    def compute_output_shape(self, input_shapes):
        *leading, units = input_shapes[0]
        return (*leading, None if units is None else units + UNITS)


def without_word(hidden: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Hidden states (..., D) and ids (...) int32, from what `PreviousWord` made of them.

    Units that cannot be its digits are an error, except under XLA, which drops assertions.
    """
    digits = tf.cast(hidden[..., -UNITS:], tf.float32)
    whole = tf.reduce_all((digits == tf.round(digits)) & (digits >= 0) & (digits < 256))
    check = tf.debugging.Assert(whole, [
        "The head must get its hidden states from tfsoftmax.ngrams.previous_word.PreviousWord, "
        "which carries the word before to it. Received: other numbers in the last units."
    ])
    with tf.control_dependencies([check] if check is not None else []):
        ids = tf.reduce_sum(tf.cast(digits, tf.int32) * PLACES, axis=-1)
    return hidden[..., :-UNITS], ids

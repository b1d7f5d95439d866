"""Exports an encoder-decoder as a SavedModel of plain TensorFlow that summarises strings."""

import keras
import tensorflow as tf

from tfsoftmax.pairs.model import encoder_and_decoder_models
from tfsoftmax.support.saved_models import Words, export_functions
from tfsoftmax.support.vocabulary import UNK, Vocabulary


def export_summariser(
    model: keras.Model, vocabulary: Vocabulary, out: str, max_source: int = 1000
) -> None:
    """Saves a summariser that other programs can serve without tfsoftmax and without Keras.

    The SavedModel has one signature, whose search is greedy: it takes the likeliest word each time.

        summarise(words, max_words) -> words (B, max_words) string: the summary of each text,
                                           padded at the end with empty strings; where the model
                                           writes `<unk>`, the word of the text that it attends to
                                           most
                                       log_prob (B,) float32: ln P of what the model wrote, with
                                           `<eos>` unless the summary was cut; -inf if the model
                                           gives no word a probability

    Texts are strings (B, S), padded at the end with empty strings; a text ends before its first
    empty string, and after `max_source` words. Words that the vocabulary lacks are read as
    `<unk>`, and so is the word `<eos>`, which ends no text. The summary of an empty text is empty.
    `max_words` is a scalar int32, at least 1. The vocabulary becomes an asset.

    Args:
        model: a model that `encoder_decoder` built for any number of pairs. On a machine with a GPU
            it should have `backend="fused"`, so that it can be served without cuDNN.
        vocabulary: the vocabulary of V words that it was trained with.
        out: a new or empty directory for the SavedModel. It appears there when it is whole.
        max_source: texts are cut after this many words.

    Raises:
        ValueError: `out` is not a new or empty directory.
    """
    parts = encoder_and_decoder_models(model)
    head = model.get_layer("head")

    def functions(ids_of, words_of):
        summarise = _summarise(head, *parts, vocabulary, ids_of, words_of, max_source)
        words = tf.TensorSpec([None, None], tf.string, name="words")
        return {"summarise": (summarise, words, tf.TensorSpec([], tf.int32, name="max_words"))}

    words = Words(vocabulary.save, vocabulary.oov_id, UNK)
    export_functions(functions, words, out)


def _summarise(head, encoder, decoder, vocabulary, ids_of, words_of, max_source):
    """The function `summarise`."""
    eos = vocabulary.eos_id

    def read(words):
        """Source ids (B, S + 1), and which places hold words of the text."""
        inside = tf.math.cumprod(tf.cast(words != "", tf.int32), axis=1)
        inside = tf.pad(inside, [[0, 0], [0, 1]]) > 0
        ids = tf.cast(ids_of.lookup(tf.pad(words, [[0, 0], [0, 1]])), tf.int32)
        ids = tf.where(ids == eos, vocabulary.oov_id, ids)
        return tf.where(inside, ids, eos), inside

    def summarise(words, max_words):
        check = tf.debugging.assert_positive(max_words, "`max_words` must be at least 1")
        words = words[:, :max_source]
        source, inside = read(words)
        outputs, keys, *states = map(tf.identity, encoder(source, training=False))

        def step(t, last, ended, total, ids, places, *states):
            hidden, attention, *states = decoder(
                [source, last[:, None], outputs, keys, *states], training=False
            )
            found, log_probs = head.top_k(hidden[:, 0], 1)
            word = tf.where(ended | (found[:, 0] < 0), eos, found[:, 0])
            total += tf.where(ended, 0.0, log_probs[:, 0])
            attention = tf.where(inside, attention[:, 0], -1)
            now = tf.range(max_words) == t
            ids = tf.where(now, word[:, None], ids)
            places = tf.where(now, tf.argmax(attention, 1, tf.int32)[:, None], places)
            return t + 1, word, ended | (word == eos), total, ids, places, *states

        with tf.control_dependencies([check]):
            count = tf.shape(source)[0]
            empty = tf.fill([count, max_words], eos)
        begin = (
            0, tf.fill([count], eos), ~inside[:, 0], tf.zeros([count]), empty,
            tf.zeros_like(empty), *states,
        )
        *_, total, ids, places = tf.while_loop(
            lambda t, last, ended, *_: (t < max_words) & ~tf.reduce_all(ended), step, begin
        )[:6]
        written = words_of.lookup(tf.cast(ids, tf.int64))
        copied = tf.gather(tf.pad(words, [[0, 0], [0, 1]]), places, batch_dims=1)
        written = tf.where(ids == vocabulary.oov_id, copied, written)
        return {"words": tf.where(ids == eos, "", written), "log_prob": total}

    return summarise

"""Exports a language model as a SavedModel of plain TensorFlow that takes and returns strings."""

import functools
import os

import keras
import tensorflow as tf

from tfsoftmax.lm.model import split_at_head
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.saved_models import Words, export_functions
from tfsoftmax.support.vocabulary import UNK, Vocabulary
from tfsoftmax.support.whole_files import copy_whole

# Words that `next_word` searches for if it is asked for no more. The graph of a head fixes how many
# words it searches for, and each such graph of a tree or of classes holds all their constants.
FEW = 8


def export(
    model: keras.Model, vocabulary: Vocabulary, out: str, max_k: int = 50,
    tokenizer: str | None = None,
) -> None:
    """Saves a language model that other programs can serve without tfsoftmax and without Keras.

    The SavedModel has two signatures. Both take sentences as strings (B, T), padded at the end
    with empty strings; a sentence ends before its first empty string, and the rest of the row is
    ignored. Words that the vocabulary lacks are read and scored as `<unk>`. The recurrent states
    are zero at the start of each sentence, and the model reads `<eos>` before its first word.

        score(words) -> log_probs (B, T + 1) float32: ln P of each word and, after the last, of
                            `<eos>`, then zeros
                        log_prob (B,) float32: their sums
                        oov (B,) int32: how many words were read as `<unk>`
        next_word(words, k) -> words (B, k) string and log_probs (B, k) float32: the likeliest
                            next words, the likeliest first, which may include `<unk>` and
                            `<eos>`; empty strings of -inf where a model gives no more words a
                            probability; k is a scalar int32 in [1, max_k]

    The vocabulary becomes an asset. `score` computes the probabilities of the target words only,
    and `next_word` what the head's `top_k` computes.

    Args:
        model: a model that `language_model` built with `streams=None, stateful=False`. On a
            machine with a GPU it should have `backend="fused"`, so that it can be served without
            cuDNN.
        vocabulary: the vocabulary of V words that it was trained with.
        out: a new or empty directory for the SavedModel. It appears there when it is whole.
        max_k: the largest k of `next_word`, at most V. A call for up to 8 words searches for 8, and
            any other for `max_k`.
        tokenizer: the file of the tokenizer if the words are its pieces. It is copied into the
            folder `assets.extra`.

    Raises:
        ValueError: an argument is out of its range, or the model does not fit.
    """
    parts = split_at_head(model, vocabulary)
    _check(model, vocabulary, max_k)

    def functions(ids_of, words_of):
        score, next_word = _functions(*parts, vocabulary, ids_of, words_of, max_k)
        words = tf.TensorSpec([None, None], tf.string, name="words")
        k = tf.TensorSpec([], tf.int32, name="k")
        return {"score": (score, words), "next_word": (next_word, words, k)}

    words = Words(vocabulary.save, vocabulary.oov_id, UNK)
    beside = {} if tokenizer is None else {
        os.path.basename(tokenizer): functools.partial(copy_whole, tokenizer)
    }
    export_functions(functions, words, out, beside)


def _functions(head, hidden_model, vocabulary, ids_of, words_of, max_k):
    """The functions `score` and `next_word`."""

    def read(words):
        """Hidden states (B, T + 1, D), ids (B, T + 1) of the next words, and lengths (B,)."""
        inside = tf.cast(words != "", tf.int32)
        lengths = tf.reduce_sum(tf.math.cumprod(inside, axis=1), axis=1)
        inside = tf.sequence_mask(lengths, tf.shape(words)[1])
        ids = tf.where(inside, tf.cast(ids_of.lookup(words), tf.int32), vocabulary.eos_id)
        ends = tf.fill([tf.shape(ids)[0], 1], vocabulary.eos_id)
        hidden = hidden_model(tf.concat([ends, ids], 1), training=False)
        return hidden, tf.concat([ids, ends], 1), lengths

    def score(words):
        hidden, targets, lengths = read(words)
        counted = tf.sequence_mask(lengths + 1, tf.shape(targets)[1])
        places = tf.where(counted)
        log_probs = head.log_prob(tf.gather_nd(hidden, places), tf.gather_nd(targets, places))
        log_probs = tf.scatter_nd(places, log_probs, tf.shape(targets, tf.int64))
        oov = counted & (targets == vocabulary.oov_id)
        return {
            "log_probs": log_probs,
            "log_prob": tf.reduce_sum(log_probs, axis=1),
            "oov": tf.reduce_sum(tf.cast(oov, tf.int32), axis=1),
        }

    def next_word(words, k):
        message = f"`k` must lie in [1, {max_k}]"
        checks = [
            tf.debugging.assert_positive(k, message),
            tf.debugging.assert_less_equal(k, max_k, message),
        ]
        hidden, _, lengths = read(words)

        def search(size):
            return [found[:, :k] for found in head.top_k(last, size)]

        with tf.control_dependencies(checks):
            last = tf.gather(hidden, lengths, batch_dims=1)
        if max_k <= FEW:
            ids, log_probs = search(max_k)
        else:
            ids, log_probs = tf.cond(k <= FEW, lambda: search(FEW), lambda: search(max_k))
        words = tf.where(ids < 0, "", words_of.lookup(tf.cast(ids, tf.int64)))
        return {"words": words, "log_probs": log_probs}

    return score, next_word


def _check(model, vocabulary, max_k):
    expect(1 <= max_k <= len(vocabulary), "max_k", f"lie in [1, {len(vocabulary)}]", max_k)
    stateful = [layer.name for layer in model.layers if getattr(layer, "stateful", False)]
    expect(tuple(model.input.shape) == (None, None) and not stateful, "model",
           "read batches of any size and carry no states: streams=None, time_steps=None, "
           "stateful=False", received=f"{model.input.shape}, stateful layers {stateful}")

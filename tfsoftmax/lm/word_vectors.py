"""A vector for each word, out of a trained language model: what trees of words are made of."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.model import reset_states, split_at_head
from tfsoftmax.ngrams.previous_word import UNITS as PREVIOUS_WORD


def input_embeddings(model: keras.Model) -> np.ndarray:
    """The input embedding of each word: (V, D) float32.

    Source: Le et al. 2011, section 3.2 (SOUL), who train with a shortlist first.
    """
    layer = model.get_layer("embedding")
    parts = range(0, layer.input_dim, 4096)
    words = [tf.range(first, min(first + 4096, layer.input_dim)) for first in parts]
    return np.concatenate([tf.cast(layer(part), tf.float32).numpy() for part in words])


def average_hidden_states(
    model: keras.Model, corpus: Corpus, done: Callable[[int], None] = lambda tokens: None
) -> np.ndarray:
    """The average of the hidden states from which the model predicts each word: (V, D) float64.

    Args:
        model: a stateful model that `language_model` built for the batches of the corpus.
        corpus: the corpus, whose training split is read once.
        done: called with the number of tokens after each batch.

    Returns:
        (V, D) float64. A word that does not occur has the average of all words that do.

    Source: Mnih and Hinton 2009, section 4; Müller 2017, section 2.2.2.2.
    """
    head, hidden_model = split_at_head(model, corpus.vocabulary)
    units = head.input.shape[-1] - (PREVIOUS_WORD if head.reads_previous_word else 0)
    sums = tf.Variable(tf.zeros([head.vocab_size, units], tf.float64))
    counts = tf.Variable(tf.zeros([head.vocab_size], tf.float64))

    @tf.function(autograph=False)
    def add(words, labels, weights):
        hidden = hidden_model(words, training=False)[..., :units]
        labels, weights = tf.reshape(labels, [-1]), tf.reshape(tf.cast(weights, tf.float64), [-1])
        rows = tf.cast(tf.reshape(hidden, [-1, units]), tf.float64) * weights[:, None]
        sums.scatter_add(tf.IndexedSlices(rows, labels))
        counts.scatter_add(tf.IndexedSlices(weights, labels))
        return tf.reduce_sum(weights)

    reset_states(model)
    for batch in batches(corpus, "train"):
        done(int(add(*batch)))
    sums, counts = sums.numpy(), counts.numpy()
    result = sums / np.maximum(counts, 1)[:, None]
    result[counts == 0] = result[counts > 0].mean(0)
    return result

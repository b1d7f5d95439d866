"""Language models over more words than they were trained on, by the characters of the words."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.char_cnn import with_words
from tfsoftmax.lm.model import split_at_head
from tfsoftmax.support.vocabulary import Vocabulary


def with_unseen_words(
    model: keras.Model, vocabulary: Vocabulary, words: Sequence[str]
) -> tuple[keras.Model, Vocabulary]:
    """The exact distribution of a language model over its V words and U others.

    An unseen word has a score like any other. If the input embedding is the head's, the model also
    reads it by its characters; else it reads `<unk>`.

    Args:
        model: a model of `language_model` whose head is tied to a `CharacterEmbedding`.
        vocabulary: its `Vocabulary` of V words.
        words: U str that the vocabulary lacks, each once.

    Returns:
        A model that shares the recurrent layers, and the vocabulary of V + U words.

    Raises:
        ValueError: if the head's rows do not come from characters, or a word is not new.

    Example:
        from tfsoftmax.lm import open_vocabulary, scoring
        vocabulary = tfsoftmax.Vocabulary(["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4])
        model = tfsoftmax.language_model(tfsoftmax.ModelConfig("char_cnn"), vocabulary, streams=2)
        wider = open_vocabulary.with_unseen_words(model, vocabulary, ["cats"])
        log_probs = scoring.Scorer(*wider).sentences([["the", "cats"]])
    """
    head, hidden_model = split_at_head(model, vocabulary)
    counts = np.append(vocabulary.counts, np.zeros(len(words), vocabulary.counts.dtype))
    wider = Vocabulary([*vocabulary.words, *words], counts)
    new_head = with_words(head, words, name="head")
    first, *others = hidden_model.layers[1:]
    inputs = keras.Input(batch_shape=model.input.shape, dtype="int32", name="words")
    if first is head.tied_to:
        hidden = new_head.tied_to(inputs)
    else:
        known = AsUnknown(len(vocabulary), vocabulary.oov_id, name="as_unknown")
        hidden = first(known(inputs))
    for layer in others:
        hidden = layer(hidden)
    return keras.Model(inputs, new_head(hidden), name=model.name), wider


@keras.saving.register_keras_serializable(package="tfsoftmax")
class AsUnknown(keras.layers.Layer):
    """Reads ids from `vocab_size` on as another word.

    Args:
        vocab_size: V.
        oov_id: the word that they are read as.
        **kwargs: arguments of `keras.layers.Layer`.

    Example:
        from tfsoftmax.lm.open_vocabulary import AsUnknown
        print(AsUnknown(1000, oov_id=3)(keras.ops.array([7, 1000, 1001])))  # 7, 3, 3
    """

    def __init__(self, vocab_size: int, oov_id: int, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.oov_id = vocab_size, oov_id

    def call(self, words):
        return tf.where(words < self.vocab_size, words, self.oov_id)

    def get_config(self):
        return {**super().get_config(), "vocab_size": self.vocab_size, "oov_id": self.oov_id}

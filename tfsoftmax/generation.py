"""Sentences from a language model, and the words that it expects next."""

import contextlib
import math

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.language_model import reset_states


def sample(model, vocabulary, prompt=(), count=5, max_words=40, temperature=1.0, seed=1):
    """Draws sentences, all side by side, one word a step.

    Each word is drawn from the model's exact distribution without `<unk>`, whose mass goes to
    the other words in proportion.

    Args:
        model: as `language_model` builds it, with `streams=count` and `steps` 1 or None. Its
            recurrent states are zero afterwards.
        vocabulary: the `Vocabulary` of V words that it was trained with.
        prompt: words of the sentence's beginning; unknown ones are read as `<unk>`. Before
            them stands `<eos>`.
        count: B, number of sentences.
        max_words: a sentence is cut after so many words, the prompt not counted.
        temperature: the logarithms of the probabilities are divided by it: below one likely
            words become likelier, above one the distribution flatter.
        seed: int; the same seed gives the same sentences on the same machine.

    Returns:
        `count` lists of str: the words after the prompt, up to `<eos>`, which is left out.

    Raises:
        ValueError: an argument is out of its range, or the model does not fit.
    """
    _check_at_least_one(count=count, max_words=max_words)
    if not 0 < temperature < math.inf:
        raise ValueError(
            f"`temperature` must be positive and finite. Received: temperature={temperature}"
        )
    head, hidden_model = _parts(model, vocabulary)
    streams = model.input.shape[0]
    if streams != count:
        raise ValueError(
            f"`count` must be the number of streams of the model, {streams}. "
            f"Received: count={count}"
        )
    forbidden = np.zeros(len(vocabulary), dtype=np.float64)
    forbidden[vocabulary.oov_id] = -np.inf

    @tf.function
    def step(words, number):
        hidden = hidden_model(words[:, None], training=False)[:, 0]
        scores = tf.cast(head.log_probs(hidden), tf.float64) + forbidden
        # The largest becomes zero before the division: no temperature can make all of them -inf.
        scores = (scores - tf.reduce_max(scores, axis=1, keepdims=True)) / temperature
        drawn = tf.random.stateless_categorical(scores, 1, seed=[seed, number], dtype=tf.int32)
        return drawn[:, 0]

    with _states_reset(model):
        number = 0
        for number, word in enumerate(_beginning(vocabulary, prompt)):
            drawn = step(tf.fill([count], word), tf.constant(number, tf.int64))
        sentences = [drawn.numpy()]
        ended = sentences[0] == vocabulary.eos_id
        while len(sentences) < max_words and not ended.all():
            number += 1
            drawn = step(drawn, tf.constant(number, tf.int64))
            sentences.append(drawn.numpy())
            ended |= sentences[-1] == vocabulary.eos_id
    return [_words(ids, vocabulary) for ids in np.stack(sentences, axis=1)]


def next_words(model, vocabulary, prompt, k):
    """The k likeliest words after a prompt, `<unk>` and `<eos>` among them.

    Args:
        model: as `language_model` builds it, for any number of streams, with `steps` 1 or None.
            Its recurrent states are zero afterwards.
        vocabulary, prompt: as for `sample`.
        k: int in [1, V].

    Returns:
        List of k pairs of word and exact probability, likeliest first.

    Raises:
        ValueError: `k` is out of its range, or the model does not fit.
    """
    head, hidden_model = _parts(model, vocabulary)
    streams = model.input.shape[0]

    @tf.function
    def step(words):
        return hidden_model(words[:, None], training=False)[:, 0]

    with _states_reset(model):
        for word in _beginning(vocabulary, prompt):
            hidden = step(tf.fill([streams], word))
    ids, log_probs = head.top_k(hidden[0], k)
    return list(zip(vocabulary.decode(ids), np.exp(log_probs).tolist()))


def _parts(model, vocabulary):
    """The model's head, and a model of the same layers up to the head's input."""
    head = model.get_layer("head")
    if head.vocab_size != len(vocabulary):
        raise ValueError(
            f"`vocabulary` must have as many words as the model, {head.vocab_size}. "
            f"Received: {vocabulary!r}"
        )
    streams, steps = model.input.shape
    if streams is None or steps not in (1, None):
        raise ValueError(
            "`model` must have a fixed number of streams, and 1 or None for `steps`. "
            f"Received: streams={streams}, steps={steps}"
        )
    for layer in model.layers:
        if isinstance(layer, keras.layers.RNN) and not layer.stateful:
            raise ValueError(
                "`model` must have stateful recurrent layers, since it reads one word a step. "
                f"Received: layer {layer.name!r} with stateful=False"
            )
    return head, keras.Model(model.input, head.input)


@contextlib.contextmanager
def _states_reset(model):
    """States of zero inside, and afterwards, whatever happened."""
    reset_states(model)
    try:
        yield
    finally:
        reset_states(model)


def _beginning(vocabulary, prompt):
    """Ids to read before the first word is drawn, int32."""
    return np.concatenate([[vocabulary.eos_id], vocabulary.encode(prompt)]).astype(np.int32)


def _words(ids, vocabulary):
    """The words before the first `<eos>`."""
    ended = np.flatnonzero(ids == vocabulary.eos_id)
    return vocabulary.decode(ids[: ended[0]] if len(ended) else ids)


def _check_at_least_one(**numbers):
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")

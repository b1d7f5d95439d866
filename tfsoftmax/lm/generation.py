"""Sentences from a language model, and the words that it expects next."""

import contextlib
import weakref

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.lm.decoding import NextWordSampler, beam_search
from tfsoftmax.lm.model import head_and_hidden_model, recurrent_states, reset_states


def sample(
    model, vocabulary, prompt=(), count=5, max_words=40, temperature=1.0, seed=1, top_k=None,
    top_p=None,
):
    """Draws sentences that go on from one prompt, all side by side, one word a step.

    Args:
        model: as `language_model` builds it, with `streams=count` and `time_steps` 1 or None. Its
            recurrent states are zero afterwards.
        vocabulary: the `Vocabulary` of V words that it was trained with.
        prompt: words of the sentence's beginning; unknown ones are read as `<unk>`. Before
            them stands `<eos>`.
        count: B, number of sentences.
        max_words: a sentence is cut after so many words, the prompt not counted.
        temperature, top_k, top_p: of the `NextWordSampler` of each word, which never is `<unk>`.
        seed: int; the same seed gives the same sentences on the same machine.

    Returns:
        `count` lists of str: the words after the prompt, up to `<eos>`, which is left out.

    Raises:
        ValueError: an argument is out of its range, or the model does not fit.
    """
    _check_at_least_one(count=count, max_words=max_words)
    choice = NextWordSampler(temperature, top_k, top_p)
    streams = model.input.shape[0]
    if streams is not None and streams != count:
        raise ValueError(
            f"`count` must be the number of streams of the model, {streams}. "
            f"Received: count={count}"
        )
    return complete(model, vocabulary, [prompt] * count, max_words, choice, seed)


def complete(model, vocabulary, prompts, max_words=40, choice=NextWordSampler(), seed=1):
    """One sentence for each of B prompts: the lists of words that `stream` yields one by one."""
    sentences = [[] for _ in prompts]
    for step in stream(model, vocabulary, prompts, max_words, choice, seed):
        for sentence, word in zip(sentences, step):
            if word is not None:
                sentence.append(word)
    return sentences


def stream(model, vocabulary, prompts, max_words=40, choice=NextWordSampler(), seed=1):
    """Sentences of B prompts side by side, a word of each as soon as it is drawn.

    Args:
        model, vocabulary, max_words, seed: as for `sample`, with B streams.
        prompts: B lists of words, of any lengths.
        choice: `NextWordSampler` of each word.

    Yields:
        Lists of B: a sentence's new word; None where its prompt is still being read or it has
        ended, by `<eos>` or with its last of `max_words`.

    Raises:
        ValueError: an argument is out of its range, or the model does not fit.
    """
    _check_at_least_one(max_words=max_words)
    functions = _functions(model, vocabulary)
    if len(prompts) != (streams := model.input.shape[0]):
        raise ValueError(
            f"`prompts` must be as many as the model has streams, {streams}. "
            f"Received: {len(prompts)}"
        )
    if choice.top_k is not None and choice.top_k > len(vocabulary):
        raise ValueError(
            f"`top_k` must be at most {len(vocabulary)}. Received: top_k={choice.top_k}"
        )
    beginnings = [_beginning(vocabulary, prompt) for prompt in prompts]
    return _stream(model, functions, vocabulary, beginnings, max_words, choice, seed)


def _stream(model, functions, vocabulary, beginnings, max_words, choice, seed):
    """What `stream` yields, once its arguments are known to fit."""
    lengths = np.array([len(ids) for ids in beginnings])
    ends = lengths + max_words - 1
    given = np.zeros((len(beginnings), lengths.max()), np.int32)
    for row, ids in zip(given, beginnings):
        row[: len(ids)] = ids

    with _states_reset(model):
        words, ended = given[:, 0], np.zeros(len(lengths), bool)
        for number in range(ends.max()):
            drawing = number + 1 >= lengths
            if drawing.any():
                key = tf.constant([seed, number], tf.int64)
                drawn = functions.draw(tf.constant(words), key, choice).numpy()
                ended |= drawing & (drawn == vocabulary.eos_id)
                yield [
                    vocabulary.words[word] if new else None
                    for word, new in zip(drawn, drawing & ~ended)
                ]
                ended |= number + 1 >= ends
                if ended.all():
                    return
                words = drawn
            else:
                functions.read(tf.constant(words))
            if number + 1 < given.shape[1]:
                words = np.where(number + 1 < lengths, given[:, number + 1], words)


def beam(model, vocabulary, prompt=(), max_words=40, length_power=0.7):
    """The best continuations of a prompt, found by a beam as wide as the model has streams.

    `<unk>` is never chosen. Log-probabilities are the model's own: they leave it its mass.

    Args:
        model, vocabulary, prompt, max_words: as for `sample`, with B >= 1 streams.
        length_power: sentences are ranked by ln P / n^length_power for n words, `<eos>` counted.

    Returns:
        At most B `decoding.Hypothesis`, the best first: words (list of str), log_prob (nats),
        score, and whether the sentence ended, rather than being cut at `max_words`.

    Raises:
        ValueError: an argument is out of its range, or the model does not fit.
    """
    _check_at_least_one(max_words=max_words)
    if not 0 <= length_power < np.inf:
        raise ValueError(
            "`length_power` must be finite and not negative. "
            f"Received: length_power={length_power}"
        )
    functions, width = _functions(model, vocabulary), model.input.shape[0]
    with _states_reset(model):
        *before, last = _beginning(vocabulary, prompt)
        for word in before:
            functions.read(tf.fill([width], word))
        found = beam_search(functions.step, last, width, max_words, vocabulary.eos_id, length_power)
    return [h._replace(words=vocabulary.decode(h.words)) for h in found]


def next_words(model, vocabulary, prompt, k):
    """The k likeliest words after a prompt, `<unk>` and `<eos>` among them.

    Args:
        model: as `language_model` builds it, for any number of streams, with `time_steps` 1 or None.
            Its recurrent states are zero afterwards.
        vocabulary, prompt: as for `sample`.
        k: int in [1, V].

    Returns:
        List of k pairs of word and exact probability, likeliest first.

    Raises:
        ValueError: `k` is out of its range, or the model does not fit.
    """
    functions, streams = _functions(model, vocabulary), model.input.shape[0]
    with _states_reset(model):
        for word in _beginning(vocabulary, prompt):
            hidden = functions.read(tf.fill([streams], word))
    ids, log_probs = functions.head.top_k(hidden[0], k)
    return list(zip(vocabulary.decode(ids), np.exp(log_probs).tolist()))


class _Functions:
    """What a model of B streams is asked for at each word, traced once for all sentences."""

    def __init__(self, model, vocabulary):
        self.head, self.hidden_model = head_and_hidden_model(model, vocabulary)
        self.states, self.vocabulary = recurrent_states(model), vocabulary
        # <eos> and <unk> may be among them.
        self.candidates = min(model.input.shape[0] + 2, len(vocabulary))

    @tf.function
    def read(self, words):
        """Hidden states (B, D) behind words (B,)."""
        return self.hidden_model(words[:, None], training=False)[:, 0]

    @tf.function
    def draw(self, words, key, choice):
        """The next words, (B,), drawn with the key int64 (2,)."""
        return choice.draw(self.head, self.read(words), self.vocabulary.oov_id, key)

    @tf.function
    def step(self, words, parents):
        """Ids and log-probabilities of candidates (B, k), each stream going on from its parent."""
        for state in self.states:
            state.assign(tf.gather(state.value, parents))
        ids, log_probs = self.head.top_k(self.read(words), self.candidates)
        return ids, tf.where(ids == self.vocabulary.oov_id, -np.inf, log_probs)


_FUNCTIONS = weakref.WeakKeyDictionary()  # of each model


def _functions(model, vocabulary):
    """The `_Functions` of a model, which must read a word a step."""
    _check_model(model)
    functions = _FUNCTIONS.get(model)
    if functions is None or functions.vocabulary is not vocabulary:
        functions = _FUNCTIONS[model] = _Functions(model, vocabulary)
    return functions


def _check_model(model):
    streams, time_steps = model.input.shape
    if streams is None or time_steps not in (1, None):
        raise ValueError(
            "`model` must have a fixed number of streams, and 1 or None for `time_steps`. "
            f"Received: streams={streams}, time_steps={time_steps}"
        )
    for layer in model.layers:
        if isinstance(layer, keras.layers.RNN) and not layer.stateful:
            raise ValueError(
                "`model` must have stateful recurrent layers, since it reads one word a step. "
                f"Received: layer {layer.name!r} with stateful=False"
            )


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


def _check_at_least_one(**numbers):
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")

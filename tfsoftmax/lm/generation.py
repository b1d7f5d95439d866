"""Sentences from a language model, and the words that it expects next."""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.lm.decoding import Hypothesis, NextWordSampler, beam_search, check_found
from tfsoftmax.lm.model import recurrent_states, reset_states, split_at_head
from tfsoftmax.support.arguments import check_at_least, expect
from tfsoftmax.support.vocabulary import Vocabulary

UNCHANGED = NextWordSampler()  # draws from the model's own distribution


class Generator:
    """Continues prompts with a language model, one word a step in each of its B streams.

    The model reads `<eos>` before each prompt, and words that the vocabulary lacks as `<unk>`.
    Its recurrent states are zero before and after each call. Its graphs are traced once, so one
    generator serves any number of calls, also after the weights have changed.

    Args:
        model: a model that `language_model` built with B streams, and 1 or None for `time_steps`.
        vocabulary: the vocabulary of V words that it was trained with.

    Raises:
        ValueError: the model has no fixed number of streams, reads several words a step, is not
            stateful, or has another number of words than the vocabulary.

    Example:
        from tfsoftmax.lm import generation
        from tfsoftmax.runs import runs
        model, vocabulary, _ = runs.load("runs/first", streams=5, time_steps=1)
        for words in generation.Generator(model, vocabulary).sample(["the"]):
            print("the", *words)
    """

    def __init__(self, model: keras.Model, vocabulary: Vocabulary):
        self._streams, time_steps = model.input.shape
        expect(self._streams is not None and time_steps in (1, None), "model",
               "have a fixed number of streams, and 1 or None for `time_steps`",
               received=f"streams={self._streams}, time_steps={time_steps}")
        for layer in model.layers:
            expect(not isinstance(layer, keras.layers.RNN) or layer.stateful, "model",
                   "have stateful recurrent layers, since it reads one word a step",
                   received=f"layer {layer.name!r} with stateful=False")
        self._head, self._hidden_model = split_at_head(model, vocabulary)
        self._model, self._vocabulary = model, vocabulary

    def sample(
        self, prompt: Sequence[str] = (), max_words: int = 40, sampler: NextWordSampler = UNCHANGED,
        seed: int = 1,
    ) -> list[list[str]]:
        """Draws B sentences that continue the same prompt.

        Args:
            prompt: the words that the sentences begin with.
            max_words, sampler, seed: arguments of `stream`.

        Returns:
            B lists of the words after the prompt, as `complete` returns them.

        Raises:
            ValueError: an argument is out of its range.
        """
        return self.complete([prompt] * self._streams, max_words, sampler, seed)

    def complete(
        self, prompts: Sequence[Sequence[str]], max_words: int = 40,
        sampler: NextWordSampler = UNCHANGED, seed: int = 1,
    ) -> list[list[str]]:
        """Draws a sentence for each of B prompts.

        Args:
            prompts, max_words, sampler, seed: arguments of `stream`.

        Returns:
            B lists of the words after the prompt, without `<eos>`.

        Raises:
            ValueError: an argument is out of its range.
        """
        sentences = [[] for _ in prompts]
        for step in self.stream(prompts, max_words, sampler, seed):
            for sentence, word in zip(sentences, step, strict=True):
                if word is not None:
                    sentence.append(word)
        return sentences

    def stream(
        self, prompts: Sequence[Sequence[str]], max_words: int = 40,
        sampler: NextWordSampler = UNCHANGED, seed: int = 1,
    ) -> Iterator[list[str | None]]:
        """Draws a sentence for each of B prompts, and yields each word as soon as it is drawn.

        Args:
            prompts: B lists of words, which may differ in length.
            max_words: a sentence is cut after this many words. The prompt does not count.
            sampler: how each next word is drawn. `<unk>` is never drawn.
            seed: the same seed gives the same sentences on the same machine.

        Yields:
            Lists of B items, one for each step: the new word of a sentence, or None where the
            prompt is still being read, or where the sentence has ended with `<eos>` or at
            `max_words`.

        Raises:
            ValueError: an argument is out of its range.
        """
        check_at_least(1, max_words=max_words)
        expect(len(prompts) == self._streams, "prompts",
               f"be as many as the model has streams, {self._streams}", received=f"{len(prompts)}")
        expect(sampler.top_k is None or sampler.top_k <= len(self._vocabulary), "top_k",
               f"be at most {len(self._vocabulary)}", sampler.top_k)
        return self._words(list(map(self._beginning, prompts)), max_words, sampler, seed)

    def beam(
        self, prompt: Sequence[str] = (), max_words: int = 40, length_power: float = 0.7
    ) -> list[Hypothesis]:
        """Finds the best continuations of a prompt by a beam search of width B.

        `<unk>` is never chosen. The log-probabilities are those of the model, in which `<unk>`
        keeps its probability.

        Args:
            prompt: the words that the sentences begin with.
            max_words: a sentence is cut after this many words. The prompt does not count.
            length_power: sentences of n words, `<eos>` included, are ranked by
                ln P / n^length_power.

        Returns:
            At most B hypotheses, the best first: `words` (list of str), `log_prob` (nats),
            `score`, and `ended`, which is False where the sentence was cut at `max_words`.

        Raises:
            ValueError: an argument is out of its range.
        """
        check_at_least(1, max_words=max_words)
        expect(0 <= length_power < np.inf, "length_power", "be finite and not negative",
               length_power)
        with self._states_reset():
            *before, last = self._beginning(prompt)
            for word in before:
                self._read(tf.fill([self._streams], word))
            (found,) = beam_search(
                self._extend, last, self._streams, max_words, self._vocabulary.eos_id, length_power
            )
        return [h._replace(words=self._vocabulary.decode(h.words)) for h in found]

    def next_words(self, prompt: Sequence[str], k: int) -> list[tuple[str, float]]:
        """Finds the k likeliest words after a prompt, which may include `<unk>` and `<eos>`.

        Args:
            prompt: the words before.
            k: how many words to return, in [1, V].

        Returns:
            List of k pairs of a word and its exact probability, the likeliest first.

        Raises:
            ValueError: `k` is out of its range, or the model gives no word a probability.
        """
        ids, log_probs = self._head.top_k(self.hidden(prompt), k)
        check_found(ids)
        probabilities = np.exp(log_probs).tolist()
        return list(zip(self._vocabulary.decode(ids), probabilities, strict=True))

    def hidden(self, prompt: Sequence[str]) -> tf.Tensor:
        """The hidden state (D,) after a prompt, from which the head predicts the next word.

        Args:
            prompt: the words before.
        """
        with self._states_reset():
            for word in self._beginning(prompt):
                hidden = self._read(tf.fill([self._streams], word))
        return hidden[0]

    def _words(self, beginnings, max_words, sampler, seed):
        """What `stream` yields, for beginnings that are arrays of ids."""
        lengths = np.array([len(ids) for ids in beginnings])
        ends = lengths + max_words - 1
        given = np.zeros((len(beginnings), lengths.max()), np.int32)
        for row, ids in zip(given, beginnings, strict=True):
            row[: len(ids)] = ids

        with self._states_reset():
            words, ended = given[:, 0], np.zeros(len(lengths), bool)
            for number in range(ends.max()):
                drawing = number + 1 >= lengths
                if drawing.any():
                    key = tf.constant([seed, number], tf.int64)
                    drawn = self._draw(tf.constant(words), key, sampler).numpy()
                    check_found(drawn[drawing & ~ended])
                    ended |= drawing & (drawn == self._vocabulary.eos_id)
                    states = recurrent_states(self._model)
                    values = [tf.identity(state.value) for state in states]
                    yield [
                        self._vocabulary.words[word] if new else None
                        for word, new in zip(drawn, drawing & ~ended, strict=True)
                    ]
                    for state, value in zip(states, values, strict=True):
                        state.assign(value)  # other methods may have been called in the meantime
                    ended |= number + 1 >= ends
                    if ended.all():
                        return
                    words = drawn
                else:
                    self._read(tf.constant(words))
                if number + 1 < given.shape[1]:
                    words = np.where(number + 1 < lengths, given[:, number + 1], words)

    def _beginning(self, prompt):
        """The ids to read before the first word is drawn: `<eos>` and the prompt, int32."""
        ids = self._vocabulary.encode(prompt)
        return np.concatenate([[self._vocabulary.eos_id], ids]).astype(np.int32)

    @contextlib.contextmanager
    def _states_reset(self):
        """Sets the recurrent states to zero before and after, also when an error occurs."""
        reset_states(self._model)
        try:
            yield
        finally:
            reset_states(self._model)

    @tf.function(autograph=False)
    def _read(self, words):
        """Hidden states (B, D) after reading words (B,)."""
        return self._hidden_model(words[:, None], training=False)[:, 0]

    @tf.function(autograph=False)
    def _draw(self, words, key, sampler):
        """The next words (B,), drawn with the key, int64 (2,), after reading words (B,)."""
        return sampler.draw(self._head, self._read(words), self._vocabulary.oov_id, key)

    @tf.function(autograph=False)
    def _extend(self, words, parents):
        """Ids and log-probabilities of candidates (B, k); stream i continues stream parents[i]."""
        for state in recurrent_states(self._model):
            state.assign(tf.gather(state.value, parents))
        # Two more than the streams, since <eos> and <unk> may be among them.
        candidates = min(self._streams + 2, len(self._vocabulary))
        ids, log_probs = self._head.top_k(self._read(words), candidates)
        return ids, tf.where(ids == self._vocabulary.oov_id, -np.inf, log_probs)

"""Chooses the next word: by a draw from a head's distribution, or by beam search."""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfsoftmax.heads import SoftmaxHead
from tfsoftmax.support.arguments import check_at_least, expect


class Hypothesis(NamedTuple):
    """A continuation that a beam search found.

    Attributes:
        words: its words, or their ids, without `<eos>`.
        log_prob: ln P of the words, and of `<eos>` if it ended.
        score: ln P / n^length_power for n words, by which hypotheses are ranked.
        ended: whether it ended with `<eos>`; False if it was cut.

    Example:
        from tfsoftmax.lm import generation
        from tfsoftmax.runs import runs
        model, vocabulary, _ = runs.load("runs/first", streams=8, time_steps=1)
        for hypothesis in generation.Generator(model, vocabulary).beam(["the"]):
            print(hypothesis.log_prob, *hypothesis.words)
    """

    words: list
    log_prob: float
    score: float
    ended: bool


@dataclasses.dataclass(frozen=True)
class NextWordSampler:
    """Draws the next word from P(w | h) after changing it in this order.

    1. `<unk>` is left out. The other words share its probability in proportion to their own.
    2. The log-probabilities are divided by the temperature.
    3. Only the `top_k` likeliest words stay. With `top_k=1` the choice is greedy, without a draw.
    4. Of these, only the fewest words stay that together reach the probability `top_p`.

    With `top_k`, the sampler asks the head for its likeliest words only. Adaptive softmax and
    trees find them, exactly, without computing all V probabilities; other heads, and all heads
    without `top_k`, compute all of them.

    Args:
        temperature: positive and finite. Below one, likely words become likelier.
        top_k: at least 1; None to keep all words.
        top_p: in (0, 1]; None to keep all words.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        from tfsoftmax.lm.decoding import NextWordSampler
        head = tfsoftmax.FullSoftmax(100)
        sampler = NextWordSampler(temperature=0.8, top_k=40)
        ids = sampler.draw(head, keras.random.normal((5, 16)), excluded=0, seed=[1, 2])

    Source: Fan et al. 2018 (top-k), Holtzman et al. 2020 (nucleus).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self):
        expect(0 < self.temperature < math.inf, "temperature", "be positive and finite",
               self.temperature)
        check_at_least(1, top_k=self.top_k)
        expect(self.top_p is None or 0 < self.top_p <= 1, "top_p", "lie in (0, 1]", self.top_p)

    def draw(self, head: SoftmaxHead, hidden, excluded: int, seed) -> tf.Tensor:
        """Draws a word for each hidden state.

        Args:
            head: a head of V words.
            hidden: (B, D) float.
            excluded: the id of `<unk>`, or of another word that must not be drawn.
            seed: (2,) integers.

        Returns:
            Ids of words, int32 (B,), or -1 where every word has the probability zero or NaN.
        """
        ids, scores = self._candidates(head, hidden, excluded)
        scores = tf.cast(scores, tf.float64)
        highest = tf.reduce_max(scores, axis=1, keepdims=True)
        possible = highest > -math.inf
        # The largest score becomes zero before the division, so that it stays finite.
        scores = tf.where(possible, (scores - highest) / self.temperature, 0.0)
        if self.top_p is not None:
            scores, order = tf.math.top_k(scores, tf.shape(scores)[1])
            scores = nucleus(scores, self.top_p)
            ids = order if ids is None else tf.gather(ids, order, batch_dims=1)
        if self.top_k == 1:
            place = tf.argmax(scores, axis=1, output_type=tf.int32)
        else:
            place = tf.random.stateless_categorical(scores, 1, seed, dtype=tf.int32)[:, 0]
        words = place if ids is None else tf.gather(ids, place, batch_dims=1)
        return tf.where(possible[:, 0], words, -1)

    def _candidates(self, head, hidden, excluded):
        """Ids (B, K), or None for all V, and log-probabilities, which are -inf where excluded."""
        if self.top_k is None:
            log_probs = head.log_probs(hidden)
            out = (tf.range(head.vocab_size) == excluded) | tf.math.is_nan(log_probs)
            return None, tf.where(out, -math.inf, log_probs)
        width = min(self.top_k + 1, head.vocab_size)
        ids, log_probs = head.top_k(hidden, width)
        out = ids == excluded
        if width > self.top_k:  # the last is one too many, unless `excluded` is among the ids
            last = tf.range(width) == width - 1
            out |= last & ~tf.reduce_any(out, axis=1, keepdims=True)
        return ids, tf.where(out, -math.inf, log_probs)


def check_found(ids):
    """Raises ValueError if an id is -1, where a model gives no word a probability."""
    expect(not np.less(ids, 0).any(), "model", "give words a probability above zero",
           received="a model that gives it to none, as after a training that diverged")


def nucleus(scores, top_p):
    """Keeps the first scores whose softmax adds up to `top_p`, and sets the others to -inf.

    Args:
        scores: (B, K) float, in falling order.
        top_p: in (0, 1].
    """
    probabilities = tf.nn.softmax(scores)
    before = tf.cumsum(probabilities, axis=1, exclusive=True)
    # The first word stays even where rounding takes `top_p` to zero.
    return tf.where((before < top_p) | (before <= 0), scores, -math.inf)


def beam_search(
    step: Callable, first: int, width: int, max_words: int, eos: int, length_power: float,
    sources: int = 1, min_words: int = 0,
) -> list[list[Hypothesis]]:
    """Finds likely continuations by a beam of W hypotheses, or by N beams side by side.

    A hypothesis of n words, `<eos>` included, has the score ln P / n^length_power. With a power
    of 0 the score is the log-probability, which favours short sentences; with 1 it is the mean
    over the words. At each step the W likeliest extensions by a word go on, and extensions by
    `<eos>` end if they are among the W likeliest. A beam stops when W hypotheses have ended
    and no other can reach a better score, or at `max_words`, where the others are cut and keep
    the score that they have.

    Args:
        step: a function of words (N·W,) and parents (N·W,), int32, by which stream i goes on from
            the state of stream parents[i] and reads words[i]. It returns ids and log-probabilities
            (N·W, K) of each stream's likeliest next words, with K >= W + 1 if the vocabulary
            allows; words of log-probability -inf are never chosen. Streams i W to (i + 1) W are
            those of beam i.
        first: the id of the first word to read. Before it, the streams of a beam have the same
            state.
        width: W.
        max_words: the most words of a continuation.
        eos: the id of the word that ends a sentence.
        length_power: at least 0.
        sources: N, the number of beams.
        min_words: the fewest words of a continuation, at most `max_words`.

    Returns:
        For each beam, at most W hypotheses with ids as their words, the best score first.

    Raises:
        ValueError: no word has a probability above zero.

    Source: Wu et al. 2016, section 7, with n^α for their length penalty.
    """
    beams = [_Beam(width, max_words, eos, length_power, min_words) for _ in range(sources)]
    words = np.full((sources, width), first, np.int32)
    own = np.arange(words.size, dtype=np.int32).reshape(words.shape)
    parents = own.copy()
    for length in range(1, max_words + 1):
        ids, log_probs = (
            np.asarray(t).reshape(*words.shape, -1)
            for t in step(words.reshape(-1), parents.reshape(-1))
        )
        for i, beam in enumerate(beams):
            if beam.running:
                beam.extend(ids[i], log_probs[i].astype(np.float64), length)
            if beam.running:
                words[i], parents[i] = beam.streams()
                parents[i] += own[i, 0]
            else:  # what its streams read does not matter any more
                parents[i] = own[i]
        if not any(beam.running for beam in beams):
            break
    return [beam.best() for beam in beams]


class _Beam:
    """The W likeliest hypotheses that go on, and the W best of those that have ended.

    Attributes:
        running: list of (ids, ln P, parent), the likeliest first; empty when the search is over.
        ended: list of `Hypothesis`, the best first.
    """

    def __init__(self, width, max_words, eos, length_power, min_words):
        self._width, self._max_words, self._eos = width, max_words, eos
        self._length_power, self._min_words = length_power, min_words
        self.running, self.ended = [([], 0.0, 0)], []
        self._length = 0

    def extend(self, ids, log_probs, length):
        """Takes the likeliest next words (W, K) of each hypothesis, which make `length` words."""
        before, self.running, self._length = self.running, [], length
        for rank, (total, parent, word) in enumerate(_extensions(before, ids, log_probs)):
            if word != self._eos:
                self.running.append(([*before[parent][0], word], total, parent))
            elif rank < self._width and length > self._min_words:
                self.ended.append(self._scored(before[parent][0], total, True))
            if len(self.running) == self._width:
                break
        check_found([] if self.running or self.ended else [-1])
        self.ended = sorted(self.ended, key=lambda h: -h.score)[: self._width]
        if self.running and len(self.ended) == self._width:
            best_to_come = self.running[0][1] * float(self._max_words) ** -self._length_power
            if self.ended[-1].score >= best_to_come:
                self.running = []

    def streams(self):
        """The words (W,) that the streams read next, and the streams (W,) they go on from."""
        # If fewer than W hypotheses go on, the other streams repeat the last one.
        rows = self.running + [self.running[-1]] * (self._width - len(self.running))
        return [ids[-1] for ids, _, _ in rows], [parent for _, _, parent in rows]

    def best(self):
        """At most W hypotheses, those among them that were cut too."""
        cut = [self._scored(ids, total, False) for ids, total, _ in self.running]
        return sorted(self.ended + cut, key=lambda h: -h.score)[: self._width]

    def _scored(self, ids, total, ended):
        return Hypothesis(ids, total, total * float(self._length) ** -self._length_power, ended)


def _extensions(running, ids, log_probs):
    """Yields (ln P, parent, word) of all possible extensions, the likeliest first."""
    count = len(running)
    totals = np.array([total for _, total, _ in running])[:, None] + log_probs[:count]
    for place in np.argsort(-totals, axis=None, kind="stable"):
        parent, column = divmod(int(place), totals.shape[1])
        if totals[parent, column] == -math.inf:
            return
        yield float(totals[parent, column]), parent, int(ids[parent, column])

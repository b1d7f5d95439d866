"""How the next word is chosen: drawn from a head's distribution, or by beam search."""

import collections
import dataclasses
import math

import numpy as np
import tensorflow as tf

Hypothesis = collections.namedtuple("Hypothesis", "words log_prob score ended")


@dataclasses.dataclass(frozen=True)
class NextWordSampler:
    """A word drawn from P(w | h), changed in this order.

    1. One word, `<unk>`, is left out; its mass goes to the others in proportion.
    2. The logarithms are divided by the temperature.
    3. The `top_k` likeliest words stay. One is greedy: nothing is drawn.
    4. Of these the fewest stay whose mass reaches `top_p` (nucleus).

    With `top_k` only the head's own `top_k` is asked for, which for hierarchical heads is exact
    and computes little of the vocabulary; without, all V probabilities.

    Args:
        temperature: positive, finite: below one likely words become likelier.
        top_k: int, at least 1, or None.
        top_p: in (0, 1], or None.

    Raises:
        ValueError: an argument is out of its range.

    Source: Fan et al. 2018 (top-k), Holtzman et al. 2020 (nucleus).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self):
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                "`temperature` must be positive and finite. "
                f"Received: temperature={self.temperature}"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"`top_k` must be at least 1. Received: top_k={self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"`top_p` must lie in (0, 1]. Received: top_p={self.top_p}")

    def draw(self, head, hidden, excluded, seed):
        """Words (B,) int32.

        Args:
            head: a `SoftmaxHead` of V words.
            hidden: (B, D) float.
            excluded: id of the word that is never chosen.
            seed: (2,) integers.
        """
        ids, scores = self._candidates(head, hidden, excluded)
        if self.top_k == 1:
            place = tf.argmax(scores, axis=1, output_type=tf.int32)
            return tf.gather(ids, place, batch_dims=1)
        scores = tf.cast(scores, tf.float64)
        # The largest becomes zero before the division: no temperature can make all of them -inf.
        scores = (scores - tf.reduce_max(scores, axis=1, keepdims=True)) / self.temperature
        if self.top_p is not None:
            scores, order = tf.math.top_k(scores, tf.shape(scores)[1])
            scores = nucleus(scores, self.top_p)
            ids = order if ids is None else tf.gather(ids, order, batch_dims=1)
        place = tf.random.stateless_categorical(scores, 1, seed, dtype=tf.int32)[:, 0]
        return place if ids is None else tf.gather(ids, place, batch_dims=1)

    def _candidates(self, head, hidden, excluded):
        """Ids (B, K) and log-probabilities, -inf for what is not to be chosen; None: all ids."""
        if self.top_k is None:
            log_probs = head.log_probs(hidden)
            return None, tf.where(tf.range(head.vocab_size) == excluded, -math.inf, log_probs)
        width = min(self.top_k + 1, head.vocab_size)
        ids, log_probs = head.top_k(hidden, width)
        out = ids == excluded
        if width > self.top_k:  # one too many, unless the excluded word is among them
            last = tf.range(width) == width - 1
            out |= last & ~tf.reduce_any(out, axis=1, keepdims=True)
        return ids, tf.where(out, -math.inf, log_probs)


def nucleus(scores, top_p):
    """Scores (B, K), falling, with -inf behind the first whose softmax adds up to `top_p`."""
    probabilities = tf.nn.softmax(scores)
    before = tf.cumsum(probabilities, axis=1, exclusive=True)
    # The first word stays however `top_p` is rounded.
    return tf.where((before < top_p) | (before <= 0), scores, -math.inf)


def beam_search(step, first, width, max_words, eos, length_power):
    """The likeliest continuations that a beam of W hypotheses finds.

    A hypothesis of n words, `<eos>` counted, has the score ln P / n^length_power: with 0 the
    log-probability, which favours short sentences, with 1 the mean of a word. At each step the
    W likeliest extensions by a word go on; those by `<eos>` that are among the W likeliest end.
    The search ends when W have ended and none that goes on can have a better score than theirs,
    or at `max_words`, where those that go on are cut and take part with the score they have.

    Args:
        step: function of words (W,) and parents (W,), int32: stream i goes on from the state of
            stream parents[i] by words[i]. Returns ids and log-probabilities (W, K) of each
            stream's likeliest next words, K >= W + 1 if there are so many; -inf: never chosen.
        first: id of the first word to read; all streams have the same state before it.
        width: W.
        max_words: a continuation has at most so many words.
        eos: id of the word that ends a sentence.
        length_power: at least 0.

    Returns:
        At most W `Hypothesis`, the best score first: ids without `<eos>`, ln P (with `<eos>`'s,
        nats), score, and whether it ended, rather than being cut.

    Source: Wu et al. 2016, section 7, with n^α for their length penalty.
    """
    running, ended = [([], 0.0)], []
    words, parents = np.full(width, first, np.int32), np.arange(width, dtype=np.int32)
    for length in range(1, max_words + 1):
        ids, log_probs = step(words, parents)
        extensions = _extensions(running, np.asarray(ids), np.asarray(log_probs, np.float64))
        score = float(length) ** -length_power
        going_on = []
        for rank, (total, parent, word) in enumerate(extensions):
            if word != eos:
                going_on.append((total, parent, word))
            elif rank < width:
                ended.append(Hypothesis(running[parent][0], total, total * score, True))
            if len(going_on) == width:
                break
        if not going_on:
            running = []
            break
        running = [([*running[p][0], word], total) for total, p, word in going_on]
        ended = sorted(ended, key=lambda h: -h.score)[:width]
        best_to_come = running[0][1] * float(max_words) ** -length_power
        if len(ended) == width and ended[-1].score >= best_to_come:
            return ended
        # Streams beyond the running hypotheses repeat the last.
        going_on += [going_on[-1]] * (width - len(going_on))
        parents, words = np.array([(p, w) for _, p, w in going_on], np.int32).T
    cut = [Hypothesis(ids, total, total * score, False) for ids, total in running]
    return sorted(ended + cut, key=lambda h: -h.score)[:width]


def _extensions(running, ids, log_probs):
    """(ln P, parent, word) of all extensions, the likeliest first, but for impossible ones."""
    count = len(running)
    totals = np.array([total for _, total in running])[:, None] + log_probs[:count]
    for place in np.argsort(-totals, axis=None, kind="stable"):
        parent, column = divmod(int(place), totals.shape[1])
        if totals[parent, column] == -math.inf:
            return
        yield float(totals[parent, column]), parent, int(ids[parent, column])

"""Log-probabilities of sentences and of their words under a language model."""

import math

import numpy as np
import tensorflow as tf

from tfsoftmax.lm.model import head_and_hidden_model, reset_states
from tfsoftmax.vocabulary import EOS

NORMALISATIONS = ("exact", "constant")
OOV = ("unk", "skip", "spread")
# Positions of a step. Longer sentences are read in parts, with the states carried over.
POSITIONS = 8192


class Scorer:
    """Scores sentences with a model: ln P of each word, and of `<eos>` behind the last.

    Sentences are read side by side, those of like length together. What several sentences
    begin with, as the hypotheses of a recogniser do, is scored once. Only the target words'
    probabilities are asked for.

    Args:
        model: as `language_model` builds it, with B streams and any number of steps. Its
            recurrent states are zero after `sentences`.
        vocabulary: the `Vocabulary` of V words that it was trained with.
        normalisation: "exact", or "constant": the scores of heads that were trained to be
            normalised are taken as they are, at a cost that does not depend on V. What comes
            out need not sum to one.
        oov: what a word that the vocabulary lacks counts for. "unk": P(<unk>), the probability
            that any such word follows. "skip": nothing, ln P = 0; it is read as <unk>. "spread":
            P(<unk>) / unseen_words, its part if so many words share <unk> evenly.
        unseen_words: number of words that share <unk>; for "spread" only.

    Raises:
        ValueError: an argument is out of its range, or does not fit the model.

    Source: Müller 2017, sections 2.2.3.6 (constant), 3.1 and 5.3.3.
    """

    def __init__(self, model, vocabulary, normalisation="exact", oov="unk", unseen_words=None):
        _check_oov(oov, unseen_words)
        self.vocabulary, self.normalisation, self.oov = vocabulary, normalisation, oov
        self._model, self._unseen_words = model, unseen_words
        head, hidden_model = head_and_hidden_model(model, vocabulary)
        self._streams = _checked_streams(model)
        self._step = _step(hidden_model, _log_prob_method(head, normalisation))

    def sentences(self, sentences):
        """Scores each sentence by itself, with `<eos>` before its first word.

        Args:
            sentences: list of lists of words (str). An empty one scores its end only.

        Returns:
            List of float64 arrays (words + 1,), ln P of the words and of `<eos>`, in the order
            of the sentences.

        Raises:
            ValueError: `<eos>` stands in a sentence.
        """
        targets = [self._targets(words) for words in sentences]
        numbers, known = _prefixes(targets, len(self.vocabulary))
        values = np.zeros(known + 1)
        news = [i for i, (_, fresh) in enumerate(numbers) if fresh]
        news.sort(key=lambda i: len(targets[i]))
        for start in range(0, len(news), self._streams):
            batch = news[start : start + self._streams]
            reset_states(self._model)
            self._read([targets[i] for i in batch], [_fresh(*numbers[i]) for i in batch], values)
        reset_states(self._model)
        return [
            self._with_oov(values[prefixes], ids)
            for (prefixes, _), ids in zip(numbers, targets)
        ]

    def stream(self, sentences):
        """Scores sentences as parts of one text: the states go on where the last call ended.

        The model must have one stream. `restart` begins another text.

        Args:
            sentences: as for `sentences`.

        Returns:
            As `sentences` does.

        Raises:
            ValueError: the model has several streams, or `<eos>` stands in a sentence.

        Source: Müller 2017, section 5.3.3.
        """
        if self._streams != 1:
            raise ValueError(
                f"`model` must have one stream to score a stream. Received: {self._streams}"
            )
        if not sentences:
            return []
        targets = [self._targets(words) for words in sentences]
        text = np.concatenate(targets)
        values = np.zeros(len(text) + 1)
        self._read([text], [np.arange(1, len(text) + 1)], values)
        parts = np.split(values[1:], np.cumsum([len(ids) for ids in targets])[:-1])
        return [self._with_oov(part, ids) for part, ids in zip(parts, targets)]

    def restart(self):
        """Makes the next `stream` begin a text: states of zero."""
        reset_states(self._model)

    def unknown(self, words):
        """Whether each word, and `<eos>` behind them, is out of vocabulary: bool (words + 1,)."""
        return self._targets(words) == self.vocabulary.oov_id

    def _targets(self, words):
        ids = self.vocabulary.encode([*words, EOS])
        if (ids[:-1] == self.vocabulary.eos_id).any():
            raise ValueError(f"`sentences` must not contain {EOS}. Received: {' '.join(words)!r}")
        return ids

    def _read(self, targets, numbers, values):
        """Puts ln P of the position with number n > 0 into values[n], for up to B rows."""
        shape = (self._streams, max(map(len, targets)))
        words = np.full(shape, self.vocabulary.eos_id, np.int32)  # what stands before each target
        labels, places = words.copy(), np.zeros(shape, np.int64)
        for row, (ids, of_row) in enumerate(zip(targets, numbers)):
            words[row, 1 : len(ids)] = ids[:-1]
            labels[row, : len(ids)] = ids
            places[row, : len(ids)] = of_row
        steps = max(1, POSITIONS // self._streams)
        for start in range(0, shape[1], steps):
            part = np.s_[:, start : start + steps]
            wanted = places[part] > 0
            if not wanted.any():
                wanted[0, 0] = True  # heads want a position; values[0] is read by no one
            values[places[part][wanted]] = self._step(words[part], labels[part], wanted).numpy()

    def _with_oov(self, log_probs, ids):
        if self.oov == "unk":
            return log_probs
        unknown = ids == self.vocabulary.oov_id
        if self.oov == "skip":
            return np.where(unknown, 0.0, log_probs)
        return log_probs - unknown * math.log(self._unseen_words)


class Totals:
    """What the scores of a text come to.

    Args:
        scorer: the `Scorer` whose arguments say what is counted.
    """

    def __init__(self, scorer):
        self._scorer = scorer
        self.log_prob, self.sentences, self.tokens, self.oov_tokens = 0.0, 0, 0, 0

    def add(self, words, log_probs):
        """Adds a sentence and its scores (words + 1,)."""
        self.log_prob += log_probs.sum()
        self.sentences += 1
        self.tokens += len(log_probs)
        self.oov_tokens += int(self._scorer.unknown(words).sum())

    def result(self):
        """dict: sentences, tokens, oov_tokens, and, over the tokens that count, perplexity and
        nats_per_token; of scores that need not sum to one self_normalised_nats instead."""
        skipped = self.oov_tokens if self._scorer.oov == "skip" else 0
        counts = {
            "sentences": self.sentences, "tokens": self.tokens, "oov_tokens": self.oov_tokens,
        }
        if self.tokens == skipped:
            return counts
        nats = -self.log_prob / (self.tokens - skipped)
        if self._scorer.normalisation == "constant":
            return {"self_normalised_nats": nats, **counts}
        # Beyond 700 nats a token the exponential leaves the range of a double.
        perplexity = math.exp(nats) if nats < 700 else math.inf
        return {"perplexity": perplexity, "nats_per_token": nats, **counts}


def _step(hidden_model, log_prob):
    """A function of words, labels, wanted (B, T): ln P of the N wanted labels, row by row."""
    shape = (hidden_model.input.shape[0], None)

    @tf.function(
        input_signature=[
            tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, tf.int32),
            tf.TensorSpec(shape, tf.bool),
        ]
    )
    def step(words, labels, wanted):
        hidden = hidden_model(words, training=False)
        places = tf.where(wanted)
        return log_prob(tf.gather_nd(hidden, places), tf.gather_nd(labels, places))

    return step


def _prefixes(targets, vocab_size):
    """Numbers the distinct beginnings of sentences from 1 on.

    Returns:
        For each sentence the numbers of its beginnings, by length, and how many of them no
        sentence before it has: the last ones, numbered one after the other.
        The number of distinct beginnings.
    """
    known, numbers = {}, []
    for ids in targets:
        before, prefix, of_sentence = len(known), 0, []
        for word in ids.tolist():
            prefix = known.setdefault(prefix * vocab_size + word, len(known) + 1)
            of_sentence.append(prefix)
        numbers.append((np.array(of_sentence), len(known) - before))
    return numbers, len(known)


def _fresh(prefixes, fresh):
    """The numbers of a sentence's beginnings, 0 for those that an earlier sentence has."""
    return np.where(np.arange(len(prefixes)) >= len(prefixes) - fresh, prefixes, 0)


def _log_prob_method(head, normalisation):
    if normalisation not in NORMALISATIONS:
        raise ValueError(
            f"`normalisation` must be one of {', '.join(NORMALISATIONS)}. "
            f"Received: normalisation={normalisation!r}"
        )
    if normalisation == "exact":
        return head.log_prob
    if not head.self_normalised:
        raise ValueError(
            "`normalisation` must be 'exact' for a head that is not trained to be normalised. "
            f"Received: normalisation={normalisation!r} with {type(head).__name__}"
        )
    return head.self_normalised_log_prob


def _check_oov(oov, unseen_words):
    if oov not in OOV:
        raise ValueError(f"`oov` must be one of {', '.join(OOV)}. Received: oov={oov!r}")
    if (oov == "spread") != (unseen_words is not None):
        raise ValueError(
            "`unseen_words` must be given with oov='spread', and only then. "
            f"Received: unseen_words={unseen_words}, oov={oov!r}"
        )
    if unseen_words is not None and unseen_words < 1:
        raise ValueError(
            f"`unseen_words` must be at least 1. Received: unseen_words={unseen_words}"
        )


def _checked_streams(model):
    """B of a model that fits."""
    streams, time_steps = model.input.shape
    if streams is None or time_steps is not None:
        raise ValueError(
            "`model` must have a fixed number of streams, and None for `time_steps`. "
            f"Received: streams={streams}, time_steps={time_steps}"
        )
    return streams

"""Scores sentences and their words: log-probabilities under a language model."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.lm.model import reset_states, split_at_head
from tfsoftmax.lm.sentences import WORDS, windows
from tfsoftmax.ops.replicas import replica_id
from tfsoftmax.support.arguments import check_at_least, expect, refusal
from tfsoftmax.support.vocabulary import EOS, Vocabulary

NORMALISATIONS = ("exact", "constant")
OOV = ("unk", "skip", "spread")
# Positions that the model reads at once. It reads longer sentences in parts, carrying its states.
POSITIONS = 8192


class Scorer:
    """Scores sentences with a model: ln P of each word, and of `<eos>` after the last.

    The model reads sentences of similar length side by side. A beginning that several sentences
    share, as the hypotheses of a recogniser do, is scored once. Only the probabilities of the
    target words are computed. If the model was built under a strategy, all its devices score, each
    B sentences at a time.

    Args:
        model: a model that `language_model` built with B streams and any number of steps.
        vocabulary: the vocabulary of V words that it was trained with.
        normalisation: "exact", or "constant" to take the scores of a self-normalised head as
            log-probabilities. Then the cost does not depend on V, but the probabilities of all
            words need not sum to one.
        oov: how to score a word that the vocabulary lacks. It is always read as `<unk>`. "unk"
            scores it with P(<unk>), the probability that any such word follows; "skip" gives it
            ln P = 0; "spread" scores it with P(<unk>) / unseen_words, its share if this many
            words share P(<unk>) evenly.
        unseen_words: how many words share `<unk>`; only with `oov="spread"`.

    Raises:
        ValueError: an argument is out of its range, or does not fit the model.

    Example:
        from tfsoftmax.lm import scoring
        from tfsoftmax.runs import runs
        model, vocabulary, _ = runs.load("runs/first", streams=128)
        scorer = scoring.Scorer(model, vocabulary)
        log_probs = scorer.sentences([["the", "number", "of", "bytes"], ["the", "name"]])

    Source: Müller 2017, sections 2.2.3.6 (constant), 3.1 and 5.3.3.
    """

    def __init__(
        self, model: keras.Model, vocabulary: Vocabulary, normalisation: str = "exact",
        oov: str = "unk", unseen_words: int | None = None,
    ):
        _check_oov(oov, unseen_words)
        self.vocabulary, self.normalisation, self.oov = vocabulary, normalisation, oov
        self._model, self._unseen_words = model, unseen_words
        head, hidden_model = split_at_head(model, vocabulary)
        self._streams, strategy = _checked_streams(model), model.distribute_strategy
        self._devices = strategy.num_replicas_in_sync
        self._rows = self._devices * self._streams
        self._step = _step(hidden_model, _log_prob_method(head, normalisation), strategy)

    def sentences(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Scores each sentence by itself. The model reads `<eos>` before its first word.

        The recurrent states of the model are zero afterwards.

        Args:
            sentences: sentences as lists of words. For an empty one only `<eos>` is scored.

        Returns:
            A float64 array (words + 1,) for each sentence: ln P of its words and of `<eos>`.

        Raises:
            ValueError: a sentence contains `<eos>`.
        """
        parts = windows(sentences, len(sentences), WORDS)
        scores = [log_probs for part in parts for log_probs in self._window(part)]
        reset_states(self._model)
        return scores

    def texts(self, texts: Iterable[Sequence[Sequence[str]]]) -> Iterator[list[np.ndarray]]:
        """Scores texts of several sentences, each text by itself.

        A sentence begins with the state that the one before it in its text left. The model reads
        as many texts side by side as it has streams, in the order given, so texts of similar
        length should follow one another. Its recurrent states are zero after the last.

        Args:
            texts: lists of one sentence or more, which are lists of words.

        Yields:
            What `sentences` returns, for each text.

        Raises:
            ValueError: a sentence contains `<eos>`.

        Source: Müller 2017, section 5.3.3.1, where all sentences are one text.
        """
        for part in windows(texts, self._rows, math.inf):
            cuts = np.cumsum([sum(len(words) + 1 for words in text) for text in part])[:-1]
            self.restart()
            scores = iter(self._read_texts([words for text in part for words in text], cuts))
            self.restart()
            for text in part:
                yield list(itertools.islice(scores, len(text)))

    def _window(self, sentences):
        """What `sentences` returns, for some of the sentences."""
        targets = [self._targets(words) for words in sentences]
        numbers, known = _numbered_prefixes(targets, len(self.vocabulary))
        values = np.zeros(known + 1)
        news = [i for i, (_, fresh) in enumerate(numbers) if fresh.any()]
        news.sort(key=lambda i: len(targets[i]))
        for start in range(0, len(news), self._rows):
            batch = news[start : start + self._rows]
            reset_states(self._model)
            self._read([targets[i] for i in batch], [numbers[i][1] for i in batch], values)
        return [
            self._with_oov(values[prefixes], ids)
            for (prefixes, _), ids in zip(numbers, targets, strict=True)
        ]

    def stream(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Scores sentences as parts of one text, which continues that of the last call.

        Each sentence begins with the state that the one before it left. A model of B streams cuts
        the sentences of a call into B texts of similar length for each device, which it reads side
        by side; a model of one stream reads all in their order. Texts that are shorter than the
        longest of a call are filled with `<eos>`, which the model reads, so that with several
        streams the next call does not begin exactly where they ended. Call `restart` to begin
        another text.

        Args:
            sentences: sentences as lists of words.

        Returns:
            What `sentences` returns.

        Raises:
            ValueError: a sentence contains `<eos>`.

        Source: Müller 2017, section 5.3.3.
        """
        if not sentences:
            return []
        ends = np.cumsum([len(words) + 1 for words in sentences])
        # A sentence belongs to the text in which its last word falls.
        thresholds = ends[-1] * np.arange(1, self._rows) / self._rows
        first = np.searchsorted(ends, thresholds, side="right")
        return self._read_texts(sentences, np.concatenate([[0], ends])[first])

    def restart(self) -> None:
        """Sets the recurrent states to zero, so that the next `stream` begins a new text."""
        reset_states(self._model)

    def unknown(self, words: Sequence[str]) -> np.ndarray:
        """Whether the vocabulary lacks each word, and `<eos>` after them: bool (words + 1,)."""
        return self._targets(words) == self.vocabulary.oov_id

    def _targets(self, words):
        ids = self.vocabulary.encode([*words, EOS])
        if (ids[:-1] == self.vocabulary.eos_id).any():
            raise refusal("sentences", f"not contain {EOS}", received=f"{' '.join(words)!r}")
        return ids

    def _read(self, targets, numbers, values):
        """Reads sentences side by side; stores ln P of the position numbered n > 0 in values[n]."""
        eos = self.vocabulary.eos_id
        before = [np.append(eos, ids[:-1]) for ids in targets]  # the word before each target
        longest, steps = max(map(len, targets)), max(1, POSITIONS // self._streams)
        for start in range(0, longest, steps):
            shape = (self._rows, min(steps, longest - start))
            words, labels = np.full((2, *shape), eos, np.int32)
            places = np.zeros(shape, np.int64)
            for row, given in enumerate(zip(before, targets, numbers, strict=True)):
                for array, of_row in zip((words, labels, places), given, strict=True):
                    part = of_row[start : start + steps]
                    array[row, : len(part)] = part
            wanted = places > 0
            for part in np.split(wanted, self._devices):
                part[0, 0] |= not part.any()  # a head needs a position; nothing reads values[0]
            values[places[wanted]] = self._step(words, labels, wanted).numpy()

    def _read_texts(self, sentences, cuts):
        """What `sentences` returns, for texts, of which each but the last ends at one of `cuts`."""
        targets = [self._targets(words) for words in sentences]
        ends = np.cumsum([len(ids) for ids in targets])
        values, numbers = np.zeros(ends[-1] + 1), np.arange(1, ends[-1] + 1)
        texts = [np.split(of, cuts) for of in (np.concatenate(targets), numbers)]
        self._read(*texts, values)
        parts = np.split(values[1:], ends[:-1])
        return [self._with_oov(part, ids) for part, ids in zip(parts, targets, strict=True)]

    def _with_oov(self, log_probs, ids):
        if self.oov == "unk":
            return log_probs
        unknown = ids == self.vocabulary.oov_id
        if self.oov == "skip":
            return np.where(unknown, 0.0, log_probs)
        return log_probs - unknown * math.log(self._unseen_words)


def _numbered_prefixes(targets, vocab_size):
    """Numbers the distinct beginnings of sentences, starting with 1.

    Args:
        targets: the word ids (T,) of each sentence.
        vocab_size: V, the number of words.

    Returns:
        A list with a pair for each sentence: the numbers of its beginnings, the shortest first, and
        the same with 0 for those that an earlier sentence has; and the number of distinct ones.
    """
    known, numbers = {}, []
    for ids in targets:
        before, prefix, of_sentence = len(known), 0, []
        for word in ids.tolist():
            prefix = known.setdefault(prefix * vocab_size + word, len(known) + 1)
            of_sentence.append(prefix)
        prefixes = np.array(of_sentence)
        numbers.append((prefixes, np.where(prefixes > before, prefixes, 0)))
    return numbers, len(known)


def _step(hidden_model, log_prob, strategy):
    """Makes a function of words, labels and wanted (P B, T): ln P of the wanted labels, (N,)."""
    streams = hidden_model.input.shape[0]
    shape = (strategy.num_replicas_in_sync * streams, None)

    def of_replica(*arrays):
        first = replica_id() * streams
        words, labels, wanted = (array[first : first + streams] for array in arrays)
        hidden = hidden_model(words, training=False)
        places = tf.where(wanted)
        return log_prob(tf.gather_nd(hidden, places), tf.gather_nd(labels, places))

    @tf.function(
        input_signature=[
            tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, tf.int32),
            tf.TensorSpec(shape, tf.bool),
        ],
        autograph=False,
    )
    def step(words, labels, wanted):
        of_each = strategy.run(of_replica, args=(words, labels, wanted))
        return tf.concat(strategy.experimental_local_results(of_each), axis=0)

    return step


def _log_prob_method(head, normalisation):
    if normalisation not in NORMALISATIONS:
        raise refusal("normalisation", f"be one of {', '.join(NORMALISATIONS)}", normalisation)
    if normalisation == "exact":
        return head.log_prob
    expect(head.self_normalised, "normalisation",
           "be 'exact' for a head that is not trained to be normalised",
           received=f"normalisation={normalisation!r} with {type(head).__name__}")
    return head.self_normalised_log_prob


def _check_oov(oov, unseen_words):
    expect(oov in OOV, "oov", f"be one of {', '.join(OOV)}", oov)
    expect((oov == "spread") == (unseen_words is not None), "unseen_words",
           "be given with oov='spread', and only then",
           received=f"unseen_words={unseen_words}, oov={oov!r}")
    check_at_least(1, unseen_words=unseen_words)


def _checked_streams(model):
    """The number of streams of a model that fits a `Scorer`."""
    streams, time_steps = model.input.shape
    expect(streams is not None and time_steps is None, "model",
           "have a fixed number of streams, and None for `time_steps`",
           received=f"streams={streams}, time_steps={time_steps}")
    return streams

"""Summaries of sources, by a beam search over an encoder-decoder."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.lm.decoding import beam_search
from tfsoftmax.lm.sentences import WORDS, windows
from tfsoftmax.pairs.model import encoder_and_decoder_models
from tfsoftmax.support.arguments import check_at_least, expect
from tfsoftmax.support.vocabulary import UNK, Vocabulary

SIDE_BY_SIDE = 160  # hypotheses


class Summary(NamedTuple):
    """A text that a beam search found for a source.

    Attributes:
        words: its n words, without `<eos>`, `<unk>` among them.
        log_prob: ln P of the words, and of `<eos>` if it ended.
        score: ln P / n^length_power, by which summaries are ranked; n counts `<eos>`.
        ended: whether it ended with `<eos>`; False if it was cut.
        attention: float32 (n, S), how much each word attends to each of the S words of the source
            that were read. What is missing from one is the attention to its `<eos>`.

    Example:
        import numpy as np
        from tfsoftmax.pairs.summaries import Summary
        attention = np.array([[0.8, 0.1], [0.3, 0.6]], np.float32)
        summary = Summary(["old", "<unk>"], -3.0, -1.5, True, attention)
        print(*summary.copied(["ancient", "zebra"]))  # old zebra
    """

    words: list
    log_prob: float
    score: float
    ended: bool
    attention: np.ndarray

    def copied(self, source: Sequence[str]) -> list[str]:
        """The words, with the word of the source of most attention in place of each `<unk>`."""
        if not len(source):
            return self.words
        return [
            source[int(row.argmax())] if word == UNK else word
            for word, row in zip(self.words, self.attention, strict=True)
        ]


class Summariser:
    """Writes summaries with an encoder-decoder, of many sources side by side.

    Its graphs are traced once, so one summariser serves any number of calls, also after the
    weights have changed.

    Args:
        model: a model that `encoder_decoder` built for any number of pairs.
        vocabulary: the vocabulary of V words that it was trained with.
        max_source: sources are cut after this many words.

    Raises:
        ValueError: the model has a fixed number of pairs, or another number of words than the
            vocabulary.

    Example:
        from tfsoftmax.pairs.summaries import Summariser
        vocabulary = tfsoftmax.Vocabulary(["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4])
        model = tfsoftmax.encoder_decoder(tfsoftmax.Seq2SeqConfig(), vocabulary)
        [found] = Summariser(model, vocabulary).summarise([["the", "old", "cat"]], max_words=2)

    Source: Shen et al. 2017, section 5.2 (a beam of 5, at most 30 words) and 5.1 (exactly 30 words
        for DUC-2004).
    """

    def __init__(self, model: keras.Model, vocabulary: Vocabulary, max_source: int = 1000):
        expect(model.inputs[0].shape[0] is None, "model", "take any number of pairs: pairs=None",
               received=f"{model.inputs[0].shape[0]} pairs")
        self._head, self._vocabulary = model.get_layer("head"), vocabulary
        expect(self._head.vocab_size == len(vocabulary), "vocabulary",
               f"have as many words as the model, {self._head.vocab_size}",
               received=f"{vocabulary!r}")
        self.max_source = max_source
        self._encoder, self._decoder = encoder_and_decoder_models(model)

    def stream(self, sources: Iterable[Sequence[str]], beam: int = 5, **options) -> Iterator:
        """Yields what `summarise` returns for each source, in their order, and [] for empty ones.

        Args:
            sources: lists of words.
            beam: an argument of `summarise`. As many sources are read side by side as make 160
                hypotheses.
            **options: further arguments of `summarise`.
        """
        check_at_least(1, beam=beam)
        for window in windows(sources, max(1, SIDE_BY_SIDE // beam), WORDS):
            found = iter(self.summarise([words for words in window if words], beam, **options))
            for words in window:
                yield next(found) if words else []

    def summarise(
        self, sources: Sequence[Sequence[str]], beam: int = 5, max_words: int = 30,
        min_words: int = 0, length_power: float = 0.7, nbest: int = 1,
    ) -> list[list[Summary]]:
        """Finds the best summaries of each source.

        Args:
            sources: N lists of words. Those that the vocabulary lacks are read as `<unk>`, and so
                is the word `<eos>`, which ends no source.
            beam: W, how many hypotheses of each source go on. With 1 the likeliest word is taken
                each time, and `length_power` has no effect.
            max_words: a summary is cut after this many words.
            min_words: no summary has fewer words. With `max_words`, all have as many.
            length_power: summaries of n words, `<eos>` included, are ranked by
                ln P / n^length_power.
            nbest: the most summaries of a source to return, at most W.

        Returns:
            A list for each source of at most `nbest` of `Summary`, the best first.

        Raises:
            ValueError: an argument is out of its range.
        """
        _check(beam, max_words, min_words, length_power, nbest)
        if not sources:
            return []
        eos = self._vocabulary.eos_id
        encoded = [self._vocabulary.encode(words[: self.max_source]) for words in sources]
        encoded = [np.where(ids == eos, self._vocabulary.oov_id, ids) for ids in encoded]
        source = _padded([[*ids, eos] for ids in encoded], eos)
        memory = self._read(source)
        found = beam_search(
            self._step(source, memory, beam), eos, beam, max_words, eos,
            length_power if beam > 1 else 0.0, len(sources), min_words,
        )
        found = [of_source[:nbest] for of_source in found]
        rows = [i for i, of_source in enumerate(found) for _ in of_source]
        best = [hypothesis for of_source in found for hypothesis in of_source]
        attention = iter(self._attention(source, memory, rows, [h.words for h in best]))
        return [
            [
                Summary(self._vocabulary.decode(h.words), h.log_prob, h.score, h.ended,
                        next(attention)[: len(h.words), : len(encoded[i])])
                for h in of_source
            ]
            for i, of_source in enumerate(found)
        ]

    def _step(self, source, memory, beam):
        """The function that `beam_search` calls, W streams for each source."""
        source, *rest = (tf.repeat(t, beam, axis=0) for t in (source, *memory))
        shared, states = rest[:2], rest[2:]
        candidates = min(beam + 1, len(self._vocabulary))  # <eos> may be among them

        def step(words, parents):
            nonlocal states
            ids, log_probs, *states = self._extend(
                candidates, source, tf.constant(words), tf.constant(parents), *shared, *states
            )
            return ids, log_probs

        return step

    def _attention(self, source, memory, rows, summaries):
        """Float32 (R, T, S): what each word of summaries of the sources `rows` attends to."""
        eos = self._vocabulary.eos_id
        words = _padded([[eos, *ids[:-1]] for ids in summaries], eos)
        given = (tf.gather(t, rows) for t in (source, *memory))
        return tf.cast(self._attend(words, *given), tf.float32).numpy()

    @tf.function(reduce_retracing=True, autograph=False)
    def _read(self, source):
        return [tf.identity(t) for t in self._encoder(source, training=False)]

    @tf.function(reduce_retracing=True, autograph=False)
    def _extend(self, candidates, source, words, parents, outputs, keys, *states):
        """Ids and log-probabilities (N·W, K), and the states after reading words (N·W,)."""
        states = [tf.gather(state, parents) for state in states]
        hidden, _, *states = self._decoder(
            [source, words[:, None], outputs, keys, *states], training=False
        )
        return *self._head.top_k(hidden[:, 0], candidates), *states

    @tf.function(reduce_retracing=True, autograph=False)
    def _attend(self, words, source, *memory):
        return self._decoder([source, words, *memory], training=False)[1]


def _padded(rows, value):
    """Lists of ids as an int32 tensor, padded at the end to the longest."""
    ids = np.full((len(rows), max(map(len, rows))), value, np.int32)
    for padded, row in zip(ids, rows, strict=True):
        padded[: len(row)] = row
    return tf.constant(ids)


def _check(beam, max_words, min_words, length_power, nbest):
    check_at_least(1, beam=beam, max_words=max_words)
    expect(1 <= nbest <= beam, "nbest", f"lie in [1, {beam}], the beam", nbest)
    expect(0 <= min_words <= max_words, "min_words", f"lie in [0, {max_words}], up to `max_words`",
           min_words)
    expect(0 <= length_power < np.inf, "length_power", "be finite and not negative", length_power)

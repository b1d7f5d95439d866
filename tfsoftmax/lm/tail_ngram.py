"""The words outside a shortlist by an n-gram model of any order, which training does not need."""

import math
from os import PathLike
from typing import Any

import keras
import numpy as np

from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.heads import Shortlist
from tfsoftmax.lm.evaluation import perplexity_and_nats, text_measures
from tfsoftmax.ngrams import backoff
from tfsoftmax.support.arguments import ArrayLike, expect
from tfsoftmax.support.extras import kenlm_model
from tfsoftmax.support.vocabulary import EOS, Vocabulary

MOST_HISTORIES = 1 << 20  # whose sums over the tail are kept


class TailNgram:
    """P(w | H) / Σ_tail P(v | H) for words outside a shortlist, with H all words before.

    KenLM has no sums over words, so that one costs a call for each word of the tail; it is kept
    for the next position with the same history.

    Args:
        path: an ARPA file, or a file in KenLM's own format, of any order.
        vocabulary: `Vocabulary`. `<eos>` is </s> in the file, and the begin of a sentence <s>.
            Words that the file lacks have the probability of its <unk> or <UNK>, each of them.
        tail: (L,) ids of the words outside the shortlist.

    Raises:
        ValueError: the vocabulary has the word <s>, </s> or <UNK>.
        RuntimeError: kenlm is not installed.
        OSError: the file cannot be read.

    Source: Müller 2017, equation 2.10 (Park et al. 2010).
    """

    def __init__(self, path: str | PathLike, vocabulary: Vocabulary, tail: ArrayLike):
        self._model = kenlm_model(path, "tail_ngram")
        from kenlm import State  # as here it is known to be installed

        self._new_state = State
        backoff.check_no_marks(vocabulary.words)
        self._words = [backoff.END if word == EOS else word for word in vocabulary.words]
        self._eos = vocabulary.eos_id
        self._tail = [self._words[i] for i in tail]
        self._log_sums = {}

    def start(self, word: int) -> Any:
        """The history at the begin of a text, of the word that was read last."""
        state = self._new_state()
        if word == self._eos:
            self._model.BeginSentenceWrite(state)
            return state
        self._model.NullContextWrite(state)
        return self.after(state, word)

    def after(self, state: Any, word: int) -> Any:
        """The history after one more word."""
        if word == self._eos:
            return self.start(word)
        following = self._new_state()
        self._model.BaseScore(state, self._words[word], following)
        return following

    def log_share(self, state: Any, word: int) -> float:
        """ln of the share that a word of the tail has in all words of the tail."""
        score = self._model.BaseScore(state, self._words[word], self._new_state())
        return math.log(10) * score - self._log_sum(state)

    def _log_sum(self, state):
        if state not in self._log_sums:
            if len(self._log_sums) == MOST_HISTORIES:
                self._log_sums.clear()
            score, unused = self._model.BaseScore, self._new_state()
            scores = np.array([score(state, word, unused) for word in self._tail])
            self._log_sums[state] = np.logaddexp.reduce(math.log(10) * scores)
        return self._log_sums[state]


def tail_ngram_of(model: keras.Model, vocabulary: Vocabulary, path: str | PathLike) -> TailNgram:
    """The n-gram model of a file, for the words that the shortlist of a language model lacks.

    Raises:
        ValueError: the head is no `Shortlist` with the node, or it has an n-gram model already.
        RuntimeError: kenlm is not installed.
        OSError: the file cannot be read.
    """
    head = model.get_layer("head")
    expect(isinstance(head, Shortlist) and head.oos_node and head.ngram is None, "tail_ngram",
           "be given for a run with head=shortlist, with the node for all other words and without "
           "`ngram`", received=type(head).__name__)
    return TailNgram(path, vocabulary, head.tail)


def evaluated_with_tail_ngram(
    result: dict, model: keras.Model, corpus: Corpus, split: str, ngram: TailNgram
) -> dict:
    """Takes the evaluation of a shortlist's run from its own shares of the tail to an n-gram's.

    With the node for all other words, training does not depend on the shares, and ln P(w | h) is a
    sum of the node's part and the share's. The other part need not be computed again.

    Args:
        result: what `exact_evaluator` has found for the split.
        model: the language model, for which `tail_ngram_of` takes the n-gram model.
        corpus: the prepared corpus.
        split: the name of the split.
        ngram: the n-gram model, of any order.

    Returns:
        The result with the perplexity and the nats that the n-gram model's shares give, and
        `tail_tokens`, the number of tokens outside the shortlist.
    """
    head = model.get_layer("head")
    own = dict(zip(head.tail.tolist(), head.tail_log_shares.tolist()))
    states, gain, tail_tokens = None, 0.0, 0
    for words, next_words, weights in batches(corpus, split).as_numpy_iterator():
        states = states or [ngram.start(word) for word in words[:, 0].tolist()]
        for stream, (labels, counted) in enumerate(zip(next_words.tolist(), weights.tolist())):
            for label, weight in zip(labels, counted):
                if weight and label in own:
                    gain += ngram.log_share(states[stream], label) - own[label]
                    tail_tokens += 1
                states[stream] = ngram.after(states[stream], label)
    nats = result["nats_per_token"] - gain / result["tokens"]
    per_text = text_measures(corpus.split(split), nats * result["tokens"])
    return {**result, **perplexity_and_nats(nats), **per_text, "tail_tokens": tail_tokens}

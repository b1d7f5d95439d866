"""Adds up the scores of sentences."""

from collections.abc import Sequence

import numpy as np

from tfsoftmax.lm.evaluation import perplexity_and_nats
from tfsoftmax.lm.scoring import Scorer


class Totals:
    """Adds up the scores of sentences to the perplexity of a text.

    Args:
        scorer: the `Scorer` that scores the sentences. Its `oov` and `normalisation` decide what
            is counted.

    Example:
        from tfsoftmax.lm import scoring, totals
        from tfsoftmax.runs import runs
        scorer = scoring.Scorer(*runs.load("runs/first", streams=1)[:2])
        text, words = totals.Totals(scorer), ["the", "number", "of", "bytes"]
        text.add(words, scorer.sentences([words])[0])
        print(text.result()["perplexity"])
    """

    def __init__(self, scorer: Scorer):
        self._scorer = scorer
        self.log_prob, self.sentences, self.tokens, self.oov_tokens = 0.0, 0, 0, 0

    @property
    def words(self) -> int:
        """The number of words, without `<eos>`."""
        return self.tokens - self.sentences

    def add(self, words: Sequence[str], log_probs: np.ndarray) -> None:
        """Adds a sentence and its scores, which are an array (words + 1,) of the scorer."""
        self.log_prob += log_probs.sum()
        self.sentences += 1
        self.tokens += len(log_probs)
        self.oov_tokens += int(self._scorer.unknown(words).sum())

    def result(self) -> dict:
        """The totals so far.

        Returns:
            Dictionary of `sentences`, `tokens`, `oov_tokens` and `oov_rate`, their share of the
            words, and of `perplexity` and `nats_per_token` over the tokens that count. If the
            scores are taken as they are (`normalisation="constant"`), it has
            `self_normalised_nats` instead of these two.
        """
        skipped = self.oov_tokens if self._scorer.oov == "skip" else 0
        counts = {
            "sentences": self.sentences, "tokens": self.tokens, "oov_tokens": self.oov_tokens,
            "oov_rate": self.oov_tokens / max(1, self.words),
        }
        if self.tokens == skipped:
            return counts
        nats = -self.log_prob / (self.tokens - skipped)
        if self._scorer.normalisation == "constant":
            return {"self_normalised_nats": nats, **counts}
        return {**perplexity_and_nats(nats), **counts}

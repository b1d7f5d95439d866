"""Negative sampling, and the distribution that it implies."""

import math
from collections.abc import Sequence
from typing import Unpack

import keras

from tfsoftmax.distributions.views import AfterWord
from tfsoftmax.heads.options import ShardOptions
from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.ngrams.backoff import NgramOption
from tfsoftmax.ops.criteria import logistic
from tfsoftmax.samplers.base import Sampler
from tfsoftmax.support.arguments import ArrayLike, expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NegativeSampling(SamplingHead):
    """Logistic classification of the label w against k = S words v of a proposal q.

        loss = -ln σ(s_w) - Σ_v ln σ(-s_v)

    This is NCE without ln k q. For samples with replacement that keep accidental hits its optimum
    is s = ln (P(w | h) / k q(w)), which is a log-probability only if q is uniform and k = V (Dyer
    2014). The words' probabilities are therefore softmax(s + ln k q), which `head(hidden)` and the
    exact methods return. `restore_proposal=False` returns softmax(s), the literal reading, which is
    not P(w | h). Its Z differs between contexts, so the head is then not `self_normalised`. If
    accidental hits are left out, as in word2vec's program, the optimum is s + ln k q = ln (P /
    (1 - P)). Without replacement a word is drawn fewer than k q(w) times. In neither case can the
    proposal be restored.

    q is part of the predictions. If the proposal is learned in training, as it is by default
    without counts, the predictions change with it, whatever the optimizer does.

    With zero biases, exp(s) k q sums to k instead of one at the start of training, and a word keeps
    this excess until it is drawn. `bias_initializer=keras.initializers.Constant(-math.log(k))`
    starts at q instead.

    Args:
        vocab_size: V, the number of words.
        num_samples, sampler, counts, sampler_options, ngram, words: as in `sampling.SamplingHead`.
        remove_accidental_hits, shared_samples, seed, synchronized: as in `sampling.SamplingHead`.
            Accidental hits are kept unless the first is True. With in-batch negatives, one is left
            out.
        restore_proposal: whether logits outside training are s + ln k q instead of s. Must be
            False for samplers without replacement, in-batch negatives, and if accidental hits are
            left out.
        **kwargs: options of the weights and of the layer, `heads.options.ShardOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.NegativeSampling(1000, num_samples=50, sampler="log_uniform")
        nats = head.training_loss(hidden, labels)
        log_prob = head.log_prob(hidden, labels)  # of softmax(s + ln k q)

    Source: Müller 2017, equations 2.38 and 2.39 (Mikolov et al. 2013; Dyer 2014; Levy and
    Goldberg 2014 for the optimum). Misprint: the first line of equation 2.38 has 1 - P(false) for
    the sampled words, where 1 - P(true) is meant, as its second line shows.
    """

    saved_options = ("restore_proposal",)

    def __init__(
        self, vocab_size: int, num_samples: int | None = 1280, sampler: str | Sampler | None = None,
        counts: ArrayLike | None = None, sampler_options: dict | None = None,
        remove_accidental_hits: bool | None = None, shared_samples: bool = True,
        seed: int | None = None, synchronized: bool = True,
        ngram: NgramOption | None = None,
        words: Sequence[str] | None = None, *, restore_proposal: bool = True,
        **kwargs: Unpack[ShardOptions],
    ):
        super().__init__(
            vocab_size, num_samples, sampler, counts, sampler_options, remove_accidental_hits,
            shared_samples, seed, synchronized, ngram, words, **kwargs,
        )
        self._check_use(restore_proposal=restore_proposal)
        expect(
            not (restore_proposal and self.remove_accidental_hits), "restore_proposal", "be False "
            "if accidental hits are left out, as the scores then tend to log-odds, "
            "ln (P / (1 - P))", True,
        )
        self.restore_proposal = self.self_normalised = restore_proposal

    def _parameters(self):
        kernel, bias = super()._parameters()
        if self.restore_proposal and not self.reads_previous_word:
            bias = self._raised(bias, self._log_counts)
        return kernel, bias

    def distribution(self):
        if not (self.restore_proposal and self.reads_previous_word):
            return super().distribution()
        rows = super().distribution().distribution  # of the hidden states without the word
        return AfterWord(
            rows, lambda before: self.sampler.log_qs(before) + math.log(self.num_samples)
        )

    def _log_counts(self, ids, *before):
        return self.sampler.log_q(ids, *before) + math.log(self.num_samples)

    def _nats(self, hidden, labels):
        return self._sampled_loss(logistic, hidden, labels, corrected=False)

    def _self_normalised(self, hidden, labels):
        """s_w + ln k q(w), or s_w where the proposal is not restored, which takes Z to be one."""
        scores = self._label_scores(hidden, labels)
        if not self.restore_proposal:
            return scores
        return scores + self._log_counts(labels, *self.sampler.split(hidden)[1])

"""Sampled softmax: importance sampling, by default with the label among the candidates."""

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.ops.logits import full_logits
from tfsoftmax.ops.per_example import per_example_loss
from tfsoftmax.ops.sampled import Hits, effective_sizes, keep_highest, self_normalised, softmax

KEEP_BY = ("score", "corrected_score")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SampledSoftmax(SamplingHead):
    """Cross-entropy over the label w and a sample S, every score divided by its expected count.

        loss = -ln [ exp(s_w) / c_w / ( exp(s_w) / c_w + Σ_{v ∈ S} exp(s_v) / c_v ) ]

    with c_v = S q(v) for samples with replacement, whose S cancels, and the probability that the
    sample includes v for samples without. Its minimum is the softmax over all words, exactly, if

    - the sample is with replacement and keeps accidental hits: a word drawn m times stands m
      times in the sum, the label once more; or
    - it is without replacement and hits are removed. The candidates of a position are then its
      label and S other words, whose c_v belong to one common threshold, the arrival of the first
      word that is not a candidate (`Sampler.sample_others`). With implementation="tf" the
      thresholds differ, and the minimum is only near the softmax.

    With in-batch negatives, `samplers.InBatch`, a position's own label is left out once.
    `remove_accidental_hits=None` does what is right for the sampler. `tf.nn.sampled_softmax_loss`
    removes hits in every case by default. With replacement, the score of a frequent label is then
    divided by an expected count above one, while none of these occurrences stands in the sum.

    `label_in_sum=False` leaves the label out of the sum, as the first estimator of this kind does:

        loss = -s_w + ln Σ_{v ∈ S} exp(s_v) / c_v,

    whose gradient is self-normalised importance sampling, Σ ω ∇s / Σ ω with ω = exp(s) / c. The
    sum is an unbiased estimate of Z, so that the loss lies below the cross-entropy on average and
    tends to it as S grows. It has no lower bound: the score of a label that the sample lacks
    rises at no cost. A word that is likelier in some context than the sample is to hold it has no
    best score, and its score grows without end. The label in the sum prevents both.

    The loss is a sampled one: `fit` reports it as `loss`, and never as perplexity.

    Args:
        vocab_size: V, the number of words.
        keep: the number of words of a sample without replacement that count at each position,
            the highest by `keep_by` (TAPAS), or None for all. The loss is then biased: it suits
            ranking, not perplexity.
        keep_by: "score", as in the source: the strongest rivals of the label count. Or
            "corrected_score", s_v - ln c_v: the largest terms of the sum count, so that the loss
            is as near as possible to the one that keeps all.
        **kwargs: arguments of `SamplingHead` (num_samples, sampler, counts, ...).

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50, sampler="log_uniform")
        nats = head.training_loss(hidden, labels)    # a sampled loss
        perplexity = keras.ops.exp(-keras.ops.mean(head.log_prob(hidden, labels)))  # exact

    Source: Müller 2017, equations 2.29 and 3.2 (Jean et al. 2015); section 2.2.3.5 (TAPAS: Yu et
    al. 2017); 2.25 and 2.26 (Bengio and Senécal 2003) without the label, where ln c_w, which has
    no gradient, is left out here. Departure: the expected counts without replacement are those of
    `Sampler.sample`.
    """

    def __init__(
        self, vocab_size: int, *args, keep: int | None = None, keep_by: str = "score",
        label_in_sum: bool = True, **kwargs,
    ):
        super().__init__(vocab_size, *args, **kwargs)
        if keep is not None and not 0 < keep <= (self.num_samples or keep):
            raise ValueError(
                f"`keep` must lie in [1, num_samples={self.num_samples}]. Received: keep={keep}"
            )
        if keep is not None and not self.sampler.unique:
            raise ValueError(
                "`keep` must be None for a sampler with replacement. "
                f"Received: keep={keep}, unique=False"
            )
        if keep_by not in KEEP_BY:
            raise ValueError(f"`keep_by` must be one of {KEEP_BY}. Received: keep_by={keep_by!r}")
        if not label_in_sum and (self.remove_accidental_hits or self.sampler.holds_labels):
            raise ValueError(
                "`label_in_sum` must be True with `remove_accidental_hits` and with a sampler that "
                f"holds the labels themselves. Received: label_in_sum={label_in_sum}, "
                f"remove_accidental_hits={self.remove_accidental_hits}, sampler={self.sampler}"
            )
        self.keep, self.keep_by, self.label_in_sum = keep, keep_by, label_in_sum

    @classmethod
    def from_config(cls, config):
        if config.get("keep") is not None:  # files from before there was a choice
            config = {"keep_by": "corrected_score", **config}
        return super().from_config(config)

    def effective_sample_size(self, hidden: ArrayLike) -> tf.Tensor:
        """(Σ ω)² / Σ ω² with ω = exp(s) / q over a fresh sample: (...) float32, 1 to S.

        Costs a product (N, D) by (D, S). With `shared_samples=False` each position draws its own.

        Source: Müller 2017, equation 2.30 (Kong 1992).
        """
        return self._by_row(self._effective_sample_size, hidden)

    def _hits(self):
        chosen = self.remove_accidental_hits
        if chosen is None and self.sampler.holds_labels:
            return Hits.REMOVE_ONE
        removed = self.sampler.unique and self.label_in_sum if chosen is None else chosen
        return Hits.REMOVE if removed else Hits.KEEP

    def _sample(self, *arguments):
        if self.sampler.unique and self._hits() == Hits.REMOVE:
            return self.sampler.sample_others(*arguments)
        drawn = super()._sample(*arguments)
        if self.label_in_sum:
            return drawn
        # NaN for a label that can never be drawn, whose logarithm is -inf.
        return drawn._replace(log_expected_labels=0.0 * drawn.log_expected_labels)

    def _training_loss(self, hidden, labels):
        criterion = softmax if self.label_in_sum else self_normalised
        if self.keep is not None:
            criterion = keep_highest(self.keep, self.keep_by, criterion)
        return self._sampled_loss(criterion, hidden, labels)

    def _effective_sample_size(self, hidden):
        if not self.shared_samples:
            hidden, before = self._parts(hidden)
            labels = tf.zeros(tf.shape(hidden)[:1], tf.int32)  # which do not matter
            seed = self.random_state.next()
            candidates = self.sampler.sample_for_each(labels, self.num_samples, seed, *before)
            read = self._rows_and_biases
            return per_example_loss(effective_sizes, hidden, read, labels, candidates)
        none = tf.zeros([0], tf.int32)
        seed = self.random_state.next(self.synchronized)
        ids, log_expected, _ = self.sampler.sample(none, self.num_samples, seed)
        rows, biases = self._rows_and_biases(ids)
        scores = full_logits(hidden, rows, biases - log_expected)
        twice = tf.reduce_logsumexp(2 * scores, axis=1)
        return tf.exp(2 * tf.reduce_logsumexp(scores, axis=1) - twice)

    def get_config(self):
        return {
            **super().get_config(), "keep": self.keep, "keep_by": self.keep_by,
            "label_in_sum": self.label_in_sum,
        }

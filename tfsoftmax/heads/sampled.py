"""Sampled softmax: importance sampling, by default with the label among the candidates."""

from collections.abc import Sequence
from typing import Unpack

import keras
import tensorflow as tf

from tfsoftmax.distributions.sampled import sampled_loss
from tfsoftmax.heads.inputs import check_objective, checked_lists, refuse_xla
from tfsoftmax.heads.options import ShardOptions
from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.losses.logits_tag import LogitsTag
from tfsoftmax.ngrams.backoff import NgramOption
from tfsoftmax.ops.criteria import (
    Hits,
    effective_sizes,
    keep_highest,
    self_normalised,
    softmax,
)
from tfsoftmax.ops.random import split_seed, uniform, uniform_words
from tfsoftmax.samplers.base import Sampler
from tfsoftmax.support.arguments import ArrayLike, expect

KEEP_BY = ("score", "corrected_score")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SampledSoftmax(SamplingHead):
    """Cross-entropy over the label w and a sample S, corrected by the words' expected counts.

        loss = -ln [ exp(s_w) / c_w / ( exp(s_w) / c_w + Σ_{v ∈ S} exp(s_v) / c_v ) ]

    where c_v = S q(v) for samples with replacement (S cancels), and the probability that the sample
    includes v for samples without replacement. Its minimum is exactly the softmax over all words if

    - the sample is with replacement and keeps accidental hits: a word drawn m times appears m times
      in the sum, and the label once more; or
    - it is without replacement and hits are removed. The candidates of a position are then its
      label and S other words, whose c_v all come from one threshold, the arrival of the first word
      that is not a candidate (`Sampler.sample_others`).

    With in-batch negatives, `samplers.InBatch`, a position's own label is left out once.
    `remove_accidental_hits=None` chooses what is right for the sampler.
    `tf.nn.sampled_softmax_loss` removes hits by default, whatever the sampler is. With replacement,
    exp(s) of a frequent label is then divided by an expected count above one, although none of its
    occurrences is in the sum.

    `label_in_sum=False` leaves the label out of the sum, as the first estimator of this kind did:

        loss = -s_w + ln Σ_{v ∈ S} exp(s_v) / c_v,

    whose gradient is -∇s_w + Σ ω ∇s / Σ ω with ω = exp(s) / c, where the second term is
    self-normalised importance sampling. The sum is an unbiased estimate of Z, so on average the
    loss lies below the cross-entropy, and it tends to the cross-entropy as S grows. It has no lower
    bound: the score of a label outside the sample can rise at no cost. If a word's probability in
    some context exceeds the probability that the sample holds it, its best score is infinite, and
    training raises it without bound. A label in the sum prevents both.

    Hard negatives are (..., H) ids of words that each position must distinguish from its label.
    Pass them, as an input of the model, as the second argument of a call, or as the third argument
    of `training_loss`. Negative ids are ignored. Hard negatives join the sample of all positions.
    Each counts once there and is not divided by an expected count, so the sum over the sample is
    still an unbiased estimate of Z, and the loss tends to the cross-entropy as S grows. Its minimum
    is near the softmax, and exactly the softmax only without hard negatives. They need a sampler
    with replacement, shared samples and `label_in_sum`, and XLA does not compile them.
    `MineHardNegatives` finds them.

    This is a sampled loss: `fit` reports it as `loss`, and never as perplexity.

    Call arguments:
        hidden: (..., D) float.
        hard_negatives: (..., H) integers, or None. Only training reads them.
        exclude: (..., E) integers, or None: words that lists leave out, as in `SoftmaxHead`.

    Args:
        vocab_size: V, the number of words.
        num_samples, sampler, counts, sampler_options, ngram, words: as in `sampling.SamplingHead`.
        remove_accidental_hits, shared_samples, seed, synchronized: as in `sampling.SamplingHead`.
        keep: the number of words of a sample without replacement that count at each position, or
            None for all. Those with the highest `keep_by` count, including ties (TAPAS). The loss
            is then biased; it suits ranking, not perplexity. With in-batch negatives XLA does not
            compile the head.
        keep_by: with "score", the words with the highest scores count, as in the source. With
            "corrected_score", s_v - ln c_v, the largest terms of the sum count, so that the loss is
            as near as possible to the one that keeps all. TensorFlow Recommenders' name for this is
            `num_hard_negatives`.
        label_in_sum: whether the label's term is part of the sum.
        label_smoothing: probability in [0, 1) with which a training step replaces a label by a
            word drawn from the uniform distribution.
        **kwargs: options of the weights and of the layer, `heads.options.ShardOptions`.

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

    saved_options = ("keep", "keep_by", "label_in_sum", "label_smoothing")

    def __init__(
        self, vocab_size: int, num_samples: int | None = 1280, sampler: str | Sampler | None = None,
        counts: ArrayLike | None = None, sampler_options: dict | None = None,
        remove_accidental_hits: bool | None = None, shared_samples: bool = True,
        seed: int | None = None, synchronized: bool = True,
        ngram: NgramOption | None = None,
        words: Sequence[str] | None = None, *, keep: int | None = None,
        keep_by: str = "score", label_in_sum: bool = True, label_smoothing: float = 0.0,
        **kwargs: Unpack[ShardOptions],
    ):
        super().__init__(
            vocab_size, num_samples, sampler, counts, sampler_options, remove_accidental_hits,
            shared_samples, seed, synchronized, ngram, words, **kwargs,
        )
        check_objective(label_smoothing, 0.0, None)
        expect(keep_by in KEEP_BY, "keep_by", f"be one of {KEEP_BY}", keep_by)
        self._check_use(keep=keep, label_in_sum=label_in_sum, label_smoothing=label_smoothing)
        expect(label_in_sum or not self.remove_accidental_hits, "label_in_sum",
               "be True with `remove_accidental_hits`", label_in_sum)
        self.keep, self.keep_by, self.label_in_sum = keep, keep_by, label_in_sum
        self.label_smoothing = label_smoothing
        expect(not (label_smoothing and self.not_items), "label_smoothing",
               "be zero with `not_items`, which would be labels", label_smoothing)
        if keep is not None and not self.sampler.unique:
            # Under XLA repeated words are separate columns, of which `keep` would count each.
            self.supports_jit = False

    def __call__(self, hidden, *args, **kwargs):
        hard_negatives = args[0] if args else kwargs.get("hard_negatives")
        if hard_negatives is not None:
            self.supports_jit = False  # how many words join the sample is known while it runs
        return super().__call__(hidden, *args, **kwargs)

    def call(self, hidden, hard_negatives=None, exclude=None, training=None):
        logits = super().call(hidden, exclude, training)
        if hard_negatives is not None:
            negatives = self._checked_negatives(hard_negatives, logits.shape[:-1])
            LogitsTag.of(logits).more = (negatives,)
        return logits

    def compute_output_spec(self, hidden, hard_negatives=None, exclude=None, training=None):
        return super().compute_output_spec(hidden, exclude)

    def compute_output_shape(self, hidden_shape, hard_negatives_shape=None, exclude_shape=None):
        return super().compute_output_shape(hidden_shape)

    def training_loss(
        self, hidden: ArrayLike, labels: ArrayLike, hard_negatives: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> tf.Tensor:
        """(...) nats for hidden (..., D), labels (...) and hard negatives (..., H) or None.

        `mask` is that of `SoftmaxHead`.
        """
        if hard_negatives is None:
            return super().training_loss(hidden, labels, mask)
        hidden = self._as_hidden(hidden)
        negatives = self._checked_negatives(hard_negatives, hidden.shape[:-1])
        return self._trained_by_position(hidden, labels, negatives, mask=mask)

    def _checked_negatives(self, ids, positions):
        refuse_xla("`hard_negatives` cannot be compiled by XLA")
        sampler, label_in_sum = self.sampler, self.label_in_sum
        expect(
            not sampler.unique and self.shared_samples and label_in_sum, "hard_negatives",
            "be None unless samples are with replacement and shared and the label is in the sum",
            received={"hard_negatives": "given", "unique": sampler.unique,
                      "shared_samples": self.shared_samples, "label_in_sum": label_in_sum},
        )
        ids = checked_lists(ids, "hard_negatives", positions, self.vocab_size)
        return tf.where(self._is_none(ids), -1, ids) if self.not_items else ids

    def effective_sample_size(
        self, hidden: ArrayLike, seed: int | tf.Tensor | None = None
    ) -> tf.Tensor:
        """(Σ ω)² / Σ ω² with ω = exp(s) / c over a fresh sample: (...) float32 from 1 to S.

        It has no gradient and costs a product (N, D) by (D, S). With `shared_samples=False` each
        position draws its own sample.

        Args:
            hidden: (..., D) float.
            seed: of the sample, int or (2,) integers. None takes the seed of the next training
                step, which then has another one.

        Raises:
            ValueError: for a sampler that holds the labels, which are not known here.

        Source: Müller 2017, equation 2.30 (Kong 1992).
        """
        self._check_use(labels_known=False)
        return self._by_row(lambda rows: self._effective_sample_size(rows, seed), hidden)

    @property
    def _compares_with_others(self):
        """Whether the candidates of a position are its label and different other words."""
        kept = self.remove_accidental_hits is False
        return self.sampler.unique and self.label_in_sum and not kept

    def _hits(self):
        return Hits.REMOVE if self._compares_with_others else super()._hits()

    def _sample(self, *arguments):
        if self._compares_with_others:
            return self.sampler.sample_others(*arguments)
        drawn = super()._sample(*arguments)
        if self.label_in_sum:
            return drawn
        # 0 · -inf is NaN on purpose: a label that can never be drawn has no valid loss.
        return drawn._replace(log_expected_labels=0.0 * drawn.log_expected_labels)

    def _nats(self, hidden, labels, hard_negatives=None):
        criterion = softmax if self.label_in_sum else self_normalised
        if self.keep is not None:
            criterion = keep_highest(self.keep, self.keep_by, criterion)
        if hard_negatives is not None:
            hard_negatives = tf.where(labels[:, None] < 0, -1, hard_negatives)
            hard_negatives = tf.reshape(hard_negatives, [-1])
        return self._sampled_loss(
            criterion, hidden, self._smoothed(labels), certain=hard_negatives
        )

    def _smoothed(self, labels):
        """The labels, of which a share are replaced by uniform words."""
        if not self.label_smoothing:
            return labels
        coin, words = split_seed(self.random_state.next(), 2)
        count = tf.size(labels)
        replaced = uniform([count], coin) < self.label_smoothing
        replaced &= labels >= 0
        return tf.where(replaced, uniform_words(count, self.vocab_size, words), labels)

    def _effective_sample_size(self, hidden, seed):
        hidden, before = self.sampler.split(hidden)
        labels = tf.zeros(tf.shape(hidden)[:1], tf.int32)  # which do not matter
        draw = self.sampler.sample if self.shared_samples else self.sampler.sample_for_each
        if seed is None:
            seed = self.random_state.next(self.synchronized and self.shared_samples)
        candidates = draw(labels, self.num_samples, seed, *before)
        sizes = sampled_loss(effective_sizes, hidden, self._rows_and_biases, labels, candidates)
        return tf.stop_gradient(sizes)  # which have no slopes

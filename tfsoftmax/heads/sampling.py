"""The base of heads that train on samples of the vocabulary: the sampler and its options."""

from collections.abc import Sequence
from typing import Unpack

import tensorflow as tf

from tfsoftmax.distributions.base import NatsOf
from tfsoftmax.distributions.per_example import per_example_loss
from tfsoftmax.distributions.sampled import sampled_loss
from tfsoftmax.distributions.views import without_previous_word
from tfsoftmax.heads.options import ShardOptions
from tfsoftmax.heads.random_state import RandomState
from tfsoftmax.heads.shards import Shards
from tfsoftmax.ngrams.backoff import NgramOption
from tfsoftmax.ops.criteria import Hits
from tfsoftmax.ops.replicas import in_replica, of_all_replicas
from tfsoftmax.samplers.base import Sampler
from tfsoftmax.samplers.by_name import get_sampler, may_exclude
from tfsoftmax.samplers.certain import with_certain
from tfsoftmax.support.arguments import ArrayLike, expect


class SamplingHead(Shards):
    """A linear head whose training loss uses each label and S sampled words.

    All positions of a step share one sample, and each step draws a new one. A step touches the rows
    of the labels and of the sampled words; its cost does not depend on V. Outside training the
    distribution is the exact softmax over all V words. A subclass writes `_nats`, as a criterion
    that it passes to `_sampled_loss`.

    Args:
        vocab_size: V, the number of words.
        num_samples: S, words drawn for each step. With `InBatch`, whose sample is the batch's
            labels, these are additional words, and None means no such words.
        sampler: proposal distribution: a name in `tfsoftmax.samplers.SAMPLERS`, a `Sampler`, or
            None for "unigram" with counts and "learned_unigram" without. One that learns does so
            in training, unless it or the head has `trainable=False`.
        counts: (V,) occurrences of the words, in the order of their ids, for the samplers that
            take them.
        sampler_options: arguments of a sampler that is given by name, such as `alpha` or `unique`,
            or `exclude`, words that are never drawn (by default, those of `not_items`).
        remove_accidental_hits: whether samples that equal a position's label are left out of
            that position's loss. None: as the subclass says. With in-batch negatives, the
            position's own label is left out once.
        shared_samples: False draws S words for each position separately. A step then multiplies N S
            rows one by one, whereas a shared sample is one matrix: a model with 25 samples for each
            position takes longer than with 1,280 shared ones (experiments/results/field). XLA does
            not compile it.
        seed: seed of the samples.
        synchronized: whether all replicas of a strategy of `tf.distribute` train on one sample, as
            one process with the whole batch does. False draws a sample for each replica, so a step
            of P replicas uses up to P S words. Samples for each position are never the same on two
            replicas.
        ngram: the bigram model of a sampler that is given by name and takes one, "bigram": a
            `ngrams.backoff.BackoffBigrams`, what its `to_config` returns, or the path of an
            ARPA file of order 2. The last four units of the hidden states then carry the word
            that was read last; `ngrams.previous_word` puts it there, and `tfsoftmax train` does so
            automatically.
        words: the V words in the order of their ids, for a file.
        **kwargs: options of the weights and of the layer, `heads.options.ShardOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.NCE(1000, num_samples=50, sampler="log_uniform", seed=1)
        assert isinstance(head, tfsoftmax.heads.sampling.SamplingHead)
        sampled, exact = head.training_loss(hidden, labels), head.log_prob(hidden, labels)
    """

    saved_options = (
        "num_samples", "sampler", "remove_accidental_hits", "shared_samples", "seed",
        "synchronized",
    )
    no_label = -1
    label_smoothing = 0.0  # `SampledSoftmax` has an argument for it

    def __init__(
        self, vocab_size: int, num_samples: int | None = 1280, sampler: str | Sampler | None = None,
        counts: ArrayLike | None = None, sampler_options: dict | None = None,
        remove_accidental_hits: bool | None = None, shared_samples: bool = True,
        seed: int | None = None, synchronized: bool = True,
        ngram: NgramOption | None = None,
        words: Sequence[str] | None = None, **kwargs: Unpack[ShardOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        if sampler is None:
            sampler = "learned_unigram" if counts is None else "unigram"
        options = dict(sampler_options or {})
        if self.not_items and may_exclude(sampler):
            options.setdefault("exclude", self.not_items)
        if ngram is not None:
            options |= {"ngram": ngram, "words": words}
        self.sampler = get_sampler(sampler, self.vocab_size, counts, **options)
        if not self.trainable:
            self.sampler.trainable = False  # as the setter of `trainable` does
        self.sampler.check_size(num_samples)
        self.num_samples = None if num_samples is None else int(num_samples)
        self._agree_on_items()
        self.remove_accidental_hits = remove_accidental_hits
        self.shared_samples = shared_samples
        self._check_use()
        self.seed = seed
        self.synchronized = synchronized
        self.random_state = RandomState(seed)
        # XLA has no sparse matrices, and its steps sample by sample took 1.7 times as long.
        self.supports_jit &= shared_samples and self.sampler.supports_jit

    @property
    def reads_previous_word(self) -> bool:
        """Whether the last units of the hidden states carry the word that was read last."""
        return self.sampler.units > 0

    def _agree_on_items(self):
        """What the sampler excludes is no item, and it draws nothing else that is none."""
        drawn = getattr(self.sampler, "extra", self.sampler)  # the words that join the labels
        may_be_drawn = set(self.not_items) - set(drawn.exclude)
        draws = drawn is self.sampler or self.num_samples is not None
        expect(
            not (may_be_drawn and draws), "not_items", "be among the words that the sampler "
            "excludes: give it by its name, or give a samplers.Excluding, to InBatch as `extra`",
            self.not_items,
        )
        self.not_items = tuple(sorted({*self.not_items, *self.sampler.exclude}))

    def _check_use(self, **options):
        """Raises ValueError if the sampler does not suit the options of the head, and these."""
        self.sampler.check_use(
            num_samples=self.num_samples, shared_samples=self.shared_samples,
            remove_accidental_hits=self.remove_accidental_hits, **options,
        )

    def build(self, hidden_shape):
        *leading, units = hidden_shape
        read = self.sampler.units
        if not read or units is None:
            return super().build(hidden_shape)
        expect(
            units > read, "hidden", f"have more than {read} units with sampler={self.sampler}: "
            "the last ones carry the word before",
            received=f"hidden of shape {tuple(hidden_shape)}",
        )
        super().build((*leading, units - read))
        self.input_spec.axes[-1] = units

    def _hits(self):
        """What happens to samples that equal a label: what the sampler states, unless asked for."""
        if self.remove_accidental_hits is None:
            return self.sampler.hits
        return Hits.REMOVE if self.remove_accidental_hits else Hits.KEEP

    def _sample(self, labels, num_samples, seed, *before):
        if self.shared_samples:
            return self.sampler.sample_of_step(labels, num_samples, seed, self.label_smoothing)
        return self.sampler.sample_for_each(labels, num_samples, seed, *before)

    def distribution(self):
        distribution = super().distribution()
        return without_previous_word(distribution) if self.reads_previous_word else distribution

    def objective(self):
        return NatsOf(self._nats)

    def _label_scores(self, hidden, labels):
        return super()._label_scores(self.sampler.split(hidden)[0], labels)

    def _sampled_loss(self, criterion, hidden, labels, corrected=True, certain=None):
        """Loss (N,) by a criterion, on a fresh sample that certain ids (C,) >= 0, if any, join."""
        seed = self.random_state.next(self.synchronized and self.shared_samples)
        hidden, before = self.sampler.split(hidden)
        candidates = self._sample(labels, self.num_samples, seed, *before)
        self.sampler.update(labels)
        unlabelled = labels < 0
        if in_replica():  # a position without a label borrows a word
            labels = tf.where(unlabelled, tf.reshape(candidates.ids, [-1])[0], labels)
        labels, is_certain = tf.maximum(labels, 0), None
        if certain is not None:
            if self.synchronized:
                certain = of_all_replicas(certain)
            certain = tf.boolean_mask(certain, certain >= 0)  # after the replicas: none may be left
            candidates, is_certain = with_certain(
                candidates, labels, certain, self.sampler.unbiased)
        given = criterion, hidden, self._compared_rows, labels, candidates, corrected, self._hits()
        if self.shared_samples:
            return sampled_loss(*given, is_certain)
        losses, scores = per_example_loss(*given)
        if before:
            ids = tf.concat([labels[:, None], candidates.ids], axis=1)
            self.sampler.observe(tf.where(unlabelled, -1, *before), ids, tf.nn.softmax(scores))
        return losses

    def _compared_rows(self, ids):
        """Rows (n, D) and biases (n,) of the scores that training compares; NCE takes off ln Z."""
        return self._rows_and_biases(ids, training=True)

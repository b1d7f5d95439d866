"""What heads that train on samples of the vocabulary share: the sampler and its options."""

from collections.abc import Mapping

import keras
import numpy as np
from numpy.typing import ArrayLike

from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.random_state import RandomState
from tfsoftmax.heads.shards import Shards
from tfsoftmax.ops.per_example import per_example_loss
from tfsoftmax.ops.sampled import Hits, sampled_loss
from tfsoftmax.samplers import Sampler, get_sampler


class SamplingHead(Shards, LinearHead):
    """A linear head whose training loss looks at each label and at S sampled words.

    One sample serves all positions of a step, drawn anew for each step. A step touches the rows
    of the labels and of the sampled words; its cost does not depend on V. Outside training the
    distribution is the exact softmax over all V words. A subclass writes `_training_loss`, as a
    criterion that it passes to `_sampled_loss`.

    Args:
        vocab_size: V, the number of words.
        num_samples: S, words drawn for each step. With `InBatch`, whose sample is the batch's
            labels, these are uniform words that join them, and None means no such words.
        sampler: proposal distribution: a name in `tfsoftmax.samplers.SAMPLERS`, a `Sampler`, or
            None for "unigram" with counts and "learned_unigram" without.
        counts: (V,) occurrences of the words, in the order of their ids, for the samplers that
            take them.
        sampler_options: arguments of a sampler that is given by name, such as `alpha` or `unique`.
        remove_accidental_hits: whether samples that equal a position's label are left out of
            that position's loss. None is what suits the loss: see the subclass.
        shared_samples: False draws S words for each position separately. A step then multiplies
            N S rows one by one, where a shared sample is one matrix: 25 samples for each position
            take longer than 1,280 shared ones (experiments/results/benchmarks).
        seed: seed of the samples.
        synchronized: whether all replicas of a strategy of `tf.distribute` train on one sample, as
            one process with the whole batch does. False draws a sample for each replica, so that
            the step of P replicas looks at up to P S words. Samples for each position, and those
            of a sampler with implementation="tf", are never the same on two replicas.
        **kwargs: arguments of `LinearHead` (use_bias, kernel_initializer, bias_initializer,
            tied_to), of `Shards` (shard) and of `keras.layers.Layer`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.NCE(1000, num_samples=50, sampler="log_uniform", seed=1)
        assert isinstance(head, tfsoftmax.heads.sampling.SamplingHead)
        sampled, exact = head.training_loss(hidden, labels), head.log_prob(hidden, labels)
    """

    vocabulary_options = ("counts",)

    def __init__(
        self, vocab_size: int, num_samples: int | None = 1280, sampler: str | Sampler | None = None,
        counts: ArrayLike | None = None, sampler_options: dict | None = None,
        remove_accidental_hits: bool | None = None, shared_samples: bool = True,
        seed: int | None = None, synchronized: bool = True, **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        if sampler is None:
            sampler = "learned_unigram" if counts is None else "unigram"
        if not isinstance(sampler_options, Mapping | None):
            raise ValueError(
                "`sampler_options` must be a dict of arguments of the sampler. "
                f"Received: sampler_options={sampler_options!r}"
            )
        self.sampler = get_sampler(sampler, self.vocab_size, counts, **(sampler_options or {}))
        self.sampler.check_size(num_samples)
        if self.sampler.unique and not shared_samples:
            raise ValueError(
                "`shared_samples` must be True for a sampler without replacement. "
                "Received: shared_samples=False, unique=True"
            )
        if self.sampler.implementation == "tf" and not shared_samples:
            raise ValueError(
                "`shared_samples` must be True for a sampler with implementation='tf'. "
                "Received: shared_samples=False"
            )
        self.num_samples = num_samples
        self.remove_accidental_hits = remove_accidental_hits
        if self.sampler.holds_labels and self._hits() == Hits.KEEP:
            raise ValueError(
                f"`remove_accidental_hits` must be True for {type(self).__name__} with a sampler "
                "that holds the labels themselves. "
                f"Received: remove_accidental_hits={remove_accidental_hits}"
            )
        self.shared_samples = shared_samples
        self.seed = seed
        self.synchronized = synchronized
        self.random_state = RandomState(seed)
        self.supports_jit = self.supports_jit and self.sampler.supports_jit

    def training_products(self, labels: ArrayLike) -> list[tuple[int, int, int]]:
        units, samples = self.input_spec.axes[-1], self.num_samples
        if not self.shared_samples:  # a product for each position costs as much as one of all
            return [(1, units, len(labels) * samples)]
        draws = [self.sampler.sample(labels, samples, (0, seed)).ids for seed in range(5)]
        words = np.mean([len(np.unique(ids)) for ids in draws])  # a row that is drawn twice is one
        return [(len(labels), units, round(words))]

    def _hits(self):
        return Hits.REMOVE if self.remove_accidental_hits else Hits.KEEP

    def _sample(self, *arguments):
        sampler = self.sampler
        return (sampler.sample if self.shared_samples else sampler.sample_for_each)(*arguments)

    def _sampled_loss(self, criterion, hidden, labels, corrected=True, shift=0.0):
        """Loss (N,) by a criterion, on a fresh sample; `shift` is added to all scores."""

        def rows_and_biases(ids):
            rows, biases = self._rows_and_biases(ids)
            return rows, biases + shift

        loss = sampled_loss if self.shared_samples else per_example_loss
        seed = self.random_state.next(self.synchronized and self.shared_samples)
        candidates = self._sample(labels, self.num_samples, seed)
        self.sampler.update(labels)
        return loss(
            criterion, hidden, rows_and_biases, labels, candidates, corrected, self._hits()
        )

    def get_config(self):
        return {
            **super().get_config(),
            "num_samples": self.num_samples,
            "sampler": keras.saving.serialize_keras_object(self.sampler),
            "remove_accidental_hits": self.remove_accidental_hits,
            "shared_samples": self.shared_samples,
            "seed": self.seed,
            "synchronized": self.synchronized,
        }

    @classmethod
    def from_config(cls, config):
        sampler = keras.saving.deserialize_keras_object(config["sampler"])
        return super().from_config({**config, "sampler": sampler})

"""What heads that train on samples of the vocabulary share: the sampler, the draw, the options."""

import keras

from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.random_state import RandomState
from tfsoftmax.ops.per_example import per_example_loss
from tfsoftmax.ops.sampled import Hits, sampled_loss
from tfsoftmax.samplers import get_sampler


class SamplingHead(LinearHead):
    """A linear head whose training loss looks at each label and at S sampled words.

    One sample serves all positions of a step, drawn anew for each step. A step touches the rows
    of the labels and of the sampled words; its cost does not depend on V. Outside training the
    distribution is the exact softmax over all V words.

    Args:
        vocab_size: V, the number of words.
        num_samples: S, words drawn for each step.
        sampler: proposal distribution: a name in `tfsoftmax.samplers.SAMPLERS`, a `Sampler`
            (`InBatch`, whose sample is the batch's labels, wants num_samples=None), or None for
            "unigram" where counts are given and "learned_unigram" where not.
        counts: (V,) occurrences of the words, in the order of their ids, for the samplers that
            take them.
        sampler_options: arguments of a sampler that is given by name, such as `alpha` or `unique`.
        remove_accidental_hits: whether samples that equal a position's label are left out of
            that position's loss. None is what each loss is meant with: see the subclass.
        shared_samples: False draws S words for each position apart. A step then multiplies N S
            rows one by one, where a shared sample is one matrix: 25 samples a position take
            longer than 1,280 shared ones (experiments/results/benchmarks).
        seed: of the samples.
        **kwargs: of `LinearHead` (use_bias, kernel_initializer, bias_initializer, tied_to) and
            `keras.layers.Layer`.
    """

    def __init__(
        self,
        vocab_size,
        num_samples=1280,
        sampler=None,
        counts=None,
        sampler_options=None,
        remove_accidental_hits=None,
        shared_samples=True,
        seed=None,
        **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        if sampler is None:
            sampler = "learned_unigram" if counts is None else "unigram"
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
        self.random_state = RandomState(seed)
        self.supports_jit = self.sampler.supports_jit

    @classmethod
    def for_vocabulary(cls, vocabulary, **options):
        return cls(len(vocabulary), **{"counts": vocabulary.counts, **options})

    def _hits(self):
        return Hits.REMOVE if self.remove_accidental_hits else Hits.KEEP

    def _sampled_loss(self, criterion, hidden, labels, bias, corrected=True):
        """Loss (N,) by a criterion, on a fresh sample; `bias` is a function of ids."""
        loss, sample = sampled_loss, self.sampler.sample
        if not self.shared_samples:
            loss, sample = per_example_loss, self.sampler.sample_for_each
        candidates = sample(labels, self.num_samples, self.random_state.next())
        self.sampler.update(labels)
        return loss(
            criterion, hidden, self._kernel(), bias, labels, candidates, corrected,
            self._hits(),
        )

    def get_config(self):
        return {
            **super().get_config(),
            "num_samples": self.num_samples,
            "sampler": keras.saving.serialize_keras_object(self.sampler),
            "remove_accidental_hits": self.remove_accidental_hits,
            "shared_samples": self.shared_samples,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        sampler = keras.saving.deserialize_keras_object(config["sampler"])
        return super().from_config({**config, "sampler": sampler})

"""Proposal distributions: which words to sample, and how often each was to be expected."""

from tfsoftmax.samplers.audit import Audit, audit_sampler
from tfsoftmax.samplers.base import Candidates, Sampler
from tfsoftmax.samplers.learned import Interpolated, LearnedUnigram
from tfsoftmax.samplers.distributions import LogUniform, Unigram, Uniform
from tfsoftmax.samplers.in_batch import InBatch
from tfsoftmax.samplers.target import TargetSampling, target_vocabularies

SAMPLERS = {
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "unigram": Unigram,
    "learned_unigram": LearnedUnigram,
    "interpolated": Interpolated,
}
_TAKE_COUNTS = (LogUniform, Unigram, Interpolated)

__all__ = [
    "SAMPLERS", "Audit", "Candidates", "InBatch", "Interpolated", "LearnedUnigram", "LogUniform",
    "Sampler", "TargetSampling", "Unigram", "Uniform", "audit_sampler", "get_sampler",
    "target_vocabularies",
]


def get_sampler(sampler, vocab_size, counts=None, **options):
    """A sampler by its name.

    Args:
        sampler: a key of `SAMPLERS`, or a `Sampler`, which is returned as it is.
        vocab_size: V.
        counts: (V,) occurrences of the words, for the samplers that take them.
        **options: of the sampler's class.

    Raises:
        ValueError: if the name is unknown, the counts are missing, or a given sampler is of
            another V or comes with options.
    """
    if isinstance(sampler, Sampler):
        if sampler.vocab_size != vocab_size or options:
            raise ValueError(
                f"`sampler` must be of {vocab_size} words and complete. "
                f"Received: {sampler.vocab_size} words, options {options}"
            )
        return sampler
    if sampler not in SAMPLERS:
        raise ValueError(
            f"`sampler` must be one of {sorted(SAMPLERS)}. Received: sampler={sampler!r}"
        )
    cls = SAMPLERS[sampler]
    if issubclass(cls, Unigram) and counts is None:
        raise ValueError(f"`counts` must be given for sampler={sampler!r}. Received: counts=None")
    if counts is not None and cls in _TAKE_COUNTS:
        options["counts"] = counts
    return cls(vocab_size, **options)

"""Proposal distributions: which words to sample, and how often to expect each of them."""

from tfsoftmax.samplers.after_word import Bigram
from tfsoftmax.samplers.audit import Audit, audit_sampler
from tfsoftmax.samplers.base import Candidates, Sampler
from tfsoftmax.samplers.distributions import LogUniform, Uniform, Unigram
from tfsoftmax.samplers.excluding import Excluding
from tfsoftmax.samplers.in_batch import InBatch
from tfsoftmax.samplers.learned import Interpolated, LearnedUnigram
from tfsoftmax.samplers.online_bigram import OnlineBigram
from tfsoftmax.samplers.target import TargetSampling, target_vocabularies
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.array_like import ArrayLike

SAMPLERS = {
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "unigram": Unigram,
    "learned_unigram": LearnedUnigram,
    "interpolated": Interpolated,
    "in_batch": InBatch,
    "bigram": Bigram,
    "online_bigram": OnlineBigram,
}
_TAKE_COUNTS = (LogUniform, Unigram, Interpolated, InBatch, OnlineBigram)
_NEED_COUNTS = (Unigram, InBatch)

__all__ = [
    "SAMPLERS", "Audit", "Bigram", "Candidates", "Excluding", "InBatch", "Interpolated",
    "LearnedUnigram", "LogUniform", "OnlineBigram", "Sampler", "TargetSampling", "Unigram",
    "Uniform", "audit_sampler", "get_sampler", "target_vocabularies",
]


def get_sampler(
    sampler: str | Sampler, vocab_size: int, counts: ArrayLike | None = None, /, **options
) -> Sampler:
    """Makes a sampler by its name.

    Args:
        sampler: a key of `SAMPLERS`, or a `Sampler`, which is returned as it is.
        vocab_size: V.
        counts: (V,) occurrences of the words, for the samplers that take them.
        **options: arguments of the sampler's class; `counts` among them overrides the argument.
            `exclude`, ids of words that are never drawn, makes an `Excluding` of it.

    Raises:
        ValueError: if the name is unknown, if the sampler needs counts or an n-gram model and
            there is none, or if a `Sampler` is given for another V or together with options.
    """
    if isinstance(sampler, Sampler):
        expect(
            sampler.vocab_size == vocab_size and not options, "sampler",
            f"be made for {vocab_size} words and take no more options",
            received=f"a sampler of {sampler.vocab_size} words, options={options}",
        )
        return sampler
    expect(sampler in SAMPLERS, "sampler", f"be one of {sorted(SAMPLERS)}", sampler)
    cls = SAMPLERS[sampler]
    if (exclude := options.pop("exclude", None)) is not None:
        counts = options.pop("counts", counts)
        exclude, counts = Excluding.without(cls, exclude, vocab_size, counts)
        others = get_sampler(sampler, vocab_size - len(exclude), counts, **options)
        return Excluding(vocab_size, exclude, others)
    needs = issubclass(cls, _NEED_COUNTS) and "counts" not in options
    expect(counts is not None or not needs, "counts", f"be given for sampler={sampler!r}")
    known = cls is not Bigram or options.get("ngram") is not None
    expect(known, "ngram", f"be given for sampler={sampler!r}")
    if counts is not None and cls in _TAKE_COUNTS:
        options = {"counts": counts, **options}
    return cls(vocab_size, **options)

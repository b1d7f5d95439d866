"""Proposal distributions: which words to sample, and how often to expect each of them."""

from tfsoftmax.samplers.after_word import Bigram
from tfsoftmax.samplers.audit import Audit, audit_sampler
from tfsoftmax.samplers.base import Candidates, Sampler
from tfsoftmax.samplers.by_name import SAMPLERS, get_sampler
from tfsoftmax.samplers.distributions import LogUniform, Uniform, Unigram
from tfsoftmax.samplers.excluding import Excluding
from tfsoftmax.samplers.in_batch import InBatch
from tfsoftmax.samplers.learned import Interpolated, LearnedUnigram
from tfsoftmax.samplers.online_bigram import OnlineBigram
from tfsoftmax.samplers.target import TargetSampling, target_vocabularies

__all__ = [
    "SAMPLERS", "Audit", "Bigram", "Candidates", "Excluding", "InBatch", "Interpolated",
    "LearnedUnigram", "LogUniform", "OnlineBigram", "Sampler", "TargetSampling", "Unigram",
    "Uniform", "audit_sampler", "get_sampler", "target_vocabularies",
]

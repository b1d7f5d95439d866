"""`HEADS`: the heads of the package that are distributions, by the names of commands."""

from tfsoftmax.heads import (
    NCE,
    AdaptiveSoftmax,
    BlackOut,
    CharCnnSoftmax,
    ClassSoftmax,
    DifferentiatedSoftmax,
    FullSoftmax,
    NarySoftmax,
    NegativeSampling,
    SampledSoftmax,
    SelfOrganisedSoftmax,
    ShardedSoftmax,
    Shortlist,
    TreeSoftmax,
    TwoLevelSoftmax,
)
from tfsoftmax.survey import (
    ClassNCE,
    ClassUnigram,
    SelfNormalisedSoftmax,
    SphericalSoftmax,
    TaylorSoftmax,
)

HEADS = {
    "full": FullSoftmax,
    "char_cnn": CharCnnSoftmax,
    "self_normalised": SelfNormalisedSoftmax,
    "spherical": SphericalSoftmax,
    "taylor": TaylorSoftmax,
    "sampled": SampledSoftmax,
    "nce": NCE,
    "negative": NegativeSampling,
    "blackout": BlackOut,
    "adaptive": AdaptiveSoftmax,
    "two_level": TwoLevelSoftmax,
    "differentiated": DifferentiatedSoftmax,
    "shortlist": Shortlist,
    "tree": TreeSoftmax,
    "class": ClassSoftmax,
    "class_unigram": ClassUnigram,
    "class_nce": ClassNCE,
    "nary": NarySoftmax,
    "self_organised": SelfOrganisedSoftmax,
    "sharded": ShardedSoftmax,
}

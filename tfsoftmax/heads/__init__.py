"""Output layers, one in each file. `HEADS` has all distributions, by the names of commands."""

from tfsoftmax.heads.adaptive import AdaptiveSoftmax
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.blackout import BlackOut
from tfsoftmax.heads.char_cnn import CharCnnSoftmax
from tfsoftmax.heads.class_based import ClassSoftmax
from tfsoftmax.heads.class_nce import ClassNCE
from tfsoftmax.heads.class_unigram import ClassUnigram
from tfsoftmax.heads.cubic import CubicScores
from tfsoftmax.heads.differentiated import DifferentiatedSoftmax
from tfsoftmax.heads.full import FullSoftmax
from tfsoftmax.heads.inference import LogProb, TopK
from tfsoftmax.heads.nary import NarySoftmax
from tfsoftmax.heads.nce import NCE
from tfsoftmax.heads.negative import NegativeSampling
from tfsoftmax.heads.sampled import SampledSoftmax
from tfsoftmax.heads.self_normalised import SelfNormalisedSoftmax
from tfsoftmax.heads.self_organised import SelfOrganisedSoftmax
from tfsoftmax.heads.sharded import ShardedSoftmax
from tfsoftmax.heads.shortlist import Shortlist
from tfsoftmax.heads.spherical import SphericalSoftmax
from tfsoftmax.heads.taylor import TaylorSoftmax
from tfsoftmax.heads.tree import TreeSoftmax
from tfsoftmax.heads.two_level import TwoLevelSoftmax

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

__all__ = [
    "AdaptiveSoftmax", "BlackOut", "CharCnnSoftmax", "ClassNCE", "ClassSoftmax", "ClassUnigram",
    "CubicScores", "DifferentiatedSoftmax", "FullSoftmax", "HEADS", "LogProb", "NCE",
    "NarySoftmax", "NegativeSampling", "SampledSoftmax", "SelfNormalisedSoftmax",
    "SelfOrganisedSoftmax", "ShardedSoftmax", "Shortlist", "SoftmaxHead", "SphericalSoftmax",
    "TaylorSoftmax", "TopK", "TreeSoftmax", "TwoLevelSoftmax",
]

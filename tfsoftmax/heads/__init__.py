"""Output layers, one in each file, on the contract in `base`; and what they share."""

from tfsoftmax.heads.adaptive import AdaptiveSoftmax
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.blackout import BlackOut
from tfsoftmax.heads.char_cnn import CharCnnSoftmax
from tfsoftmax.heads.class_based import ClassSoftmax
from tfsoftmax.heads.differentiated import DifferentiatedSoftmax
from tfsoftmax.heads.full import FullSoftmax
from tfsoftmax.heads.inference import LogProb, TopK
from tfsoftmax.heads.nary import NarySoftmax
from tfsoftmax.heads.nce import NCE
from tfsoftmax.heads.negative import NegativeSampling
from tfsoftmax.heads.sampled import SampledSoftmax
from tfsoftmax.heads.self_organised import SelfOrganisedSoftmax
from tfsoftmax.heads.sharded import ShardedSoftmax
from tfsoftmax.heads.shortlist import Shortlist
from tfsoftmax.heads.tree import TreeSoftmax
from tfsoftmax.heads.two_level import TwoLevelSoftmax

__all__ = [
    "AdaptiveSoftmax", "BlackOut", "CharCnnSoftmax", "ClassSoftmax", "DifferentiatedSoftmax",
    "FullSoftmax", "LogProb", "NCE", "NarySoftmax", "NegativeSampling", "SampledSoftmax",
    "SelfOrganisedSoftmax", "ShardedSoftmax", "Shortlist", "SoftmaxHead", "TopK", "TreeSoftmax",
    "TwoLevelSoftmax",
]

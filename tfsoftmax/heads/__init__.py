"""Output layers, one a file. `HEADS` names them for command lines."""

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.full import FullSoftmax

HEADS = {"full": FullSoftmax}

__all__ = ["HEADS", "FullSoftmax", "SoftmaxHead"]

"""The loss for `compile`, and how it finds the head that made the logits."""

from tfsoftmax.losses.softmax_loss import REDUCTIONS as REDUCTIONS
from tfsoftmax.losses.softmax_loss import SoftmaxLoss as SoftmaxLoss

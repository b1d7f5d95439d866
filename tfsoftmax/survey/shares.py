"""A softmax over classes, of whose probability each word has its share in all contexts."""

import dataclasses

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.weighting import weighted_sum


@dataclasses.dataclass(frozen=True)
class Shares(Distribution):
    """P(w | h) = P(class of w | h) · share of w.

    Attributes:
        classes: `Rows` over the C classes.
        class_of: (V,) int32.
        log_share: (V,) float32; the shares of a class add up to one.

    Example:
        from tfsoftmax.distributions.rows import Rows
        from tfsoftmax.survey.shares import Shares
        class_of, share = keras.ops.array([0, 0, 1]), keras.ops.array([0.2, 0.8, 1.0])
        words = Shares(Rows(keras.random.normal((2, 64))), class_of, keras.ops.log(share))
    """

    classes: Rows
    class_of: tf.Tensor
    log_share: tf.Tensor

    @property
    def vocab_size(self) -> int:
        return self.class_of.shape[0]

    def nats(self, hidden, labels):
        class_of, log_share = self._of(labels)
        return self.classes.nats(hidden, class_of) - log_share

    def weighted_nats(self, hidden, labels, weights):
        class_of, log_share = self._of(labels)
        total, nats = self.classes.weighted_nats(hidden, class_of, weights)
        return total - weighted_sum(log_share, weights), nats - log_share

    def logits(self, hidden):
        class_of, log_share = held((self.class_of, self.log_share))
        return tf.gather(self.classes.logits(hidden), class_of, axis=1) + log_share

    def _of(self, labels):
        return [tf.gather(table, labels) for table in held((self.class_of, self.log_share))]

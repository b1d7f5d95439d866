"""TensorFlow's candidate samplers with the interface of `Sampler`, for comparison.

They run on CPUs only, do not compile under XLA, and take no stateless seed. Without replacement
they draw until S words differ, and claim 1 - (1 - q)^tries as if the number of tries had been
fixed beforehand. That is too low by a few per cent where S is not small compared with V. One error
is corrected here: if the number of tries happens to be S, the operation treats the sample as one
with replacement and claims S q.
"""

import numpy as np
import tensorflow as tf

_CLOSE = 1e-4  # relative difference, far above the rounding of float32


def tf_candidates(sampler, labels, num_samples):
    """Draws a sample by the operation `sampler.tf_operation()`.

    Args:
        sampler: a `Sampler`.
        labels: (...) int32.
        num_samples: S.

    Returns:
        The three tensors of `Candidates`.
    """
    operation, options = sampler.tf_operation()
    true_classes = tf.reshape(tf.cast(labels, tf.int64), [-1, 1])
    ids, expected_labels, expected = operation(
        true_classes=true_classes, num_true=1, num_sampled=num_samples, unique=sampler.unique,
        range_max=sampler.vocab_size, **options,
    )
    ids = tf.cast(ids, tf.int32)
    expected_labels = tf.reshape(expected_labels, tf.shape(labels))
    if sampler.unique and sampler.tells_q:
        with_replacement = num_samples * tf.exp(sampler.log_q(ids))
        quirk = tf.reduce_all(tf.abs(expected - with_replacement) <= _CLOSE * with_replacement)
        expected = tf.where(quirk, _in_tries(sampler.log_q(ids), num_samples), expected)
        fixed = _in_tries(sampler.log_q(labels), num_samples)
        expected_labels = tf.where(quirk, fixed, expected_labels)
    return ids, tf.math.log(expected), tf.math.log(expected_labels)


def _in_tries(log_q, tries):
    """1 - (1 - q)^tries."""
    return -tf.math.expm1(np.float32(tries) * tf.math.log1p(-tf.exp(log_q)))

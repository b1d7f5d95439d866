"""TensorFlow's candidate samplers with the interface of `Sampler`, to compare ours with them.

They run on CPUs only, do not compile under XLA, and take no stateless seed. Without replacement
they draw until S words differ, and claim 1 - (1 - q)^tries as if the number of tries had been
fixed beforehand. That is too low by a few per cent where S is not small compared with V. One error
is corrected here: if the number of tries happens to be S, the operation treats the sample as one
with replacement and claims S q.
"""

import numpy as np
import tensorflow as tf

from tfsoftmax.samplers import LearnedUnigram, LogUniform, Sampler, Uniform, Unigram
from tfsoftmax.samplers.base import Candidates

_CLOSE = 1e-4  # relative difference, far above the rounding of float32


def _fixed_unigram(sampler):
    return {"unigrams": np.exp(sampler.log_q(tf.range(sampler.vocab_size)).numpy()).tolist()}


OPERATIONS = {  # class: the operation, and a function of the sampler to its arguments
    Uniform: (tf.random.uniform_candidate_sampler, lambda sampler: {}),
    LogUniform: (tf.random.log_uniform_candidate_sampler, lambda sampler: {}),
    Unigram: (tf.random.fixed_unigram_candidate_sampler, _fixed_unigram),
    LearnedUnigram: (tf.random.learned_unigram_candidate_sampler, lambda sampler: {}),
}


class TensorFlows(Sampler):
    """TensorFlow's sampler for the q of one of ours, which it does not tell if it learns it."""

    def __init__(self, sampler):
        super().__init__(sampler.vocab_size, sampler.unique)
        self.sampler = sampler
        operation, options = OPERATIONS[type(sampler)]
        self.operation, self.options = operation, options(sampler)

    def log_q(self, ids):
        return self.sampler.log_q(ids)

    def sample(self, labels, num_samples, seed):
        labels = self._checked(labels)
        true_classes = tf.reshape(tf.cast(labels, tf.int64), [-1, 1])
        ids, expected_labels, expected = self.operation(
            true_classes=true_classes, num_true=1, num_sampled=num_samples, unique=self.unique,
            range_max=self.vocab_size, **self.options,
        )
        ids = tf.cast(ids, tf.int32)
        expected_labels = tf.reshape(expected_labels, tf.shape(labels))
        if self.unique and not isinstance(self.sampler, LearnedUnigram):
            with_replacement = num_samples * tf.exp(self.log_q(ids))
            difference = tf.abs(expected - with_replacement)
            quirk = tf.reduce_all(difference <= _CLOSE * with_replacement)
            expected = tf.where(quirk, _in_tries(self.log_q(ids), num_samples), expected)
            fixed = _in_tries(self.log_q(labels), num_samples)
            expected_labels = tf.where(quirk, fixed, expected_labels)
        return Candidates(ids, tf.math.log(expected), tf.math.log(expected_labels))


def _in_tries(log_q, tries):
    """1 - (1 - q)^tries."""
    return -tf.math.expm1(np.float32(tries) * tf.math.log1p(-tf.exp(log_q)))

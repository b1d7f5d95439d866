"""What every proposal distribution shares: the draw, with or without replacement."""

import collections

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.samplers.poisson_race import poisson_race, tries_needed
from tfsoftmax.samplers.tf_candidates import tf_candidates

Candidates = collections.namedtuple("Candidates", "ids log_expected log_expected_labels")
IMPLEMENTATIONS = ("own", "tf")


class Sampler(keras.layers.Layer):
    """A proposal distribution q over V words, and samples from it. A head holds it as a sublayer.

    A subclass writes `log_q` and `_draw`; one with a state also `update`.

    Args:
        vocab_size: V, below 2^30.
        unique: whether all words of a sample differ (sampling without replacement).
        implementation: "own", plain TensorFlow operations for any device, with and without
            jit; or "tf", the candidate samplers of `tf.random`, for comparison: CPU, no jit,
            a random generator of their own (`tf.random.set_seed`), and under `unique` the
            expected count 1 - (1 - q)^tries, which is an approximation (see `tf_candidates`).
        **kwargs: of `keras.layers.Layer`.
    """

    tells_q = True  # whether `log_q` is known whatever the implementation
    holds_labels = False  # whether a sample holds each position's own label, once, undrawn

    def __init__(self, vocab_size, unique=False, implementation="own", **kwargs):
        super().__init__(**kwargs)
        if not isinstance(vocab_size, int) or not 1 <= vocab_size <= 1 << 30:
            raise ValueError(
                "`vocab_size` must be an integer from 1 to 2**30. "
                f"Received: vocab_size={vocab_size!r}"
            )
        if implementation not in IMPLEMENTATIONS:
            raise ValueError(
                f"`implementation` must be one of {IMPLEMENTATIONS}. "
                f"Received: implementation={implementation!r}"
            )
        self.vocab_size = vocab_size
        self.unique = bool(unique)
        self.implementation = implementation
        self.supports_jit = implementation != "tf"
        self._tries = {}
        self.built = True

    def sample(self, labels, num_samples, seed):
        """Draws words and states how often each was to be expected in this sample.

        Args:
            labels: (...) integers, the words whose expected counts are wanted too.
            num_samples: S, at most V if `unique`.
            seed: int, or (2,) integers; the same seed draws the same words on every device.

        Returns:
            ids: (S,) int32.
            log_expected: (S,) float32, ln of the expected count of each id: ln S q with
                replacement; without, ln of the exact probability of inclusion given what the
                other words did (see `race`).
            log_expected_labels: (...) float32, the same for the labels.

        Raises:
            ValueError: if num_samples is below 1, or above V for a sample without replacement.

        Source: Müller 2017, section 3.2. Departure: the claims without replacement are those
            of order sampling (Duffield, Lund, Thorup 2007) instead of 1 - (1 - q)^tries.
        """
        self.check_size(num_samples)
        labels = tf.cast(labels, tf.int32)
        if self.implementation == "tf":
            return Candidates(*tf_candidates(self, labels, num_samples))
        if self.unique:
            return self._sample_unique(labels, num_samples, _stateless(seed))
        ids = self._draw(num_samples, _stateless(seed))
        log_size = np.float32(np.log(num_samples))
        return Candidates(ids, self.log_q(ids) + log_size, self.log_q(labels) + log_size)

    def sample_for_each(self, labels, num_samples, seed):
        """Draws S words for each label apart, with replacement.

        Args:
            labels: (N,) integers.
            num_samples: S.
            seed: as in `sample`.

        Returns:
            `Candidates` with ids (N, S), log_expected (N, S) and log_expected_labels (N,).
        """
        labels = tf.cast(labels, tf.int32)
        ids = self._draw(tf.size(labels) * num_samples, _stateless(seed))
        ids = tf.reshape(ids, [-1, num_samples])
        log_size = np.float32(np.log(num_samples))
        return Candidates(ids, self.log_q(ids) + log_size, self.log_q(labels) + log_size)

    def log_q(self, ids):
        """Natural logarithm of the probability of each word: (...) float32 for ids (...)."""
        raise NotImplementedError

    def update(self, labels):
        """Moves the state, if there is one, by one training step with these labels (...)."""
        del labels

    def tf_operation(self):
        """The operation of `tf.random` that draws from q, and its keyword arguments."""
        raise NotImplementedError

    def _draw(self, count, seed):
        """Independent words (count,) int32 by a stateless seed (2,)."""
        raise NotImplementedError

    def _sample_unique(self, labels, num_samples, seed):
        ids, inside, outside = poisson_race(
            self._draw, lambda: self.log_q(tf.range(self.vocab_size)), self.vocab_size,
            num_samples, self._tries_for(num_samples), seed,
        )
        time = tf.where(_contains(ids, labels), inside, outside)
        log_expected_labels = _log_inclusion(self.log_q(labels), time)
        return Candidates(ids, _log_inclusion(self.log_q(ids), inside), log_expected_labels)

    def _tries_for(self, num_samples):
        if num_samples not in self._tries:
            with tf.init_scope():
                self._tries[num_samples] = tries_needed(self._typical_q(), num_samples)
        return self._tries[num_samples]

    def _typical_q(self):
        """(V,) float64, a distribution that needs no fewer draws for S different words."""
        return np.exp(self.log_q(tf.range(self.vocab_size)).numpy().astype(np.float64))

    def check_size(self, num_samples):
        """Raises ValueError for a sample of a size that cannot be drawn."""
        whole = isinstance(num_samples, int) and not isinstance(num_samples, bool)
        if not whole or num_samples < 1 or (self.unique and num_samples > self.vocab_size):
            bound = f" of at most {self.vocab_size}, as `unique` is set" * self.unique
            raise ValueError(
                f"`num_samples` must be a positive integer{bound}. "
                f"Received: num_samples={num_samples!r}"
            )

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "unique": self.unique,
            "implementation": self.implementation,
        }


def _stateless(seed):
    seed = tf.convert_to_tensor(seed)
    return tf.stack([seed, tf.zeros_like(seed)]) if seed.shape.rank == 0 else seed


def _contains(ids, labels):
    ordered = tf.sort(ids)
    flat = tf.reshape(labels, [-1])
    place = tf.minimum(tf.searchsorted(ordered, flat), ordered.shape[0] - 1)
    return tf.reshape(tf.gather(ordered, place) == flat, tf.shape(labels))


def _log_inclusion(log_q, time):
    """ln(1 - exp(-q t))."""
    return tf.math.log(-tf.math.expm1(-tf.exp(log_q) * time))

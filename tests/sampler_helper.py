"""Samplers with counts in no order, and what they claim."""

import numpy as np
import tensorflow as tf

from tfsoftmax.samplers import SAMPLERS, get_sampler
from tfsoftmax.samplers.base import Given, Sampler

LABELS = np.array([[3, 0, 7], [9, 3, 5]])
# "in_batch" draws no words from its q, and those after a word draw none for all positions.
NAMES = sorted(
    name for name, sampler in SAMPLERS.items()
    if not issubclass(sampler, Given) and not sampler.units
)


def zipf_counts(vocab_size, seed=0):
    """Counts in no order, with a word that was never seen."""
    counts = (1e5 / np.arange(1, vocab_size + 1)).astype(int)
    counts = np.random.default_rng(seed).permutation(counts)
    counts[3] = 0
    return counts


def make(name, vocab_size=10, **options):
    counts = zipf_counts(vocab_size)
    if name == "log_uniform":
        counts = None
    sampler = get_sampler(name, vocab_size, counts, **options)
    q = zipf_counts(vocab_size) / zipf_counts(vocab_size).sum()
    sampler.update(np.random.default_rng(1).choice(vocab_size, (7, 43), p=q))
    return sampler


def probabilities(sampler):
    return np.exp(sampler.log_q(tf.range(sampler.vocab_size)).numpy().astype(np.float64))


def q_after(sampler):
    """q(w | v) of a sampler after a word, float64 (V, V), and the same by `log_qs`."""
    words = np.arange(sampler.vocab_size)
    log_q = sampler.log_q(np.tile(words, (len(words), 1)), words[:, None])
    q = np.exp(log_q.numpy().astype(np.float64))
    np.testing.assert_allclose(np.exp(sampler.log_qs(tf.range(len(words)))), q, rtol=1e-5)
    return q


class After(Sampler):
    """A sampler after one word, for the audit."""

    def __init__(self, sampler, word):
        super().__init__(sampler.vocab_size)
        self.sampler, self.word = sampler, word

    def log_q(self, ids):
        return self.sampler.log_q(ids, tf.fill(tf.shape(ids), self.word))

    def _draw(self, count, seed):
        return self.sampler.sample_for_each([0], count, seed, [self.word]).ids[0]

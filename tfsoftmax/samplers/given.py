"""Samples that nothing draws: the labels of the batch, the words of a part of the stream."""

from tfsoftmax.samplers.base import Sampler


class Given(Sampler):
    """A sample that nothing draws: all positions share words that are there already.

    Args:
        vocab_size: V.
        **kwargs: arguments of `Sampler`.

    Example:
        sampler = tfsoftmax.samplers.InBatch(1000, counts=None)
        assert isinstance(sampler, tfsoftmax.samplers.given.Given)
        assert list(sampler.sample([3, 5], num_samples=None, seed=0).ids) == [3, 5]
    """

    decided_options = ("unique",)

    def sample_others(self, labels, num_samples, seed):
        return self.sample(labels, num_samples, seed)

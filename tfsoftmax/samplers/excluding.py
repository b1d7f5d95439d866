"""A sampler that never draws some words, around any other sampler."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.samplers.base import Candidates, Given, Sampler, contains
from tfsoftmax.support.arguments import ArrayLike, expect
from tfsoftmax.support.counts import checked_counts

NEVER = -1e4  # The logarithm of zero in any float, and finite: zero times a loss of it is zero.


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Excluding(Sampler):
    """Draws with another sampler from all words except the excluded ones.

    The words of `sampler` are the V - E others, in the order of their ids, and its q applies to
    them unchanged. `sampler_options={"exclude": ids}` of a head creates this sampler around one
    that is given by name, and leaves out the counts of the excluded words. Padding is an example of
    such words.

    A head gives excluded words the probability zero: their `log_q` and log-probabilities are about
    -1e4. As labels that count they are an error. A sampler that learns does not learn them.

    Args:
        vocab_size: V.
        exclude: E ids of words that are never drawn.
        sampler: a `Sampler` of V - E words.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `exclude` are not different ids in [0, V), fewer than V, or `sampler` has
            another number of words, takes the labels of the batch for its sample, reads the word
            before, or has vocabularies of its own. For in-batch negatives leave out such positions,
            by a weight of zero.

    Example:
        sampler = tfsoftmax.samplers.Excluding(1000, [0], tfsoftmax.samplers.LogUniform(999))
        head = tfsoftmax.SampledSoftmax(1000, 50, sampler)
        head = tfsoftmax.SampledSoftmax(  # the same
            1000, 50, "log_uniform", sampler_options={"exclude": [0]})
    """

    saved_options = ("exclude", "sampler")
    decided_options = ("unique",)

    def __init__(self, vocab_size: int, exclude: Sequence[int], sampler: Sampler, **kwargs):
        super().__init__(vocab_size, unique=sampler.unique, **kwargs)
        self.exclude, _ = self.without(type(sampler), exclude, self.vocab_size, None)
        left = self.vocab_size - len(self.exclude)
        expect(sampler.vocab_size == left, "sampler",
               f"be one of the {left} words that are not excluded",
               received=f"a sampler of {sampler.vocab_size} words")
        self.sampler = sampler
        if not self.trainable:
            sampler.trainable = False
        self.supports_jit = sampler.supports_jit

    @staticmethod
    def without(
        cls: type[Sampler], exclude: Sequence[int], vocab_size: int, counts: ArrayLike | None
    ) -> tuple[tuple[int, ...], np.ndarray | None]:
        """The checked ids, and the counts, if any, of the other words, for a sampler of a class."""
        _check_class(cls)
        ids = different_ids("exclude", exclude, vocab_size, least=1)
        return ids, None if counts is None else np.delete(checked_counts(counts, vocab_size), ids)

    def log_q(self, ids):
        return tf.where(self._is_excluded(ids), NEVER, self.sampler.log_q(self._places(ids)))

    def sample(self, labels, num_samples, seed):
        return self._drawn(self.sampler.sample, labels, num_samples, seed)

    def sample_others(self, labels, num_samples, seed):
        return self._drawn(self.sampler.sample_others, labels, num_samples, seed)

    def sample_for_each(self, labels, num_samples, seed):
        return self._drawn(self.sampler.sample_for_each, labels, num_samples, seed)

    def update(self, labels):
        labels = self._checked(labels, least=-1)
        self.sampler.update(tf.where(self._is_excluded(labels), -1, self._places(labels)))

    def check_use(self, **options):
        self.sampler.check_use(**options)

    def check_size(self, num_samples: int | None) -> None:
        """Raises ValueError if the sampler cannot draw samples of this size."""
        self.sampler.check_size(num_samples)

    def _draw(self, count, seed):
        return self._words(self.sampler._draw(count, seed))

    def _drawn(self, method, labels, num_samples, seed):
        labels = self._checked(labels)
        drawn = method(self._places(labels), num_samples, seed)
        of_labels = tf.where(self._is_excluded(labels), NEVER, drawn.log_expected_labels)
        return Candidates(self._words(drawn.ids), drawn.log_expected, of_labels)

    def _is_excluded(self, ids):
        return contains(tf.constant(self.exclude, tf.int32), ids)

    def _places(self, ids):
        """The numbers of words among those that are left; of an excluded one, of its neighbour."""
        ids = tf.cast(ids, tf.int32)
        before = _searched(self.exclude, ids, "left")
        return tf.clip_by_value(ids - before, tf.minimum(ids, 0), self.sampler.vocab_size - 1)

    def _words(self, places):
        return places + _searched(np.subtract(self.exclude, range(len(self.exclude))), places)


def _check_class(cls):
    expect(
        not (issubclass(cls, Given) or cls.units), "exclude", "be unset for a sampler that reads "
        "the word before, or takes its words from labels or from vocabularies of its own: leave "
        "out positions of such labels by a weight of zero", received=f"exclude with {cls.__name__}",
    )


def different_ids(
    name: str, ids: Sequence[int], vocab_size: int, least: int = 0
) -> tuple[int, ...]:
    """The ids in their order, or ValueError.

    Args:
        name: the name of the argument, for the message.
        ids: different ones in [0, V), `least` or more of them, but not all.
        vocab_size: V.
        least: the fewest ids that there may be.
    """
    found = np.asarray(ids)
    right = found.ndim == 1 and least <= found.size == len(np.unique(found)) < vocab_size
    if right and found.size:
        right = found.dtype.kind in "iu" and found.min() >= 0 and found.max() < vocab_size
    some = "some but " if least else ""
    expect(right, name, f"be different ids in [0, {vocab_size}), {some}not all of them", ids)
    return tuple(np.sort(found).tolist())


def _searched(ordered, values, side="right"):
    flat = tf.searchsorted(tf.constant(ordered, tf.int32), tf.reshape(values, [-1]), side)
    return tf.reshape(flat, tf.shape(values))

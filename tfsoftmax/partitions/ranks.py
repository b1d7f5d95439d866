"""From word ids to frequency ranks and back."""

import dataclasses
import functools

import numpy as np

from tfsoftmax.support.arguments import ArrayLike, refusal


@dataclasses.dataclass(frozen=True, eq=False)
class Ranks:
    """An order of the vocabulary.

    `rank`, `word` and `by_word` work on tensors and gather from one constant each, which is made
    when it is first needed. Where every word's id is its rank they return what they were given.

    Attributes:
        ids: (V,) int32, the word of each rank; rank 0 is the most frequent word.
        ranks: (V,) int32, the rank of each word, the inverse permutation.

    Example:
        order = tfsoftmax.partitions.ranks.frequency_ranks([5, 9, 0, 7])
        print(order.ids)            # [1 3 0 2]
        print(order.rank([0, 1]))   # tf.Tensor([2 0])
        print(order.word([0, 1]))   # tf.Tensor([1 3])
    """

    ids: np.ndarray
    ranks: np.ndarray

    @functools.cached_property
    def identity(self) -> bool:
        """Whether every word's id is its rank."""
        return bool(np.array_equal(self.ids, np.arange(len(self.ids))))

    def rank(self, words):
        """The ranks (...) of words (...), int32 tensors."""
        return words if self.identity else self._gather(self._held(1), words)

    def word(self, ranks):
        """The words (...) of ranks (...), int32 tensors."""
        return ranks if self.identity else self._gather(self._held(0), ranks)

    def by_word(self, by_rank):
        """Reorders the columns of a tensor (N, V) from the order of ranks to that of word ids."""
        return by_rank if self.identity else self._gather(by_rank, self._held(1), axis=1)

    @functools.cached_property
    def _tensors(self):
        import tensorflow as tf

        with tf.init_scope():  # outside the graph that asks first, as other graphs use them
            return tf.constant(self.ids), tf.constant(self.ranks)

    def _held(self, which):
        from tfsoftmax.ops.graphs import held

        return held(self._tensors[which])

    @staticmethod
    def _gather(values, index, axis=0):
        import tensorflow as tf  # imported late: commands that lay out words start without it

        return tf.gather(values, index, axis=axis)


def frequency_ranks(counts: ArrayLike) -> Ranks:
    """Words by falling count; words of one count keep the order of their ids.

    Args:
        counts: (V,) numbers, in the order of the word ids.
    """
    ids = np.argsort(-np.asarray(counts, np.float64), kind="stable")
    return permutation_ranks(ids)


def permutation_ranks(ids: ArrayLike, vocab_size: int | None = None) -> Ranks:
    """The order that a list of all words by falling frequency gives.

    Args:
        ids: (V,) integers, each of [0, V) once.
        vocab_size: V, or None for any number of words.

    Raises:
        ValueError: if `ids` is no permutation.
    """
    ids = np.asarray(ids)
    size = ids.size if vocab_size is None else vocab_size
    whole = ids.shape == (size,) and np.issubdtype(ids.dtype, np.integer)
    if not (whole and np.array_equal(np.sort(ids), np.arange(size))):
        found = np.array2string(ids, threshold=8, edgeitems=3)
        raise refusal("permutation", f"hold each word id from 0 to {size - 1} once",
                      received=f"{ids.dtype} of shape {ids.shape}, {found}")
    ids = ids.astype(np.int32)
    ranks = np.empty_like(ids)
    ranks[ids] = np.arange(size, dtype=np.int32)
    return Ranks(ids, ranks)

"""Words that get other ids: vocabularies that grow, and rows that are replaced or go."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.support._compat import layers_in, variables_of_its_own
from tfsoftmax.support.arguments import ArrayLike, array_of, expect

ROWS_AT_ONCE = 1 << 16  # of a variable that are copied


class Renumbering:
    """Which id each word of a vocabulary had in an earlier one, and what follows for weights.

    A layer that has more than weights with a row for each word, such as ids among its weights,
    writes `move_from(old, renumbering)`. `move` calls it.

    Args:
        before: (V',) integers, the earlier id of each word, or -1 for a new word.
        size: V, the number of words before.

    Attributes:
        row_variables: the earlier variables of which `move` copied rows.

    Raises:
        ValueError: if `before` are not different ids in [0, V) and -1, one or more.

    Example:
        renumbering = tfsoftmax.support.renumbering.Renumbering([2, 0, -1], size=3)
        print(renumbering.ids([0, 1, 2]))  # 1, -1 for the word that is gone, and 0
        print(renumbering.rows([5, 6, 7], fill=0))  # 7, 5, 0
    """

    def __init__(self, before: ArrayLike, size: int):
        rule = f"be ids in [0, {size}), none of them twice, or -1, one for each word"
        array = array_of("before", before, "iu", rule)
        right = array.ndim == 1 and array.size and array.min() >= -1 and array.max() < size
        kept = array[array >= 0] if right else array
        expect(right and len(np.unique(kept)) == len(kept), "before", rule, before)
        self.before, self.size = array.astype(np.int64), size  # a type that TensorFlow gathers by
        self.kept = np.flatnonzero(array >= 0)
        self.row_variables, self._moved = [], set()

    def __len__(self):
        return len(self.before)

    def rows(self, values: ArrayLike, fill: float) -> np.ndarray:
        """Values (V, ...) of the earlier words as values (V', ...), with `fill` for new words."""
        values = np.asarray(values)
        moved = np.full((len(self), *values.shape[1:]), fill, values.dtype)
        moved[self.kept] = values[self.before[self.kept]]
        return moved

    def ids(self, ids: ArrayLike) -> np.ndarray:
        """The new ids of words by their earlier ones; -1 for words that are gone, and for -1."""
        new = np.full(self.size + 1, -1, np.int32)
        new[self.before[self.kept]] = self.kept
        return new[np.asarray(ids)]

    def among(self, left_out_before: ArrayLike, left_out: ArrayLike) -> "Renumbering":
        """That of the words, numbered without those that are left out before and now."""
        kept_before = np.delete(np.arange(self.size), np.asarray(left_out_before, int))
        place = np.full(self.size + 1, -1)
        place[kept_before] = np.arange(len(kept_before))
        before = np.delete(self.before, np.asarray(left_out, int))
        return Renumbering(place[before], len(kept_before))

    def move(self, new: keras.layers.Layer, old: keras.layers.Layer) -> None:
        """Gives a layer the weights of an earlier one, and likewise to the layers that it has.

        Raises:
            ValueError: if the two, or layers that they have, differ in more than their words.
        """
        if id(new) in self._moved:
            return
        self._moved.add(id(new))
        if hasattr(new, "move_from"):
            new.move_from(old, self)
        else:
            self.move_weights(new, old)

    def move_weights(self, new: keras.layers.Layer, old: keras.layers.Layer) -> None:
        """What `move` does for a layer that has no `move_from`."""
        layers, earlier = layers_in(new), layers_in(old)
        variables, others = variables_of_its_own(new), variables_of_its_own(old)
        alike = type(new) is type(old) and len(layers) == len(earlier)
        expect(alike and len(variables) == len(others), "The models", "have the same layers, with "
               "other numbers of words", received=f"{new} with {len(variables)} weights and "
               f"{len(layers)} layers, and {old} with {len(others)} and {len(earlier)}")
        sized = _words(old) == self.size and _words(new) == len(self)
        for variable, other in zip(variables, others, strict=True):
            has_rows = sized and other.shape[:1] == (self.size,)
            (self.copy_rows if has_rows else self.copy)(variable, other)
        for layer, other in zip(layers, earlier, strict=True):
            self.move(layer, other)

    def copy(self, new: keras.Variable, old: keras.Variable) -> None:
        """Assigns a variable, or those rows of it that words had before if their number differs."""
        if new.shape == old.shape:
            new.assign(old.value)
        else:
            self.copy_rows(new, old)

    def copy_rows(self, new: keras.Variable, old: keras.Variable) -> None:
        """Assigns the rows that words had before. Those of new words stay as they are."""
        fits = tuple(new.shape) == (len(self), *old.shape[1:]) and old.shape[0] == self.size
        expect(fits, new.path, f"have the shape of {old.path}, with {len(self)} rows for "
               f"{self.size}", received=f"shapes {tuple(new.shape)} and {tuple(old.shape)}")
        self.row_variables.append(old)
        for start in range(0, len(self.kept), ROWS_AT_ONCE):
            places = self.kept[start : start + ROWS_AT_ONCE]
            rows = tf.gather(old.value, self.before[places])
            new.value.scatter_update(tf.IndexedSlices(rows, tf.constant(places)))


def _words(layer):
    return getattr(layer, "vocab_size", getattr(layer, "input_dim", None))

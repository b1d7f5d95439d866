"""Lays out pairs in batches of similar lengths, each of which is a record.

A record begins with the widths S and T, and goes on with (B, S) words of the sources and (B, T) of
the targets. `<eos>` ends each text, and -1 follows it up to the width. A pair of two empty texts,
all -1, fills the last batch.
"""

import collections
import os
from collections.abc import Mapping

import numpy as np

from tfsoftmax.corpora import tfrecord
from tfsoftmax.corpora.splits import PAD

SOURCE_WIDTHS, TARGET_WIDTHS = 6, 6  # so that batches have at most 36 shapes
_CHUNK_INTS = 1 << 24


def widths(lengths: Mapping[int, int], longest: int, count: int) -> np.ndarray:
    """Chooses the widths of batches so that the fewest places are left empty.

    Each text is padded to the smallest width that holds it. Widths between which equally many texts
    lie would leave more places empty, since few texts have most of the lengths.

    Args:
        lengths: mapping from a length to the number of training texts that have it.
        longest: the length of the longest text of all splits.
        count: the number of widths, at most.

    Returns:
        Increasing int64, the last of which is `longest`.
    """
    values = np.array(sorted({*lengths, longest}))
    up_to = np.cumsum([lengths.get(value, 0) for value in values.tolist()])
    places, choices = up_to * values, []  # of all texts up to each length, with one width
    for _ in range(min(count, len(values)) - 1):
        # With one more width: the last one, after the best choice for all texts up to the other.
        costs = [
            places[:last] + (up_to[last] - up_to[:last]) * values[last]
            for last in range(1, len(values))
        ]
        choices.append([0, *map(np.argmin, costs)])
        places = np.array([places[0], *map(np.min, costs)])
    ends = [len(values) - 1]
    for choice in reversed(choices):
        ends.append(choice[ends[-1]])
    return np.unique(values[ends])


def in_batches(
    source_lengths: np.ndarray, target_lengths: np.ndarray, source_widths: np.ndarray,
    target_widths: np.ndarray, batch_size: int, seed,
) -> tuple[np.ndarray, np.ndarray]:
    """Puts each pair into one batch, together with pairs of similar lengths.

    The pairs are shuffled, sorted by the width of their sources and then by the length of their
    targets, and cut into batches, which are shuffled. So no more than one batch has a place left.

    Args:
        source_lengths, target_lengths: int (N,).
        source_widths, target_widths: increasing int.
        batch_size: B.
        seed: one or several integers.

    Returns:
        int64 (R, B), the number of the pair at each place of each batch, -1 for none; and int64
        (R, 2), the widths S and T of each batch.
    """
    rng, count = np.random.default_rng(seed), len(source_lengths)
    order = rng.permutation(count)
    wide = np.searchsorted(source_widths, source_lengths[order])
    order = order[np.lexsort((target_lengths[order], wide))]
    batches = np.full((-(-count // batch_size), batch_size), -1)
    batches.reshape(-1)[:count] = order
    batches = batches[rng.permutation(len(batches))]
    shapes = [
        ends[np.searchsorted(ends, np.where(batches < 0, 0, lengths[batches]).max(1))]
        for ends, lengths in ((source_widths, source_lengths), (target_widths, target_lengths))
    ]
    return batches, np.stack(shapes, 1)


class EncodedTexts:
    """The ids of one side of the pairs, in a file.

    Args:
        path: the file to make.

    Example:
        import numpy as np
        from tfsoftmax.pairs.batches import EncodedTexts
        texts = EncodedTexts("ids")
        texts.add(np.array([5, 6, 0, 7, 0], np.int32), np.array([3, 2]))
        print(texts.rows(np.array([1, 0, -1]), width=4))
    """

    def __init__(self, path: str):
        self._path, self._lengths, self._ids = path, [np.zeros(0, np.int64)], None

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Appends texts, concatenated: int32 (sum of lengths,), int (texts,)."""
        with open(self._path, "ab") as file:
            file.write(np.asarray(ids, dtype="<i4").data)
        self._lengths.append(lengths)

    @property
    def lengths(self) -> np.ndarray:
        """The number of ids of each text, int64 (N,)."""
        self._lengths = [np.concatenate(self._lengths)]
        return self._lengths[0]

    def rows(self, numbers: np.ndarray, width: int) -> np.ndarray:
        """The ids of texts, padded with -1: int32 `numbers.shape + (width,)`; -1 is no text."""
        if self._ids is None:
            self._ids = np.memmap(self._path, dtype="<i4", mode="r")
            self._starts = np.cumsum(self.lengths) - self.lengths
        lengths = np.where(numbers < 0, 0, self.lengths[numbers])[..., np.newaxis]
        places = self._starts[numbers][..., np.newaxis] + np.arange(width)
        found = self._ids[np.minimum(places, len(self._ids) - 1)]
        return np.where(np.arange(width) < lengths, found, PAD).astype("<i4")

    def remove(self) -> None:
        """Removes the file."""
        self._ids = None
        os.remove(self._path)


def write_batches(writer, sources, targets, batches, shapes, written, source_written):
    """Writes the records of a split.

    Args:
        writer: a `RecordWriter`.
        sources, targets: `EncodedTexts`.
        batches, shapes: what `in_batches` returns.
        written, source_written: int64 (V,), to which the numbers of written words are added.
    """
    ints = batches.shape[1] * int(shapes.max(0).sum()) if len(shapes) else 1
    chunk = max(1, _CHUNK_INTS // ints)
    for start in range(0, len(batches), chunk):
        framed, groups = {}, collections.defaultdict(list)
        for index in range(start, min(start + chunk, len(batches))):
            groups[tuple(shapes[index].tolist())].append(index)
        for (source_width, target_width), group in groups.items():  # checksums take arrays
            source = sources.rows(batches[group], source_width)
            target = targets.rows(batches[group], target_width)
            for count, ids in ((source_written, source), (written, target)):
                count += np.bincount(ids[ids != PAD], minlength=len(count))
            head = np.tile(np.array([source_width, target_width], "<i4"), (len(group), 1))
            flat = [part.reshape(len(group), -1) for part in (head, source, target)]
            framed.update(zip(group, tfrecord.frame(np.concatenate(flat, axis=1))))
        writer.write_framed(framed[index] for index in sorted(framed))

"""The orders in which the sentences of a split reach its parallel streams."""

import os
from collections.abc import Iterator

import numpy as np

from tfsoftmax.corpora.shuffle import ExternalShuffle
from tfsoftmax.corpora.splits import PAD
from tfsoftmax.corpora.streams import Streams

_CHUNK_TOKENS = 4_000_000


class ShuffledOrder:
    """Shuffles the sentences and deals them to the streams.

    Args:
        directory: an existing folder for scratch files, which are removed after use.
        tokens: about how many tokens will be added.
        streams: B, the number of streams.
        time_steps: T, the number of words of each stream in a record.
        eos_id: the id that ends every sentence.
        seed: one or several integers.

    Example:
        import numpy as np
        from tfsoftmax.corpora.orders import ShuffledOrder
        order = ShuffledOrder(".", tokens=5, streams=2, time_steps=3, eos_id=0, seed=1)
        order.add(np.array([3, 4, 0, 5, 0], np.int32), np.array([3, 2]))
        print(list(order.records()))

    Source: Müller 2017, section 4.2.
    """

    def __init__(self, directory, tokens, streams, time_steps, eos_id, seed):
        self._shuffle = ExternalShuffle(directory, tokens, eos_id, seed)
        self._streams = Streams(streams, time_steps, eos_id)

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences, concatenated: int32 (sum of lengths,), int (sentences,)."""
        self._shuffle.add(ids, lengths)

    def records(self) -> Iterator[np.ndarray]:
        """Yields the records: int32 (R, B, T + 1), padded with -1 at the ends of the streams."""
        for ids, lengths in self._shuffle.drain():
            self._streams.deal(ids, lengths)
            yield self._streams.cut()
        yield self._streams.finish()


class TextOrder:
    """Gives each stream one contiguous part of the text, all parts of the same length.

    A recurrent state that is carried on then comes from the words before, across the ends of
    sentences too. A stream begins with the word before its part, and the first one with `<eos>`.
    A part may begin inside a sentence. The text lies in a file until it is cut into records.

    Args:
        directory, tokens, streams, time_steps, eos_id, seed: as for `ShuffledOrder`. This order
            uses neither `tokens` nor `seed`.

    Example:
        import numpy as np
        from tfsoftmax.corpora.orders import TextOrder
        order = TextOrder(".", tokens=5, streams=2, time_steps=3, eos_id=0, seed=1)
        order.add(np.array([3, 4, 0, 5, 0], np.int32), np.array([3, 2]))
        print(list(order.records()))

    Source: Mikolov et al. 2010 and the published results on Penn Treebank and WikiText.
    """

    def __init__(self, directory, tokens, streams, time_steps, eos_id, seed):
        self._streams, self._time_steps = streams, time_steps
        self._path = os.path.join(directory, "text")
        self._append(np.array([eos_id]))

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences, concatenated: int32 (sum of lengths,), int (sentences,)."""
        self._append(ids)

    def records(self) -> Iterator[np.ndarray]:
        """Yields the records: int32 (R, B, T + 1), padded with -1 at the ends of the streams."""
        ids = np.memmap(self._path, dtype="<i4", mode="r")
        length = -(-(len(ids) - 1) // self._streams)  # of a part
        starts = np.arange(self._streams)[:, np.newaxis] * length
        width = self._time_steps + 1
        size = max(1, _CHUNK_TOKENS // (self._streams * width)) * self._time_steps
        for begin in range(0, length, size):
            firsts = np.arange(begin, min(begin + size, length), self._time_steps)
            offsets = firsts[:, np.newaxis, np.newaxis] + np.arange(width)  # in each part
            places = starts + offsets
            inside = (offsets <= length) & (places < len(ids))
            yield np.where(inside, ids[np.minimum(places, len(ids) - 1)], PAD).astype("<i4")
        del ids
        os.remove(self._path)

    def _append(self, ids):
        with open(self._path, "ab") as file:
            file.write(np.asarray(ids, dtype="<i4").data)


ORDERS = {"shuffled": ShuffledOrder, "text": TextOrder}

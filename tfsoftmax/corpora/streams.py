"""Deals sentences to parallel streams and cuts the streams into records."""

import heapq

import numpy as np

from tfsoftmax.corpora.records import PAD


class Streams:
    """B parallel streams of ids, of which whole records leave as soon as all have them.

    The next sentence goes to the shortest stream, so that the streams end within one
    sentence of each other. The sentences arrive shuffled, so each stream is a random
    sample. Memory: the ids since the last record that was cut, not the corpus.

    Args:
        streams: number B of streams.
        steps: number T of steps in a record.
        eos_id: id of `<eos>`, with which each stream begins and each sentence ends.

    Source: Müller 2017, section 4.2. There each sentence goes to a random stream.
    """

    def __init__(self, streams, steps, eos_id):
        self._steps = steps
        self._heap = [(1, stream) for stream in range(streams)]
        self._rests = [np.array([eos_id], dtype=np.int32)] * streams

    def deal(self, ids, lengths):
        """Appends sentences, concatenated: int32 (sum of lengths,), int (sentences,)."""
        choice = np.fromiter(map(self._shortest, lengths.tolist()), np.int64, len(lengths))
        order = np.argsort(choice, kind="stable")
        ids = gather_sentences(ids, lengths, order)
        sizes = np.bincount(choice, weights=lengths, minlength=len(self._rests)).astype(np.int64)
        for stream, part in enumerate(np.split(ids, np.cumsum(sizes)[:-1])):
            self._rests[stream] = np.concatenate([self._rests[stream], part])

    def cut(self):
        """Removes and returns the records that all streams can fill: int32 (R, B, T + 1)."""
        return self._cut((min(map(len, self._rests)) - 1) // self._steps)

    def finish(self):
        """Removes and returns the rest, padded with -1: int32 (R, B, T + 1)."""
        count = -(-(max(map(len, self._rests)) - 1) // self._steps)
        size = count * self._steps + 1
        self._rests = [
            np.pad(rest, (0, size - len(rest)), constant_values=PAD) for rest in self._rests
        ]
        return self._cut(count)

    def _cut(self, count):
        records = np.empty((count, len(self._rests), self._steps + 1), dtype="<i4")
        if count == 0:
            return records
        size = count * self._steps
        for stream, rest in enumerate(self._rests):
            windows = np.lib.stride_tricks.sliding_window_view(rest[: size + 1], self._steps + 1)
            records[:, stream] = windows[:: self._steps]
            self._rests[stream] = rest[size:].copy()
        return records

    def _shortest(self, length):
        size, stream = self._heap[0]
        heapq.heapreplace(self._heap, (size + length, stream))
        return stream


def gather_sentences(ids, lengths, order):
    """Returns concatenated sentences in another order.

    Args:
        ids: int (sum of lengths,), the sentences one after another.
        lengths: int (N,).
        order: int (N,) or fewer: numbers of the sentences wanted.
    """
    starts = np.cumsum(lengths) - lengths
    taken = lengths[order]
    offsets = starts[order] - (np.cumsum(taken) - taken)
    return ids[np.repeat(offsets, taken) + np.arange(taken.sum())]

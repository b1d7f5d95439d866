"""Deals sentences to parallel streams and cuts the streams into records."""

import heapq

import numpy as np

from tfsoftmax.corpora.splits import PAD


class Streams:
    """Deals sentences to B parallel streams, and cuts off records that all streams can fill.

    Each sentence goes to the shortest stream, so that the lengths of the streams differ by one
    sentence at most. If the sentences arrive shuffled, each stream is a random sample. Memory
    holds the ids since the last record that was cut, not the corpus.

    Args:
        streams: B, the number of streams.
        time_steps: T, the number of words of each stream in a record.
        eos_id: the id of `<eos>`, with which each stream begins and each sentence ends.

    Example:
        import numpy as np
        from tfsoftmax.corpora.streams import Streams
        streams = Streams(2, time_steps=3, eos_id=0)
        streams.deal(np.array([3, 4, 5, 0, 6, 7, 0], np.int32), np.array([4, 3]))
        print(streams.finish())

    Source: Müller 2017, section 4.2. Departure: there each sentence goes to a random stream.
    """

    def __init__(self, streams: int, time_steps: int, eos_id: int):
        self._time_steps = time_steps
        self._heap = [(1, stream) for stream in range(streams)]
        self._rests = [np.array([eos_id], dtype=np.int32)] * streams

    def deal(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Appends sentences, concatenated: int32 (sum of lengths,), int (sentences,)."""
        chosen = np.fromiter(map(self._shortest, lengths.tolist()), np.int64, len(lengths))
        order = np.argsort(chosen, kind="stable")
        ids = gather_sentences(ids, lengths, order)
        sizes = np.bincount(chosen, weights=lengths, minlength=len(self._rests)).astype(np.int64)
        for stream, part in enumerate(np.split(ids, np.cumsum(sizes)[:-1])):
            self._rests[stream] = np.concatenate([self._rests[stream], part])

    def cut(self) -> np.ndarray:
        """Removes and returns the records that all streams can fill: int32 (R, B, T + 1)."""
        return self._cut((min(map(len, self._rests)) - 1) // self._time_steps)

    def finish(self) -> np.ndarray:
        """Removes and returns the rest, padded with -1: int32 (R, B, T + 1)."""
        count = -(-(max(map(len, self._rests)) - 1) // self._time_steps)
        size = count * self._time_steps + 1
        self._rests = [
            np.pad(rest, (0, size - len(rest)), constant_values=PAD) for rest in self._rests
        ]
        return self._cut(count)

    def _cut(self, count):
        records = np.empty((count, len(self._rests), self._time_steps + 1), dtype="<i4")
        if count == 0:
            return records
        size = count * self._time_steps
        width = self._time_steps + 1
        for stream, rest in enumerate(self._rests):
            windows = np.lib.stride_tricks.sliding_window_view(rest[: size + 1], width)
            records[:, stream] = windows[:: self._time_steps]
            self._rests[stream] = rest[size:].copy()
        return records

    def _shortest(self, length):
        size, stream = self._heap[0]
        heapq.heapreplace(self._heap, (size + length, stream))
        return stream


def gather_sentences(ids: np.ndarray, lengths: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Concatenates sentences in another order.

    Args:
        ids: int (sum of lengths,), the sentences one after another.
        lengths: int (N,), the number of ids of each sentence.
        order: int, the numbers of the sentences to take, at most N.
    """
    starts = np.cumsum(lengths) - lengths
    taken = lengths[order]
    offsets = starts[order] - (np.cumsum(taken) - taken)
    return ids[np.repeat(offsets, taken) + np.arange(taken.sum())]

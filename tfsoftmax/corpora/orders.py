"""The orders in which the sentences of a split reach its parallel streams."""

import os
from collections.abc import Iterator

import numpy as np

from tfsoftmax.corpora.splits import PAD
from tfsoftmax.corpora.streams import Streams, gather_sentences

_CHUNK_TOKENS = 4_000_000
BLOCK_TOKENS = 4_000_000  # that wait before all buckets are opened to take them
BUCKET_TOKENS = 4_000_000


class ExternalShuffle:
    """Shuffles sentences uniformly: writes each to a random bucket, then permutes each bucket.

    A bucket is a file that fits into memory, where it takes about 30 bytes a token while it is
    permuted. Random buckets and a uniform permutation of each make a uniform permutation of all.

    Args:
        directory: an existing folder for the bucket files.
        tokens: about how many tokens will be added.
        eos_id: the id that ends every sentence.
        seed: one or several integers.
        bucket_tokens: about how many tokens a bucket should hold.

    Example:
        import numpy as np
        from tfsoftmax.corpora.orders import ExternalShuffle
        shuffle = ExternalShuffle(".", tokens=5, eos_id=0, seed=1)
        shuffle.add(np.array([3, 4, 0, 5, 0], np.int32), np.array([3, 2]))
        print(list(shuffle.drain()))
    """

    def __init__(self, directory, tokens, eos_id, seed, bucket_tokens=BUCKET_TOKENS):
        self._rng = np.random.default_rng(seed)
        self._eos_id, self._waiting = eos_id, []
        count = -(-tokens // bucket_tokens)
        self._paths = [os.path.join(directory, f"bucket-{i:05d}") for i in range(count)]

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences, concatenated: int32 (sum of lengths,), int (sentences,)."""
        self._waiting.append((ids, lengths))
        if sum(len(ids) for ids, _ in self._waiting) >= BLOCK_TOKENS:
            self._distribute()

    def _distribute(self):
        """Appends the sentences that wait to their buckets: many at a time, as each is a file."""
        if not self._waiting:
            return
        ids, lengths = (np.concatenate(parts) for parts in zip(*self._waiting))
        self._waiting = []
        # One number for each sentence, so that the result does not depend on the block size.
        bucket = (self._rng.random(len(lengths)) * len(self._paths)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        ids = gather_sentences(ids, lengths, order)
        sizes = np.bincount(bucket, weights=lengths, minlength=len(self._paths)).astype(np.int64)
        for path, part in zip(self._paths, np.split(ids, np.cumsum(sizes)[:-1])):
            if len(part):
                _append(path, part)

    def drain(self):
        """Yields the shuffled sentences as `(ids, lengths)`, and removes the files."""
        self._distribute()
        for path in self._paths:
            if not os.path.exists(path):
                continue
            ids = np.fromfile(path, dtype="<i4")
            os.remove(path)
            ends = np.flatnonzero(ids == self._eos_id) + 1
            lengths = np.diff(ends, prepend=0)
            order = self._rng.permutation(len(lengths))
            yield gather_sentences(ids, lengths, order), lengths[order]


class ShuffledOrder(ExternalShuffle):
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
        super().__init__(directory, tokens, eos_id, seed)
        self._streams = Streams(streams, time_steps, eos_id)

    def records(self) -> Iterator[np.ndarray]:
        """Yields the records: int32 (R, B, T + 1), padded with -1 at the ends of the streams."""
        for ids, lengths in self.drain():
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
        _append(self._path, [eos_id])

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences, concatenated: int32 (sum of lengths,), int (sentences,)."""
        _append(self._path, ids)

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


def _append(path, ids):
    with open(path, "ab") as file:
        file.write(np.asarray(ids, dtype="<i4").data)


ORDERS = {"shuffled": ShuffledOrder, "text": TextOrder}

"""Shuffles more sentences than memory holds."""

import os

import numpy as np

from tfsoftmax.corpora.streams import gather_sentences

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
        from tfsoftmax.corpora.shuffle import ExternalShuffle
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
                with open(path, "ab") as file:
                    file.write(part.astype("<i4").data)

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

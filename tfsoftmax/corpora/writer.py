"""Writes the records of one split to TFRecord files of bounded size."""

import os

import numpy as np

from tfsoftmax.corpora import tfrecord
from tfsoftmax.corpora.records import RecordFile, sha256_of

SHARD_BYTES = 64 << 20
_CHUNK_BYTES = 8 << 20


class RecordWriter:
    """Appends records to `SPLIT-00000.tfrecord`, `SPLIT-00001.tfrecord`, ...

    Args:
        directory: an existing folder.
        split: the name of the split.
        record_ints: the number of int32 in a record.
        shard_bytes: the largest size of a file, unless one record alone is larger.

    Example:
        import numpy as np
        from tfsoftmax.corpora.writer import RecordWriter
        writer = RecordWriter(".", "train", record_ints=6)
        writer.write(np.zeros((10, 2, 3), np.int32))
        files = writer.close()
    """

    def __init__(self, directory, split, record_ints, shard_bytes=SHARD_BYTES):
        self._start = os.path.join(directory, split)
        self._width = record_ints
        self._record_bytes = tfrecord.framed_bytes(record_ints)
        self._shard_records = max(1, shard_bytes // self._record_bytes)
        self._file, self._paths, self._counts = None, [], []

    def write(self, records: np.ndarray) -> None:
        """Appends records: an int32 array whose first axis is that of the records."""
        rows = np.ascontiguousarray(records, dtype="<i4").reshape(-1, self._width)
        while len(rows):
            if self._file is None or self._counts[-1] == self._shard_records:
                self._open_next()
            chunk = max(1, _CHUNK_BYTES // self._record_bytes)
            count = min(len(rows), self._shard_records - self._counts[-1], chunk)
            self._file.write(tfrecord.frame(rows[:count]).data)
            self._counts[-1] += count
            rows = rows[count:]

    def close(self) -> tuple[RecordFile, ...]:
        """Closes the last file and returns a description of each file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        return tuple(map(self._describe, self._paths, self._counts))

    def _open_next(self):
        if self._file is not None:
            self._file.close()
        self._paths.append(f"{self._start}-{len(self._paths):05d}.tfrecord")
        self._counts.append(0)
        self._file = open(self._paths[-1], "wb")

    def _describe(self, path, records):
        stat = os.stat(path)
        digest = sha256_of(path, stat.st_size, stat.st_mtime_ns)
        return RecordFile(path, records, stat.st_size, digest)

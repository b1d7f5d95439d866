"""Writes the records of one split to TFRecord files of bounded size."""

import os
from collections.abc import Iterable

import numpy as np

from tfsoftmax.corpora import tfrecord
from tfsoftmax.corpora.splits import RecordFile

SHARD_BYTES = 64 << 20
_CHUNK_BYTES = 8 << 20


class RecordWriter:
    """Appends records to `SPLIT-00000.tfrecord`, `SPLIT-00001.tfrecord`, ...

    Args:
        directory: an existing folder.
        split: the name of the split.
        shard_bytes: the largest size of a file, unless one record alone is larger.

    Example:
        import numpy as np
        from tfsoftmax.corpora.writer import RecordWriter
        writer = RecordWriter(".", "train")
        writer.write(np.zeros((10, 2, 3), np.int32))
        files = writer.close()
    """

    def __init__(self, directory, split, shard_bytes=SHARD_BYTES):
        self._start = os.path.join(directory, split)
        self._shard_bytes = shard_bytes
        self._file, self._written, self._paths, self._counts = None, 0, [], []

    def write(self, records: np.ndarray) -> None:
        """Appends records: an int32 array whose first axis is that of the records."""
        if not len(records):
            return
        rows = np.ascontiguousarray(records, dtype="<i4").reshape(len(records), -1)
        chunk = max(1, _CHUNK_BYTES // tfrecord.framed_bytes(rows.shape[1]))
        for start in range(0, len(rows), chunk):
            self.write_framed(tfrecord.frame(rows[start : start + chunk]))

    def write_framed(self, records: Iterable[np.ndarray]) -> None:
        """Appends records of any lengths as `tfrecord.frame` makes them: uint32 arrays."""
        for record in records:
            if self._file is None or self._written + record.nbytes > self._shard_bytes:
                self._open_next()
            self._file.write(record.data)
            self._written += record.nbytes
            self._counts[-1] += 1

    def close(self) -> tuple[RecordFile, ...]:
        """Closes the last file and returns a description of each file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        return tuple(map(RecordFile.written, self._paths, self._counts))

    def _open_next(self):
        if self._file is not None:
            self._file.close()
        self._paths.append(f"{self._start}-{len(self._paths):05d}.tfrecord")
        self._counts.append(0)
        self._file, self._written = open(self._paths[-1], "wb"), 0


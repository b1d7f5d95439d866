"""Writes TFRecords, framed in NumPy, so that `prepare` need not load TensorFlow."""

import functools
import os
from collections.abc import Iterable

import numpy as np

from tfsoftmax.corpora.splits import RecordFile

_POLYNOMIAL = np.uint32(0x82F63B78)  # CRC-32C (Castagnoli), bit-reversed
HEADER_WORDS, FOOTER_WORDS = 3, 1
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
        from tfsoftmax.corpora.tfrecord import RecordWriter
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
        chunk = max(1, _CHUNK_BYTES // framed_bytes(rows.shape[1]))
        for start in range(0, len(rows), chunk):
            self.write_framed(frame(rows[start : start + chunk]))

    def write_framed(self, records: Iterable[np.ndarray]) -> None:
        """Appends records of any lengths as `frame` makes them: uint32 arrays."""
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


def frame(payloads: np.ndarray) -> np.ndarray:
    """Frames records of equal length as a TFRecord file stores them.

    Args:
        payloads: int32 (R, W), a record of W integers in each row.

    Returns:
        uint32 (R, 3 + W + 1), whose little-endian bytes are those of the file: the length
        (uint64), its checksum, the payload, its checksum.

    Source: TensorFlow, tsl/lib/io/record_writer.h.
    """
    count, width = payloads.shape
    framed = np.empty((count, HEADER_WORDS + width + FOOTER_WORDS), dtype="<u4")
    framed[:, 0] = 4 * width
    framed[:, 1] = 0
    framed[:, 2] = _masked_crc32c(framed[:1, :2])
    framed[:, HEADER_WORDS:-1] = payloads.view(np.uint32)
    framed[:, -1] = _masked_crc32c(framed[:, HEADER_WORDS:-1])
    return framed


def framed_bytes(width: int) -> int:
    """The number of bytes that a record of `width` int32 takes in a file."""
    return 4 * (HEADER_WORDS + width + FOOTER_WORDS)


def _masked_crc32c(words):
    """The masked CRC-32C of each row of uint32 (R, W): uint32 (R,)."""
    low, high = _tables()
    crc = np.full(len(words), 0xFFFFFFFF, dtype=np.uint32)
    for column in np.ascontiguousarray(words.T):
        crc ^= column
        crc = low[crc & np.uint32(0xFFFF)] ^ high[crc >> np.uint32(16)]
    crc = ~crc
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


@functools.cache
def _tables():
    """Maps each value of the register's low and of its high 16 bits to the result of 32 steps."""
    low = np.arange(1 << 16, dtype=np.uint32)
    high = low << np.uint32(16)
    for _ in range(32):
        low = (low >> np.uint32(1)) ^ (_POLYNOMIAL * (low & np.uint32(1)))
        high = (high >> np.uint32(1)) ^ (_POLYNOMIAL * (high & np.uint32(1)))
    return low, high

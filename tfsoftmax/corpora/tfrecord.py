"""Frames TFRecords in NumPy, so that `prepare` need not load TensorFlow."""

import functools

import numpy as np

_POLYNOMIAL = np.uint32(0x82F63B78)  # CRC-32C (Castagnoli), bit-reversed
HEADER_WORDS, FOOTER_WORDS = 3, 1


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

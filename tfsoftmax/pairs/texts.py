"""The pairs of a corpus as they were read, beside its records: `SPLIT-texts.tsv.gz`.

The records know only the words of the vocabulary. The texts keep the others, which a summary copies
from its source, and all references of ROUGE. A line is a source and its targets, with tabs between.
"""

import gzip
import os
from collections.abc import Iterable, Iterator

from tfsoftmax.corpora.splits import RecordFile
from tfsoftmax.corpora.text import LINE_BYTES
from tfsoftmax.pairs.corpus import TEXTS, PairCorpus
from tfsoftmax.support import textio


class TextWriter:
    """Writes the texts of a split.

    Args:
        directory: an existing folder.
        split: the name of the split.

    Example:
        from tfsoftmax.pairs.texts import TextWriter
        writer = TextWriter(".", "valid")
        writer.write("the cat sat on the mat", ["cat on mat", "a cat sits"])
        print(writer.close().records)
    """

    def __init__(self, directory: str, split: str):
        self._path, self._count = os.path.join(directory, split + TEXTS), 0
        self._raw = open(self._path, "wb")
        # Without a name and a time in it, the same texts make the same bytes.
        self._file = gzip.GzipFile("", "wb", 6, self._raw, mtime=0)

    def write(self, source: str, targets: Iterable[str]) -> None:
        """Appends a source with its targets."""
        self._file.write(("\t".join([source, *targets]) + "\n").encode("utf-8"))
        self._count += 1

    def close(self) -> RecordFile:
        """Closes the file and returns its description, with the number of sources as `records`."""
        self._file.close()
        self._raw.close()
        return RecordFile.written(self._path, self._count)


def texts(corpus: PairCorpus, split: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields each source of a split with its targets, in the order in which they were read.

    Those of train are the pairs of its records. The other splits also keep sources whose targets
    are too long for their records, so that all are summarised.

    Args:
        corpus: a corpus of pairs.
        split: the name of the split.

    Raises:
        ValueError: there is no such split, or its file is damaged.
    """
    file = corpus.split(split).texts
    file.verify()
    for _, line in textio.lines(file.path, 64 * LINE_BYTES):
        source, *targets = line.split("\t")
        yield source, tuple(targets)

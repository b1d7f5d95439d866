"""Reads pretrained word vectors: GloVe's files and the text format of word2vec and fastText."""

import array
import dataclasses
import os
import re

import numpy as np

from tfsoftmax.support import textio
from tfsoftmax.support.arguments import brief, expect, refusal
from tfsoftmax.support.progress import bar
from tfsoftmax.support.vocabulary import OTHER_SPELLINGS, Vocabulary

_HEADER = re.compile(rb"\d{1,15} \d{1,15}")
# The other spelling of each word that has two.
_SAME = {a.encode(): b.encode() for pair in OTHER_SPELLINGS.items() for a, b in (pair, pair[::-1])}


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary has a pretrained vector. `<unk>` and `<eos>` count like any word.

    Attributes:
        types: the number of words in the vocabulary.
        types_covered: how many of them have a vector.
        tokens: how often the words occur in the training split, together.
        tokens_covered: how many of these occurrences are of a word that has a vector.

    Example:
        from tfsoftmax.lm.pretrained import load_embeddings
        vocabulary = tfsoftmax.Vocabulary(["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4])
        rows, vectors, coverage = load_embeddings("glove.txt", vocabulary, size=3)
        print(coverage)
    """

    types: int
    types_covered: int
    tokens: int
    tokens_covered: int

    def __str__(self):
        return (
            f"vectors for {self.types_covered:,} of {self.types:,} words "
            f"({self.types_covered / self.types:.1%}), which are {self.tokens_covered:,} of "
            f"{self.tokens:,} training tokens ({self.tokens_covered / max(self.tokens, 1):.1%})"
        )


def load_embeddings(
    path: str | os.PathLike, vocabulary: Vocabulary, size: int, progress: bool = True
) -> tuple[np.ndarray, np.ndarray, Coverage]:
    """Reads the vectors of the words of a vocabulary.

    Each line holds a word and its values, separated by blanks. A first line `count size` is
    taken for a word2vec header. Words must match exactly, including case; `<unk>` and `<eos>` may
    also be <UNK> and </s>. If a word occurs twice, its first vector counts. A word may contain
    blanks if its last part is not a number. Only the vectors of the vocabulary's words are parsed
    and kept in memory.

    Args:
        path: a text file, plain or compressed (.gz, .xz, .bz2), with lines of at most 1 MiB.
        vocabulary: the vocabulary of V words.
        size: D, the units of the embedding layer that the vectors are for.
        progress: whether to show a progress bar if the standard error stream is a terminal.

    Returns:
        rows: int32 (n,), the ids of the words that have a vector, in the order of the file.
        vectors: float32 (n, D).
        coverage: `Coverage`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the vectors do not have D values, no word of the vocabulary has one, a line
            is malformed (the message gives its number), or the file is damaged or has fewer
            lines than its header says.

    Source: Pennington et al. 2014 (GloVe); Mikolov et al. 2013 (word2vec).
    """
    path = os.fspath(path)
    ids = {word: index for index, word in enumerate(vocabulary.words)}
    names = {**{other: ids[word] for word, other in OTHER_SPELLINGS.items()}, **ids}
    unread = {name.encode("utf-8"): index for name, index in names.items()}
    rows, numbers, values = array.array("i"), array.array("q"), array.array("f")
    promised, number = None, 0
    for number, line in enumerate(_lines(path, progress), start=1):
        line = line.rstrip(b" \t\r\n")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
            promised = int(line.split()[0]) if _HEADER.fullmatch(line) else None
            _check_size(path, line, size)
            if promised is not None:
                continue
        word, fields = _parse(line, size, unread, f"{path}, line {number}")
        if (row := unread.get(word)) is not None:
            rows.append(row)
            for name in (word, _SAME.get(word)):
                if unread.get(name) == row:
                    del unread[name]
            numbers.append(number)
            _append(values, fields, f"{path}, line {number}")
    _check_length(path, number, promised)
    rows = np.array(rows, dtype=np.int32)
    expect(len(rows), f"{path}:", "hold words of the vocabulary",
           received=f"none of the vocabulary's {len(vocabulary):,} words, such as "
           f"{', '.join(map(repr, vocabulary.words[:5]))}")
    vectors = np.frombuffer(values, dtype=np.float32).reshape(len(rows), size)
    _check_finite(path, vectors, numbers)
    counts = vocabulary.counts
    coverage = Coverage(len(vocabulary), len(rows), int(counts.sum()), int(counts[rows].sum()))
    return rows, vectors, coverage


def apply_embeddings(layer, rows: np.ndarray, vectors: np.ndarray) -> None:
    """Assigns vectors to rows of a built embedding layer and leaves its other rows as they are.

    Args:
        layer: a `tfsoftmax.Embedding`, `ShardedEmbedding` or `keras.layers.Embedding` of shape
            (V, D).
        rows: int (n,) in [0, V).
        vectors: float (n, D).

    Raises:
        ValueError: the layer has no single table of vectors, or `vectors` has another shape.
    """
    expect(hasattr(layer, "embeddings"), "pretrained", "be given for an embedding layer with "
           "equally many units for every word, which adaptive softmax with tie_embeddings does not "
           "have", received=type(layer).__name__)
    shape = (len(rows), layer.output_dim)
    expect(np.shape(vectors) == shape, "vectors", f"have the shape {shape}",
           received=f"vectors of shape {np.shape(vectors)}")
    # Commands read word vectors' files without TensorFlow.
    from tfsoftmax.sharding.shards import Shard, sharded_words
    from tfsoftmax.sharding.weights import shards_of

    rows, vectors = np.asarray(rows, np.int32), np.asarray(vectors, layer.variable_dtype)
    table = layer.embeddings
    whole = [(Shard(0, 1, layer.input_dim), table.value)]
    for shard, part in shards_of(table) if sharded_words(table) else whole:
        held = (rows >= shard.first) & (rows < shard.first + shard.words)
        part.scatter_nd_update((rows[held] - shard.first)[:, None], vectors[held])


def _lines(path, progress):
    """Yields the lines as bytes, which, unlike str, end at "\\n" only."""
    size = os.path.getsize(path)
    with bar("pretrained vectors", size, "B", progress, unit_scale=True) as done:
        for _, block in textio.blocks(path, progress=lambda read: done.update(read - done.n)):
            yield from block.removesuffix(b"\n").split(b"\n")


def _check_size(path, first, size):
    fields = first.split()
    if _HEADER.fullmatch(first):
        found = int(fields[1])
    elif len(fields) == size + 1:
        found = size
    else:
        found = 0
        while found < len(fields) - 1 and _is_number(fields[-1 - found]):
            found += 1
    expect(found, f"{path}, line 1:", "be a word and the values of its vector",
           received=f"{brief(repr(first))}")
    expect(found == size, "embedding_units", f"be {found}, the size of the vectors in {path}", size)


def _parse(line, size, unread, where):
    """The word and its fields. For a word outside the vocabulary the fields may be None."""
    word, _, rest = line.partition(b" ")
    fields = None
    if word in unread or rest.count(b" ") != size - 1:
        parts = line.split()
        fields = parts[-size:]
        extra = parts[:-size]
        if not extra or (len(extra) > 1 and _is_number(extra[-1])):
            raise refusal(f"{where}:", f"be a word and {size} values",
                          received=f"{len(parts)} fields, {brief(repr(line))}")
        word = b" ".join(extra)
    try:
        word.decode("utf-8")
    except UnicodeDecodeError:
        raise refusal(f"{where}:", "be UTF-8", received=f"{brief(repr(line))}") from None
    return word, fields


def _append(values, fields, where):
    try:
        values.extend(map(float, fields))
    except ValueError:
        wrong = next(field for field in fields if not _is_number(field))
        raise refusal(f"{where}:", "hold numbers", wrong) from None


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def _check_length(path, lines, promised):
    expect(lines, f"{path}:", "hold word vectors", received="an empty file")
    expect(promised is None or lines - 1 == promised, f"{path}:",
           f"hold as many vectors as its first line says, {promised}", received=f"{lines - 1}")


def _check_finite(path, vectors, numbers):
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        value = next(v for v in vectors[wrong[0]] if not np.isfinite(v))
        raise refusal(f"{path}, line {numbers[wrong[0]]}:", "hold finite values", value)

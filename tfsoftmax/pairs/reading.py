"""Reads pairs of texts from files, and sorts out those that nothing can be learned from."""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

from tfsoftmax.corpora.text import LINE_BYTES
from tfsoftmax.corpora.unmarked import CorpusMarks, place_of
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import refusal

_BLOCK_PAIRS = 4096


class TsvPairs:
    """The pairs of files that have a source, a tab and a target in each line.

    Args:
        paths: the files; .gz, .xz and .bz2 are decompressed.
        references: whether a line may have more than one target, with tabs between them.

    Raises:
        ValueError: during iteration, if a line has another number of columns, or a file is not
            UTF-8 or damaged. The message names the file and the line.

    Example:
        from tfsoftmax.pairs.reading import TsvPairs
        with open("pairs.tsv", "w") as file:
            print("the cat sat on the mat today\\tcat on mat", file=file)
        print(list(TsvPairs(["pairs.tsv"])))
    """

    def __init__(self, paths: Iterable[str], references: bool = False):
        self._paths, self._references = list(paths), references

    def __iter__(self) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
        return _blocks(self._pairs())

    def place(self, number: int) -> str:
        """Names the file and the line of the source with a number from 0 on."""
        return _place(self._paths, number)

    def _pairs(self):
        for path in self._paths:
            for where, line in textio.lines(path, LINE_BYTES):
                source, *targets = line.split("\t")
                if not line.strip():
                    targets = [""]
                if not targets or (len(targets) > 1 and not self._references):
                    wanted = "at least two" if self._references else "two"
                    raise refusal(f"{where}:", f"have {wanted} columns, a source and a target with "
                                  "a tab between them",
                                  received=f"{1 + len(targets)} in {line[:80]!r}")
                yield source, tuple(targets)


class FilePairs:
    """The pairs of files whose lines correspond to each other.

    Args:
        files: for each file of sources, its path and the paths of its targets. There is more than
            one if the sources have several references.
        name: what the caller calls the targets, for messages.

    Raises:
        ValueError: during iteration, if the files have different numbers of lines, or one is not
            UTF-8 or damaged.

    Example:
        from tfsoftmax.pairs.reading import FilePairs
        for block in FilePairs([("train.txt", ["train.txt"])]):
            print(block[:2])
    """

    def __init__(self, files: Iterable[tuple[str, Sequence[str]]], name: str = "the targets"):
        self._files, self._name = list(files), name

    def __iter__(self) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
        return _blocks(itertools.chain.from_iterable(itertools.starmap(self._pairs, self._files)))

    def place(self, number: int) -> str:
        """Names the file and the line of the source with a number from 0 on."""
        return _place((source for source, _ in self._files), number)

    def _pairs(self, source, targets):
        paths = (source, *targets)
        files = [textio.lines(path, LINE_BYTES) for path in paths]
        for number, lines in enumerate(itertools.zip_longest(*files)):
            if None in lines:
                ends = [
                    number + (line is not None) + sum(1 for _ in rest)
                    for line, rest in zip(lines, files)
                ]
                found = ", ".join(f"{end} in {path}" for end, path in zip(ends, paths))
                raise refusal(self._name, "have a line for each line of the sources",
                              received=found)
            yield lines[0][1], tuple(text for _, text in lines[1:])


def _place(paths, number):
    lines = itertools.chain.from_iterable(textio.lines(path, LINE_BYTES) for path in paths)
    return next(itertools.islice(lines, number, None))[0]


def _blocks(pairs):
    pairs = iter(pairs)
    while block := list(itertools.islice(pairs, _BLOCK_PAIRS)):
        yield block


@dataclasses.dataclass
class PairTally:
    """What a pass over the pairs of a split counted. A source with R targets makes R pairs.

    Attributes:
        sentences: the number of pairs that are kept.
        counts: how often each word occurs in the targets that are kept.
        source_counts: how often each word occurs in their sources.
        source_lengths, target_lengths: how many of them have each number of words, with `<eos>`.
        empty_pairs: how many pairs were left out because one side has no words.
        long_targets: how many pairs were left out because the target has too many words.
        cut_sources: how many sources were cut, of the pairs that are kept.
        marks: reads the texts, and knows what it left out of them or changed.

    Example:
        from tfsoftmax.pairs.reading import PairTally, examples
        tally = PairTally()
        pairs = [("the cat sat", ("cat",)), ("", ("dog",))]
        print(list(examples([pairs], "train", 2, 30, tally)))
        print(tally.sentences, tally.cut_sources, tally.empty_pairs)
    """

    sentences: int = 0
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    source_counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    source_lengths: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    target_lengths: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    empty_pairs: int = 0
    long_targets: int = 0
    cut_sources: int = 0
    marks: CorpusMarks = dataclasses.field(default_factory=CorpusMarks)

    @property
    def source_words(self) -> int:
        """The number of words in the sources that are kept, without `<eos>`."""
        return _total(self.source_lengths) - self.sentences

    @property
    def words(self) -> int:
        """The number of words in the targets that are kept, without `<eos>`."""
        return _total(self.target_lengths) - self.sentences

    def add(self, source: list[str], target: list[str]) -> None:
        """Counts a pair that is kept."""
        self.sentences += 1
        self.counts.update(target)
        self.source_counts.update(source)
        self.source_lengths[len(source) + 1] += 1
        self.target_lengths[len(target) + 1] += 1


def examples(
    blocks: Iterable, split: str, max_source: int, max_target: int, tally: PairTally
) -> Iterator[list[tuple]]:
    """Yields what is kept of each block of pairs.

    Args:
        blocks: lists of `(source, targets)`: str, and a tuple of str.
        split: the name of the split, for messages.
        max_source: how many words of a source to keep.
        max_target: pairs with longer targets are left out.
        tally: the `PairTally` to count in.

    Yields:
        For each source that has words, and a target that has words: `(source, targets, pairs)`,
        the texts with single blanks between their words, and for each target that is not too long
        a pair of lists of words.

    Raises:
        ValueError: a text has `<eos>`, or a mark of another program such as <s>, inside.
    """
    numbers = itertools.count()
    for block in blocks:
        kept = []
        for (source, targets), number in zip(block, numbers):
            place = functools.partial(place_of, blocks, split, number)
            sides = [tally.marks.line(text, place).split() for text in (source, *targets)]
            words, references = sides[0], [words for words in sides[1:] if words and sides[0]]
            tally.empty_pairs += len(targets) - len(references)
            short = [reference for reference in references if len(reference) <= max_target]
            tally.long_targets += len(references) - len(short)
            tally.cut_sources += len(short) if len(words) > max_source else 0
            pairs = [(words[:max_source], reference) for reference in short]
            for pair in pairs:
                tally.add(*pair)
            if references:
                kept.append((" ".join(words), tuple(map(" ".join, references)), pairs))
        yield kept


def _total(lengths):
    return sum(length * count for length, count in lengths.items())

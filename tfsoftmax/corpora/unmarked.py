"""The text of a split as prepare reads it: without the marks of other programs."""

import functools
from collections.abc import Callable, Iterable, Iterator

from tfsoftmax.support.marks import Marks
from tfsoftmax.support.vocabulary import UNK

UPPER_UNK = UNK.upper()


class CorpusMarks(Marks):
    """`Marks` of the lines of a corpus, in whose words <UNK> becomes <unk>.

    Args:
        are_text: whether both are text to a tokenizer of pieces, so that lines keep them.

    Example:
        from tfsoftmax.corpora.unmarked import CorpusMarks
        marks = CorpusMarks()
        print(marks.line("<s> the <UNK> </s>"), *marks.notes("train"))
    """

    def __init__(self, are_text: bool = False):
        super().__init__(are_text)
        self._upper = 0

    def line(self, line: str, where: Callable[[], str] | None = None) -> str:
        """A line without marks at its ends."""
        line = super().line(line, where)
        if self._are_text or UPPER_UNK not in line or UPPER_UNK not in (words := line.split()):
            return line
        self._upper += 1
        return " ".join(UNK if word == UPPER_UNK else word for word in words)

    def notes(self, name: str) -> Iterator[str]:
        """What was left out or changed in a named text, a sentence for each kind."""
        if report := self.report(name):
            yield report
        if self._upper:
            yield f"{name}: read {UPPER_UNK} as {UNK}, in {self._upper:,} of the sentences"


class Unmarked:
    """The blocks of a split as `CorpusMarks` reads them. A mark inside a sentence is refused.

    Args:
        blocks: lists of lines. If they have a method `place`, it names the line of a number.
        split: the name of the split, for messages.
        in_words: whether sentences are split into words; to a tokenizer of pieces, marks are text.

    Raises:
        ValueError: during iteration, if a mark is inside a sentence of words.

    Example:
        from tfsoftmax.corpora.unmarked import Unmarked
        blocks = Unmarked([["<s> the cat </s>", "a dog"]], "train", in_words=True)
        print(list(blocks), *blocks.notes())
    """

    def __init__(self, blocks: Iterable[list[str]], split: str, in_words: bool):
        self._blocks, self._split, self._in_words = blocks, split, in_words

    def __iter__(self) -> Iterator[list[str]]:
        self._marks, before = CorpusMarks(are_text=not self._in_words), 0
        for lines in self._blocks:
            yield [self._read(line, before + i) if ">" in line else line
                   for i, line in enumerate(lines)]
            before += len(lines)

    def notes(self) -> Iterator[str]:
        """What the last iteration left out or changed, a sentence for each kind."""
        for path in getattr(self._blocks, "without_words", ()):
            yield f"{path}: skipped, as it has no line with words"
        yield from self._marks.notes(self._split)

    def _read(self, line, number):
        place = functools.partial(place_of, self._blocks, self._split, number)
        return self._marks.line(line, place)


def place_of(blocks: Iterable, split: str, number: int) -> str:
    """Names the line with a number from 0 on, for messages: its file too, if the blocks know it."""
    place = getattr(blocks, "place", None)
    return place(number) if place else f"`{split}`, line {number + 1}"

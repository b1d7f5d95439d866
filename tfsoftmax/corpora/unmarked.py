"""The text of a split as prepare reads it: without the marks of other programs."""

import functools
from collections.abc import Iterable, Iterator

from tfsoftmax.support.marks import Marks
from tfsoftmax.support.vocabulary import UNK

UPPER_UNK = UNK.upper()


class Unmarked:
    """The blocks of a split, without marks such as <s> and </s> at the ends of its sentences.

    In words, <UNK> becomes <unk>, and a mark inside a sentence is refused. To a tokenizer of pieces
    all of them are text, which is kept.

    Args:
        blocks: lists of lines. If they have a method `place`, it names the line of a number.
        split: the name of the split, for messages.
        in_words: whether sentences are split into words.

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
        self._marks, self._upper, before = Marks(are_text=not self._in_words), 0, 0
        for lines in self._blocks:
            yield [self._read(line, before + i) if ">" in line else line
                   for i, line in enumerate(lines)]
            before += len(lines)

    def notes(self) -> Iterator[str]:
        """What the last iteration left out or changed, a sentence for each kind."""
        for path in getattr(self._blocks, "without_words", ()):
            yield f"{path}: skipped, as it has no line with words"
        if report := self._marks.report(self._split):
            yield report
        if self._upper:
            yield f"{self._split}: read {UPPER_UNK} as {UNK}, in {self._upper:,} of the sentences"

    def _read(self, line, number):
        place = functools.partial(place_of, self._blocks, self._split, number)
        line = self._marks.line(line, place)
        if self._in_words and UPPER_UNK in line and UPPER_UNK in (words := line.split()):
            self._upper += 1
            return " ".join(UNK if word == UPPER_UNK else word for word in words)
        return line


def place_of(blocks: Iterable, split: str, number: int) -> str:
    """Names the line with a number from 0 on, for messages: its file too, if the blocks know it."""
    place = getattr(blocks, "place", None)
    return place(number) if place else f"`{split}`, line {number + 1}"

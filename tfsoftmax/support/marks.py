"""The marks with which other programs begin and end sentences, and which are no words."""

from collections.abc import Callable, Sequence

from tfsoftmax.support.arguments import refusal

_NAMES = ("<s>", "</s>", "<sos>", "<bos>", "<eos>", "<sos/eos>")
MARKS = frozenset(_NAMES) | frozenset(map(str.upper, _NAMES))


class Marks:
    """Leaves marks at the ends of sentences out, and counts the sentences that had some.

    `<eos>` ends each sentence by itself, so a mark that is kept would be a word that is easy to
    predict. Inside a sentence marks are refused, since they divide what must be several lines.

    Args:
        are_text: whether marks are text to a tokenizer of pieces, so that lines keep them.

    Example:
        from tfsoftmax.support.marks import Marks
        marks = Marks()
        print(marks.words(["<s>", "the", "cat", "</s>"]))  # ['the', 'cat']
        print(marks.report("a.txt"))
    """

    def __init__(self, are_text: bool = False):
        self.sentences, self._are_text, self._names = 0, are_text, {}

    def words(self, words: Sequence[str], where: Callable[[], str] | None = None) -> Sequence[str]:
        """The words of a sentence without the marks at its ends.

        Args:
            words: the words.
            where: a function that names the place of the sentence, for the message; None to keep
                marks inside.

        Raises:
            ValueError: a mark is inside the sentence.
        """
        if MARKS.isdisjoint(words):
            return words
        others = [i for i, word in enumerate(words) if word not in MARKS]
        first, last = (others[0], others[-1] + 1) if others else (len(words), len(words))
        kept = words[first:last]
        if where is not None and not MARKS.isdisjoint(kept):
            found = next(word for word in kept if word in MARKS)
            raise refusal(f"{where()}:", f"not contain {found} inside a sentence. At its ends such "
                          "marks are left out, because <eos> is added to each sentence",
                          ' '.join(words)[:200])
        self.sentences += len(kept) < len(words)
        self._names |= dict.fromkeys([*words[:first], *words[last:]])
        return kept

    def line(self, line: str, where: Callable[[], str] | None = None) -> str:
        """The same of a line of text, whose blanks are kept."""
        if ">" not in line:
            return line
        words = line.split()
        kept = self.words(words, None if self._are_text else where)
        if self._are_text or len(kept) == len(words):
            return line
        if not kept:
            return ""
        first = words.index(kept[0])
        behind = len(words) - len(kept) - first
        return line.split(None, first)[first].rsplit(None, behind)[0]

    def report(self, name: str) -> str | None:
        """A sentence on the marks at the ends of a named text's sentences; None without any."""
        if not self.sentences:
            return None
        count = f"{self.sentences:,} sentence{'s' * (self.sentences != 1)}"
        where = f"{', '.join(self._names)} at the ends of {count}"
        if self._are_text:
            return f"{name}: kept {where}, because the tokenizer treats them as text"
        return f"{name}: left out {where}, because <eos> is added to each sentence"

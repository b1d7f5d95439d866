"""How the words of n-best lists and transcripts are read: without marks, and not in pieces."""

import re
from collections.abc import Sequence

from tfsoftmax.support.arguments import refusal
from tfsoftmax.support.marks import Marks

BEGIN, CONTINUED = "\u2581", "@@"  # of sentencepiece, and of subword-nmt


class Spelling:
    """Leaves marks such as <s> out at the ends of sentences, and joins pieces to words.

    Args:
        join_pieces: whether words that begin with ▁ or end in @@ are pieces, to be joined; None to
            refuse them.

    Attributes:
        marks: the `Marks` that were left out.

    Raises:
        ValueError: a mark is inside a sentence, or there are pieces and nothing says what they are.

    Example:
        from tfsoftmax.nbest.spelling import Spelling
        spelling = Spelling(join_pieces=True)
        print(spelling.words(["▁the", "▁ca", "t", "<sos/eos>"], "line 1"))  # ('the', 'cat')
    """

    def __init__(self, join_pieces: bool | None = None):
        self.marks, self._join_pieces = Marks(), join_pieces

    def words(self, words: Sequence, where: str) -> tuple:
        """The words of a sentence, whose place is for the message."""
        words = tuple(self.marks.words(words, lambda: where))
        if self._join_pieces is False or not any(map(_is_piece, words)):
            return words
        if self._join_pieces is None:
            raise refusal(f"{where}: words", f"not be pieces, which begin with {BEGIN} or end in "
                          f"{CONTINUED}; `join_pieces` joins them, and --nojoin_pieces keeps them",
                          ' '.join(map(str, words))[:200])
        if any(word.startswith(BEGIN) for word in words):
            return tuple("".join(words).replace(BEGIN, " ").split())
        return tuple(re.sub(f"{CONTINUED}( |$)", "", " ".join(words)).split())


def _is_piece(word):
    return isinstance(word, str) and (
        word.startswith(BEGIN) or (word.endswith(CONTINUED) and word != CONTINUED)
    )

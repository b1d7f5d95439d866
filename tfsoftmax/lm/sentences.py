"""Sentences to be scored: how many at a time, and how many of their words are unknown."""

from collections.abc import Iterable, Iterator, Sequence

from tfsoftmax.support.marks import Marks

WORDS = 1 << 19  # the most words of a window, unless one sentence has more
MUCH_OOV = 0.2  # the share of unknown words above which scores mean little


def windows(
    sentences: Iterable[Sequence[str]], most_sentences: int, most_words: int
) -> Iterator[list[Sequence[str]]]:
    """Yields consecutive sentences in lists that are not too large, or have one sentence."""
    window, words = [], 0
    for sentence in sentences:
        full = len(window) == most_sentences or words + len(sentence) > most_words
        if window and full:
            yield window
            window, words = [], 0
        window.append(sentence)
        words += len(sentence)
    if window:
        yield window


def unmarked(lines: Iterable[tuple[str, str]], marks: Marks) -> Iterator[str]:
    """Yields lines without marks such as <s>, as a corpus has them (`corpora.unmarked`).

    Args:
        lines: the place of each line, for messages, and the line.
        marks: leaves the marks out, or counts them only.

    Raises:
        ValueError: a mark is inside a line of words.
    """
    for where, line in lines:
        yield marks.line(line, lambda where=where: where)


def oov_report(name: str, words: int, oov: int) -> str:
    """Says how many of the words that are scored the vocabulary lacks, and warns if it is many."""
    rate = oov / max(1, words)
    report = f"{name}: {oov:,} of {words:,} words ({rate:.2%}) are not in the vocabulary"
    if rate <= MUCH_OOV:
        return report
    return f"warning: {report}. Results mean little then; check the case and the kind of the words"

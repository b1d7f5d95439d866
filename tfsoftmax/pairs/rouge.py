"""ROUGE, as the script ROUGE-1.5.5 computes it, with intervals."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tfsoftmax.pairs.stems import stem as stem_of
from tfsoftmax.support.arguments import check_at_least, expect
from tfsoftmax.support.resampling import Estimate, estimated_mean

TYPES = ("rouge1", "rouge2", "rougeL")
MEASURES = ("recall", "precision", "f1")
DUC_BYTES = 75


def rouge_scores(
    summaries: Sequence[str], references: Sequence[Sequence[str]], max_bytes: int | None = None,
    stem: bool = True,
) -> dict[str, np.ndarray]:
    """Computes ROUGE-1, ROUGE-2 and ROUGE-L of each summary.

    The results are those of the script ROUGE-1.5.5. Words are compared in lower case, and only the
    letters a to z and digits count. So `<unk>` counts as the word "unk", and a text in another
    script has no words.

    The matches of a summary with R references are summed, and so are the words of the references,
    before one is divided by the other. This is the formula of Lin 2004, equation 1, and the default
    of the script (-f A), with which DUC-2004 was evaluated.

    Args:
        summaries: N texts, each one sentence, as titles are.
        references: for each summary one or more texts.
        max_bytes: how many bytes count, of each summary and of each reference (-b); None for all.
            A word may be cut.
        stem: whether to compare the stems of words (-m), which `stems.stem` finds.

    Returns:
        Dictionary from "rouge1", "rouge2" and "rougeL" to float64 (N, 3): recall, precision and F1,
        in [0, 1].

    Raises:
        ValueError: there is no summary, or a summary has no reference.

    Source: Lin 2004.
    """
    expect(len(summaries) and len(summaries) == len(references), "references",
           "have a list for each summary, of which there is at least one",
           received=f"{len(references)} lists for {len(summaries)} summaries")
    found = {name: np.zeros((len(summaries), 3)) for name in TYPES}
    for row, (summary, texts) in enumerate(zip(summaries, references)):
        expect(not isinstance(texts, str) and len(texts), "references",
               "have a list of one or more texts for each summary",
               received=f"references[{row}]={texts!r}")
        said, *others = (_words(text, max_bytes, stem) for text in (summary, *texts))
        for name, matches, shorter in zip(
            TYPES, (_common_words, _common_bigrams, _longest_common_subsequence), (0, 1, 0)
        ):  # a text of W words has W - 1 bigrams
            sizes = [max(len(words) - shorter, 0) for words in (said, *others)]
            matching = sum(matches(said, words) for words in others)
            found[name][row] = _ratios(matching, sum(sizes[1:]), sizes[0] * len(others))
    return found


def rouge(
    summaries: Sequence[str], references: Sequence[Sequence[str]], measure: str = "f1",
    max_bytes: int | None = None, stem: bool = True, level: float = 0.95, resamples: int = 10_000,
    seed: int = 1,
) -> dict[str, Estimate]:
    """Averages ROUGE over summaries, in percent, with intervals.

    Shen et al. 2017 report `measure="f1"` on Gigaword, and on DUC-2004 `measure="recall"` with
    `max_bytes=DUC_BYTES`, 75.

    Args:
        summaries, references, max_bytes, stem: arguments of `rouge_scores`.
        measure: "f1", "recall" or "precision".
        level, resamples, seed: arguments of `resampling.estimated_mean`. Two systems with the same
            seed are compared on the same resamples.

    Returns:
        Dictionary from "rouge1", "rouge2" and "rougeL" to an `Estimate` in [0, 100].

    Raises:
        ValueError: as `rouge_scores`.
    """
    expect(measure in MEASURES, "measure", f"be one of {', '.join(MEASURES)}", measure)
    scores = rouge_scores(summaries, references, max_bytes, stem)
    column = MEASURES.index(measure)
    return {
        name: estimated_mean(100 * rows[:, column], level, resamples, seed)
        for name, rows in scores.items()
    }


def first_bytes(text: str, count: int | None) -> str:
    """The first bytes of a text in UTF-8, without a letter that is cut; all of it for None."""
    if count is None:
        return text
    check_at_least(1, max_bytes=count)
    return text.encode("utf-8")[:count].decode("utf-8", "ignore")


def _words(text, max_bytes, stem):
    words = [word.lower() for word in re.findall("[A-Za-z0-9]+", first_bytes(text, max_bytes))]
    return [stem_of(word) for word in words] if stem else words


def _common_words(one, other):
    return (Counter(one) & Counter(other)).total()


def _common_bigrams(one, other):
    return _common_words(zip(one, one[1:]), zip(other, other[1:]))


def _longest_common_subsequence(one, other):
    other, length = np.array(other, str), np.zeros(len(other) + 1, int)
    for word in one:
        longer = np.maximum(length[1:], length[:-1] + (other == word))
        length[1:] = np.maximum.accumulate(longer)
    return length[-1]


def _ratios(matches, in_references, in_summary):
    recall, precision = matches / max(in_references, 1), matches / max(in_summary, 1)
    return recall, precision, 2 * matches / max(in_references + in_summary, 1)

"""Classes of words for a softmax of two levels: which class each word belongs to."""

import bisect
import collections
import math
import os
from collections.abc import Sequence

import numpy as np

from tfsoftmax.partitions import code_files
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support.arguments import (
    ArrayLike,
    check_exists,
    check_positive,
    expect,
    is_whole,
    needed,
    refusal,
)
from tfsoftmax.support.counts import checked_counts

NAMES = ("equal", "frequency", "sqrt_frequency", "fastest")  # the classes that need no file
ClassesOption = ArrayLike | str | os.PathLike  # the class of each word, a name, or a file
BINNINGS = ("cumulative", "separate")


def equal_size(order: np.ndarray, num_classes: int) -> np.ndarray:
    """Classes whose sizes differ by at most one, of neighbours in `order`.

    Args:
        order: int (V,), the words.
        num_classes: C <= V.

    Returns:
        int (V,), the class of each word, 0 ... C-1.
    """
    _check_number(num_classes, len(order))
    result = np.empty(len(order), np.int64)
    result[order] = np.arange(len(order)) * num_classes // len(order)
    return result


def by_frequency(
    counts: ArrayLike, num_classes: int, power: float = 1.0, binning: str = "cumulative"
) -> np.ndarray:
    """Classes of about equal frequency, of words in falling order of their counts.

    Args:
        counts: (V,), occurrences of each word.
        num_classes: C, the most classes there can be. A word that is more frequent than a class
            should be has a class of its own, and then the last classes may be missing.
        power: 0.5 divides the square roots of the counts evenly, which makes the classes of
            rare words smaller.
        binning: "cumulative": class c ends with the word at which the share of all words so far
            exceeds (c + 1) / C, so that what one class has too much the next ones lack.
            "separate": a class ends with the word at which its own share exceeds 1 / C, so
            that there are at most C classes and often fewer.

    Returns:
        int (V,), the class of each word, 0 ... C-1.

    Source: Mikolov et al. 2011 (extensions of RNNLM), and the square root of the RNNLM toolkit
    and of Zweig and Makarychev 2013. "cumulative" is the toolkit's rule, and "separate" that of
    Müller 2017, section 2.2.2.1.
    """
    expect(binning in BINNINGS, "binning", f"be one of {BINNINGS}", binning)
    counts = checked_counts(counts).astype(np.float64)
    _check_number(num_classes, len(counts))
    order = np.argsort(-counts, kind="stable")
    mass = counts[order] ** power
    total = mass.sum()
    filled = np.minimum(np.cumsum(mass / total), 1.0)
    result, current, share = np.empty(len(counts), np.int64), 0, 0.0
    for word, of_word, upto in zip(order.tolist(), mass.tolist(), filled.tolist()):
        result[word] = current
        share += of_word
        separate = binning == "separate"
        full = share * num_classes > total if separate else upto > (current + 1) / num_classes
        if full and current < num_classes - 1:
            current, share = current + 1, 0.0
    return result


def fastest(counts: ArrayLike) -> np.ndarray:
    """The classes of which a position has the fewest scores to compute: C + Σ_c P(c) |c|.

    These are the C scores of the classes, and those of the words in the class of the label. Both
    the number of classes and where they end, in falling order of the counts, are optimal.

    Args:
        counts: (V,), occurrences of each word.

    Returns:
        int (V,), the class of each word, 0 ... C-1.

    Source: Zweig and Makarychev 2013 (speed-optimal classes, by dynamic programming).
    Departure: of the last class's possible starts, only those are kept that can still be best for
    a longer vocabulary, so that the search takes V ln V steps rather than V².
    """
    counts = checked_counts(counts).astype(np.float64)
    order = np.argsort(-counts, kind="stable")
    size = len(counts)
    share = [0.0, *np.cumsum(counts[order] / counts.sum()).tolist()]
    least, start_of = [0.0], [0]

    def cost(start, end):
        return least[start] + 1 + (share[end] - share[start]) * (end - start)

    # starts[i] is the best start of the last class for vocabularies of first[i] words and more. A
    # later start gains on an earlier one with every word, so that it takes over once and for all.
    starts, first = collections.deque([0]), collections.deque([1])
    for end in range(1, size + 1):
        while len(first) > 1 and first[1] <= end:
            starts.popleft()
            first.popleft()
        start_of.append(starts[0])
        least.append(cost(starts[0], end))
        if cost(end, size) >= cost(starts[-1], size):
            continue  # it never takes over

        def wins(length, end=end):
            return cost(end, length) < cost(starts[-1], length)

        while starts and wins(max(first[-1], end + 1)):
            starts.pop()
            first.pop()
        low = max(first[-1], end + 1) if starts else end + 1
        first.append(bisect.bisect_left(range(size), True, low, size, key=wins) if starts else low)
        starts.append(end)
    ends = [size]
    while ends[-1]:
        ends.append(start_of[ends[-1]])
    result = np.empty(size, np.int64)
    result[order] = np.searchsorted(ends[-2::-1], np.arange(size), side="right")
    return result


def from_codes(codes: Sequence[str], length: int | None = None) -> np.ndarray:
    """Classes of words whose codes begin alike.

    Args:
        codes: list of V str, such as the bit strings of a Brown clustering.
        length: number of characters that must be the same; None: the whole code.

    Returns:
        int (V,), the class of each word, in the order of the codes.
    """
    return np.unique([code[:length] for code in codes], return_inverse=True)[1]


def class_tree(classes: ArrayLike) -> Tree:
    """The tree of two levels: the classes below the root, their words below them.

    Args:
        classes: int (V,), the class of each word; every number up to the largest occurs.

    Returns:
        A `Tree` whose inner node c + 1 is class c.
    """
    classes = _without_gaps(np.asarray(classes), "classes")
    sizes = np.bincount(classes)
    words = np.concatenate([np.full(len(sizes), -1), np.argsort(classes, kind="stable")])
    return Tree(np.concatenate([[len(sizes)], sizes]), words)


def build(
    spec: ClassesOption, vocab_size: int, num_classes: int | None = None,
    counts: ArrayLike | None = None, words: Sequence[str] | None = None,
    binning: str = "cumulative", argument: str = "classes",
) -> np.ndarray:
    """The classes that a head's `classes` option means.

    Args:
        spec: int (V,), the class of each word; "equal" (neighbouring ids), "frequency",
            "sqrt_frequency", "fastest"; or the path of a file of codes, see
            `tfsoftmax.partitions.code_files`.
        vocab_size: V.
        num_classes: C; None: ceil(√V), or all classes of a file. Where a file has more than C,
            its codes are shortened until at most C different ones remain. "fastest" has as many
            as are fastest.
        counts: (V,) occurrences, for the frequencies.
        words: V str, for a file.
        binning: as in `by_frequency`, for the frequencies.
        argument: what the option is called in errors.

    Returns:
        int64 (V,).

    Raises:
        ValueError: what `spec` needs is not given, or it is no array of V classes without gaps.
        FileNotFoundError: `spec` is neither a name nor a file.

    Example:
        from tfsoftmax.partitions import classes
        word_classes = classes.build("sqrt_frequency", 6, num_classes=2, counts=[9, 5, 4, 3, 2, 1])
        print(word_classes)  # [0 0 0 1 1 1]
        head = tfsoftmax.ClassSoftmax(6, word_classes)
    """
    check_positive(vocab_size=vocab_size)
    if num_classes is not None:
        _check_number(num_classes, vocab_size)
    if counts is not None:
        counts = checked_counts(counts, vocab_size)
    number = math.isqrt(vocab_size - 1) + 1 if num_classes is None else num_classes
    if not isinstance(spec, (str, os.PathLike)):
        result = np.asarray(spec)
    elif spec == "equal":
        result = equal_size(np.arange(vocab_size), number)
    elif spec == "fastest":
        expect(num_classes is None, "num_classes",
               f"be unset for {argument}='fastest', which finds their number", num_classes)
        result = fastest(needed("counts", counts, argument, spec))
    elif spec in ("frequency", "sqrt_frequency"):
        power = 1.0 if spec == "frequency" else 0.5
        counts = needed("counts", counts, argument, spec)
        result = by_frequency(counts, number, power, binning)
    else:
        check_exists(argument, spec, NAMES)
        words = needed("words", words, argument, spec)
        result = _from_file(code_files.read_codes(spec, words), num_classes)
    rule = f"have one number for each word, shape ({vocab_size},)"
    expect(result.shape == (vocab_size,), argument, rule, received=f"shape {result.shape}")
    return _without_gaps(result, argument)


def _without_gaps(classes, argument):
    right = classes.ndim == 1 and len(classes) and np.issubdtype(classes.dtype, np.integer)
    expect(right, argument, "be integers (V,)", classes)
    # The first two conditions spare `bincount` numbers that it would count up to.
    if classes.min() < 0 or classes.max() >= len(classes) or not np.bincount(classes).all():
        found = f"{len(np.unique(classes))} classes from {classes.min()} to {classes.max()}"
        raise refusal(argument, "number the classes from 0 on without gaps", received=found)
    return classes


def _from_file(codes, num_classes):
    length = max(map(len, codes))
    while num_classes is not None and length > 1:
        if len({code[:length] for code in codes}) <= num_classes:
            break
        length -= 1
    return from_codes(codes, length)


def _check_number(num_classes, vocab_size):
    right = is_whole(num_classes) and 1 <= num_classes <= vocab_size
    expect(right, "num_classes", f"lie in [1, {vocab_size}]", num_classes)

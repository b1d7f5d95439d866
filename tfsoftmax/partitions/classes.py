"""Classes of words for a softmax of two levels: which class each word belongs to."""

import math
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tfsoftmax.arguments import check_positive, is_whole
from tfsoftmax.partitions import code_files
from tfsoftmax.partitions.counts import checked_counts
from tfsoftmax.partitions.tree import Tree

NAMES = ("equal", "frequency", "sqrt_frequency")  # the classes that need no file


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


def by_frequency(counts: ArrayLike, num_classes: int, power: float = 1.0) -> np.ndarray:
    """Classes of about equal frequency, of words in falling order of their counts.

    Args:
        counts: (V,), occurrences of each word.
        num_classes: the most classes there can be. A word that is more frequent than a class
            should be has a class of its own, and then the last classes may be missing.
        power: 0.5 divides the square roots of the counts evenly, which makes the classes of
            rare words smaller.

    Returns:
        int (V,), the class of each word, 0 ... C-1.

    Source: Mikolov et al. 2011 (extensions of RNNLM), and the square root of the RNNLM toolkit
    and of Zweig and Makarychev 2013. The boundaries are the toolkit's.
    """
    counts = checked_counts(counts).astype(np.float64)
    _check_number(num_classes, len(counts))
    order = np.argsort(-counts, kind="stable")
    mass = counts[order] ** power
    filled = np.minimum(np.cumsum(mass / mass.sum()), 1.0)
    result, current = np.empty(len(counts), np.int64), 0
    for word, share in zip(order.tolist(), filled.tolist()):
        result[word] = current
        if share > (current + 1) / num_classes and current < num_classes - 1:
            current += 1
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
    classes = np.asarray(classes)
    if classes.ndim != 1 or not len(classes) or not np.issubdtype(classes.dtype, np.integer):
        raise ValueError(f"`classes` must be integers (V,). Received: {classes!r}")
    if classes.min() < 0 or not np.bincount(classes).all():
        raise ValueError(
            "`classes` must number the classes from 0 on without gaps. Received: "
            f"{len(np.unique(classes))} classes from {classes.min()} to {classes.max()}"
        )
    sizes = np.bincount(classes)
    words = np.concatenate([np.full(len(sizes), -1), np.argsort(classes, kind="stable")])
    return Tree(np.concatenate([[len(sizes)], sizes]), words)


def build(
    spec: ArrayLike | str | os.PathLike, vocab_size: int, num_classes: int | None = None,
    counts: ArrayLike | None = None, words: Sequence[str] | None = None,
) -> np.ndarray:
    """The classes that a head's `classes` option means.

    Args:
        spec: int (V,), the class of each word; "equal" (neighbouring ids), "frequency",
            "sqrt_frequency"; or the path of a file of codes, see `tfsoftmax.partitions.code_files`.
        vocab_size: V.
        num_classes: C; None: ceil(√V), or all classes of a file. Where a file has more than C,
            its codes are shortened until at most C different ones remain.
        counts: (V,) occurrences, for the frequencies.
        words: V str, for a file.

    Returns:
        int64 (V,).

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
    elif spec in ("frequency", "sqrt_frequency"):
        power = 1.0 if spec == "frequency" else 0.5
        result = by_frequency(code_files.given(counts, "counts", "classes", spec), number, power)
    else:
        code_files.check_exists("classes", spec, NAMES)
        words = code_files.given(words, "words", "classes", spec)
        result = _from_file(code_files.read_codes(spec, words), num_classes)
    if result.shape != (vocab_size,):
        raise ValueError(
            f"`classes` must have one number for each word, shape ({vocab_size},). "
            f"Received: shape {result.shape}"
        )
    return result


def _from_file(codes, num_classes):
    length = max(map(len, codes))
    while num_classes is not None and length > 1:
        if len({code[:length] for code in codes}) <= num_classes:
            break
        length -= 1
    return from_codes(codes, length)


def _check_number(num_classes, vocab_size):
    if not is_whole(num_classes) or not 1 <= num_classes <= vocab_size:
        raise ValueError(
            f"`num_classes` must lie in [1, {vocab_size}]. "
            f"Received: num_classes={num_classes}"
        )

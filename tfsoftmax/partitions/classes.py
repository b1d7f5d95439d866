"""Classes of words for a softmax of two levels: which class each word belongs to."""

import math
import os

import numpy as np

from tfsoftmax.partitions import code_files
from tfsoftmax.partitions.tree import Tree


def equal_size(order, num_classes):
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


def by_frequency(counts, num_classes, power=1.0):
    """Classes of about equal frequency, of words in falling order of their counts.

    Args:
        counts: (V,), occurrences of each word.
        num_classes: the most classes there can be; words more frequent than a class should
            be have one for themselves, and the last classes may be left over.
        power: 0.5 shares out the square roots of the counts, which makes the classes of
            rare words smaller.

    Returns:
        int (V,), the class of each word, 0 ... C-1.

    Source: Mikolov et al. 2011 (extensions of RNNLM), and the square root of the RNNLM toolkit
    and of Zweig and Makarychev 2013. The boundaries are the toolkit's.
    """
    counts = np.asarray(counts, np.float64)
    _check_number(num_classes, len(counts))
    order = np.argsort(-counts, kind="stable")
    mass = np.maximum(counts[order], 1e-300) ** power
    filled = np.minimum(np.cumsum(mass / mass.sum()), 1.0)
    result, current = np.empty(len(counts), np.int64), 0
    for word, share in zip(order.tolist(), filled.tolist()):
        result[word] = current
        if share > (current + 1) / num_classes and current < num_classes - 1:
            current += 1
    return result


def from_codes(codes, length=None):
    """Classes of words whose codes begin alike.

    Args:
        codes: list of V str, such as the bit strings of a Brown clustering.
        length: so many characters; None: the whole code.

    Returns:
        int (V,), the class of each word, in the order of the codes.
    """
    return np.unique([code[:length] for code in codes], return_inverse=True)[1]


def class_tree(classes):
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


def build(spec, vocab_size, num_classes=None, counts=None, words=None):
    """The classes that a head's `classes` option means.

    Args:
        spec: int (V,), the class of each word; "equal" (neighbouring ids), "frequency",
            "sqrt_frequency"; or the path of a file of codes, see `tfsoftmax.partitions.code_files`.
        vocab_size: V.
        num_classes: C; None: ceil(√V), for a file all its classes. For a file that has
            more: the words are classed by so few characters of their codes that at most C
            classes remain.
        counts: (V,) occurrences, for the frequencies.
        words: V str, for a file.

    Returns:
        int64 (V,).
    """
    number = math.isqrt(vocab_size - 1) + 1 if num_classes is None else num_classes
    if not isinstance(spec, (str, os.PathLike)):
        result = np.asarray(spec)
    elif spec == "equal":
        result = equal_size(np.arange(vocab_size), number)
    elif spec in ("frequency", "sqrt_frequency"):
        power = 1.0 if spec == "frequency" else 0.5
        result = by_frequency(_given(counts, "counts", spec), number, power)
    else:
        code_files.check_exists("classes", spec, ("equal", "frequency", "sqrt_frequency"))
        result = _from_file(code_files.read_codes(spec, _given(words, "words", spec)), num_classes)
    if result.shape != (vocab_size,):
        raise ValueError(
            f"`classes` must have one number a word, shape ({vocab_size},). "
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


def _given(value, name, spec):
    if value is None:
        raise ValueError(f"`{name}` must be given for classes={str(spec)!r}. Received: {name}=None")
    return value


def _check_number(num_classes, vocab_size):
    if not 1 <= num_classes <= vocab_size:
        raise ValueError(
            f"`num_classes` must lie in [1, {vocab_size}]. Received: num_classes={num_classes}"
        )

"""Brown clustering: classes of words that tell as much as possible about neighbouring words.

Words fall into classes such that the average mutual information of neighbouring classes is as
large as a greedy search makes it. With n_cd the bigrams from class c to class d, l_c and r_c the
bigrams with class c first and second, T all bigrams, and h(x) = x ln x, it is

    AMI = [Σ_cd h(n_cd) - Σ_c h(l_c) - Σ_c h(r_c)] / T + ln T    nats.

1. *Merging.* The most frequent words have a class each; the next word is added as one more
   class, and the two classes whose merger costs least are merged, until all words are added. The
   words not yet added form one class, so that the sums always cover the whole corpus.
2. *Exchange.* Each word moves to the class where it raises AMI most; a few passes.
   A penalty on the scores that a class-based softmax computes, those of the words in the class of
   the label, makes the classes of frequent words smaller.
3. *Hierarchy.* The classes are merged two by two, down to one: the binary tree.

Source: Brown et al. 1992, section 3; Liang 2005, chapter 4, for the window; Martin et al. 1998
for the exchange; Zweig and Makarychev 2013 for the penalty. Departures: the class of
words not yet added; the exchange after the merging.
"""

import contextlib
import dataclasses
from collections.abc import Callable

import numpy as np

from tfsoftmax.ngrams.counts import Bigrams
from tfsoftmax.partitions.brown_window import Window, h, mutual_information
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support.arguments import check_at_least


@dataclasses.dataclass(frozen=True, eq=False)
class Clustering:
    """Brown classes of a vocabulary, and their binary tree.

    Attributes:
        classes: int (V,), the class of each word, 0 ... C-1.
        codes: list of C bit strings, the path to each class.
        information: average mutual information in nats after merging and after each pass.

    Example:
        from tfsoftmax.ngrams.counts import Bigrams
        from tfsoftmax.partitions import brown
        text = [0, 2, 0, 3, 1, 2, 1, 3] * 10
        bigrams = Bigrams.count([(text[:-1], text[1:])], vocab_size=4)
        print(brown.cluster(bigrams, num_classes=2).classes)  # 0 and 1 apart from 2 and 3
    """

    classes: np.ndarray
    codes: list[str]
    information: list[float]


def cluster(
    bigrams: Bigrams, num_classes: int = 1000, passes: int = 3, phase: Callable | None = None,
    speed_penalty: float = 0.0,
) -> Clustering:
    """Brown classes of a vocabulary, and their binary tree.

    Args:
        bigrams: `Bigrams`.
        num_classes: C, the size of the window; there are at most V classes.
        passes: the most passes of the exchange, which ends with the first that moves no word.
        phase: a function `phase(description, total, unit)` that returns a context manager, whose
            value is a function to be called with the number of units done; None reports nothing.
        speed_penalty: what the exchange subtracts from the mutual information, in nats, for each
            word in the class of an average token.

    Returns:
        A `Clustering`.
    """
    check_at_least(1, num_classes=num_classes)
    phase = phase or (lambda *_: contextlib.nullcontext(lambda done: None))
    order = np.argsort(-sum(bigrams.totals()), kind="stable")
    with phase("merging", len(order), "words") as done:
        classes = merged_classes(bigrams, order, num_classes, done)
    count = int(classes.max()) + 1
    information = [mutual_information(bigrams.between(classes, count))]
    for number in range(passes):
        with phase(f"exchange {number + 1}", len(order), "words") as done:
            moved = exchange(bigrams, order, classes, count, done, speed_penalty)
        information.append(mutual_information(bigrams.between(classes, count)))
        if not moved:
            break
    with phase("hierarchy", count - 1, "classes") as done:
        codes = hierarchy(bigrams.between(classes, count), done)
    return Clustering(classes, codes, information)


def merged_classes(bigrams, order, num_classes, done):
    """Classes of words, which come in the given order into a window of classes: int (V,)."""
    window = Window(min(num_classes + 1, len(order)), bigrams)
    for word in order:
        window.insert(word)
        if len(window.free) == 0 and window.size > num_classes:
            window.merge(*window.cheapest())
        done(1)
    return np.unique(window.slot_of, return_inverse=True)[1]


def hierarchy(counts, done):
    """Bit strings of the classes (C,), from merging them two by two by their counts (C, C)."""
    size = len(counts)
    if size == 1:
        return ["0"]
    window = Window(size)
    window.fill(counts)
    parents, nodes = [-1] * size, list(range(size))
    for _ in range(size - 1):
        a, b = window.merge(*window.cheapest())
        parents[nodes[a]] = parents[nodes[b]] = len(parents)
        nodes[a] = len(parents)
        parents.append(-1)
        done(1)
    words = np.full(len(parents), -1)
    words[:size] = np.arange(size)
    return ["".join(map(str, code)) for code in Tree.from_parents(parents, words).codes()]


def exchange(bigrams, order, classes, num_classes, done, speed_penalty=0.0):
    """Moves each word to the class where AMI is largest; a class keeps its last word.

    With a penalty, AMI - speed_penalty Σ_c l_c |c| / T is as large as possible.

    Args:
        bigrams: `Bigrams`.
        order: int (V,), the words in the order in which they are tried.
        classes: int (V,), changed in place.
        num_classes: C.
        done: called with the number of words done.
        speed_penalty: as in `cluster`.

    Returns:
        The number of words that moved.
    """
    counts = bigrams.between(classes, num_classes)
    first, second = counts.sum(1), counts.sum(0)
    totals, sizes, moved = bigrams.totals(), np.bincount(classes, minlength=num_classes), 0
    for word in order:
        done(1)
        old = classes[word]
        if sizes[old] == 1:
            continue
        rows = []
        for words, numbers in bigrams.row(word):
            own = numbers[words == word].sum()
            rows.append(np.bincount(classes[words], numbers, num_classes))
            rows[-1][old] -= own
        _add(counts, old, *rows, own, -1)
        first[old] -= totals[0][word]
        second[old] -= totals[1][word]
        gains = _insertion_gains(counts, *rows, own)
        gains -= h(first + totals[0][word]) - h(first) + h(second + totals[1][word]) - h(second)
        frequency, others = totals[0][word], sizes - (np.arange(num_classes) == old)
        gains -= speed_penalty * (first + frequency * (others + 1))
        best = int(gains.argmax())
        if gains[best] > gains[old] + 1e-6:
            classes[word] = best
            sizes[[old, best]] += [-1, 1]
            moved += 1
        new = classes[word]
        _add(counts, new, *rows, own, 1)
        first[new] += totals[0][word]
        second[new] += totals[1][word]
    return moved


def _add(counts, slot, after, before, own, sign):
    """Adds a word's bigrams to a class, or takes them out."""
    counts[slot] += sign * after
    counts[:, slot] += sign * before
    counts[slot, slot] += sign * own


def _insertion_gains(counts, after, before, own):
    """How much Σ h(n) grows with a word in each class: (C,)."""
    gains = np.zeros(len(counts))
    for table, row in ((counts, after), (counts.T, before)):
        e = np.flatnonzero(row)
        part = table[:, e]
        gains += (h(part + row[e]) - h(part)).sum(1)
    # The class's count with itself takes both rows at once, and the word's with itself.
    diagonal = counts.diagonal()
    gains -= h(diagonal + after) + h(diagonal + before) - h(diagonal)
    return gains + h(diagonal + after + before + own)

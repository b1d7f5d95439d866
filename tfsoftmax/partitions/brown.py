"""Brown clustering: classes of words that tell as much as possible about neighbouring words.

Words fall into classes such that the average mutual information of neighbouring classes is as
large as a greedy search makes it. With n_cd the bigrams from class c to class d, l_c and r_c the
bigrams with class c first and second, T all bigrams, and h(x) = x ln x, it is

    AMI = [Σ_cd h(n_cd) - Σ_c h(l_c) - Σ_c h(r_c)] / T + ln T    nats.

1. *Merging.* The most frequent words have a class each; the next word is added as one more
   class, and the two classes whose merger costs least are merged, until all words are added. The
   words not yet added form one class, so that the sums always cover the whole corpus.
2. *Exchange.* Each word moves to the class where it raises AMI most; a few passes.
3. *Hierarchy.* The classes are merged two by two, down to one: the binary tree.

A merger of a and b changes the sum of h by terms g(n_ae, n_be), g(x, y) = h(x+y) - h(x) - h(y),
which is zero where either count is. The table G(a, b) = Σ_e g(n_ae, n_be) + g(n_ea, n_eb) of all
pairs is kept up to date: a rare word, with few neighbours, changes few of its rows, so that a
step costs O(C k) for k neighbours, and the search for the least cost, O(C²), one subtraction.

Source: Brown et al. 1992, section 3; Liang 2005, chapter 4, for the window; Martin et al. 1998
for the exchange. Departures: the class of words not yet added; the exchange after the merging.
"""

import contextlib
import dataclasses
from collections.abc import Callable

import numpy as np

from tfsoftmax.partitions.mutual_information import g, h, mutual_information
from tfsoftmax.partitions.ngram_counts import Bigrams
from tfsoftmax.partitions.tree import Tree


@dataclasses.dataclass(frozen=True, eq=False)
class Clustering:
    """Brown classes of a vocabulary, and their binary tree.

    Attributes:
        classes: int (V,), the class of each word, 0 ... C-1.
        codes: list of C bit strings, the path to each class.
        information: average mutual information in nats after merging and after each pass.

    Example:
        from tfsoftmax.partitions import brown, ngram_counts
        text = [0, 2, 0, 3, 1, 2, 1, 3] * 10
        bigrams = ngram_counts.Bigrams.count([(text[:-1], text[1:])], vocab_size=4)
        print(brown.cluster(bigrams, num_classes=2).classes)  # 0 and 1 apart from 2 and 3
    """

    classes: np.ndarray
    codes: list[str]
    information: list[float]


def cluster(
    bigrams: Bigrams, num_classes: int = 1000, passes: int = 3, phase: Callable | None = None
) -> Clustering:
    """Brown classes of a vocabulary, and their binary tree.

    Args:
        bigrams: `Bigrams`.
        num_classes: C, the size of the window; there are at most V classes.
        passes: the most passes of the exchange, which ends with the first that moves no word.
        phase: a function `phase(description, total, unit)` that returns a context manager, whose
            value is a function to be called with the number of units done; None reports nothing.

    Returns:
        A `Clustering`.
    """
    if num_classes < 1:
        raise ValueError(f"`num_classes` must be positive. Received: num_classes={num_classes}")
    phase = phase or (lambda *_: contextlib.nullcontext(lambda done: None))
    order = np.argsort(-sum(bigrams.totals()), kind="stable")
    with phase("merging", len(order), "words") as done:
        classes = merged_classes(bigrams, order, num_classes, done)
    count = int(classes.max()) + 1
    information = [mutual_information(bigrams.between(classes, count))]
    for number in range(passes):
        with phase(f"exchange {number + 1}", len(order), "words") as done:
            moved = exchange(bigrams, order, classes, count, done)
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


class Window:
    """Classes in slots, and what it costs to merge each pair of them.

    The last slot holds all words that are not yet added.

    Args:
        size: number of slots for classes.
        bigrams: `Bigrams` from which words are inserted, or None for classes set by `fill`.

    Example:
        window = tfsoftmax.partitions.brown.Window(3)
        window.fill(keras.ops.convert_to_numpy([[0.0, 4, 4], [2, 1, 1], [2, 1, 1]]))
        print(window.cheapest())  # (1, 2), two classes whose neighbours are the same
        kept, freed = window.merge(1, 2)
    """

    def __init__(self, size, bigrams=None):
        self.size, self.rest = size, size
        self.free = list(range(size))[::-1]
        self.counts = np.zeros((size + 1, size + 1))
        self.gains = np.zeros_like(self.counts)  # G
        self.others = np.full_like(self.counts, np.inf)  # cost = others - G; inf: no such pair
        self.first, self.second = np.zeros(size + 1), np.zeros(size + 1)
        self._cost = np.empty((size, size))
        self.bigrams = bigrams
        if bigrams is not None:
            self.totals = bigrams.totals()
            self.slot_of = np.full(bigrams.vocab_size, self.rest)
            self.counts[-1, -1] = self.totals[0].sum()

    def insert(self, word):
        """Takes a word out of the rest into a class of its own."""
        slot, rest, counts = self.free.pop(), self.rest, self.counts
        self.slot_of[word] = slot
        for table, (words, numbers) in zip((counts, counts.T), self.bigrams.row(word)[::-1]):
            # table[c, slot] becomes the bigrams between class c and the word.
            between = np.bincount(self.slot_of[words], numbers, self.size + 1)
            between[slot] = 0
            rows = np.flatnonzero(between[:-1])
            self._set(table, rest, rows, table[rows, rest] - between[rows])
            self._set(table, slot, rows, between[rows])
        self._split_rest(word, slot)
        self.first[slot], self.second[slot] = (t[word] for t in self.totals)
        self._refresh(slot)

    def _split_rest(self, word, slot):
        """The counts among the new class and the rest, which concern no pair but the slot's."""
        rest, counts = self.rest, self.counts
        (after, after_counts), (before, before_counts) = self.bigrams.row(word)
        own = after_counts[after == word].sum()
        to_rest = after_counts[self.slot_of[after] == rest].sum()
        from_rest = before_counts[self.slot_of[before] == rest].sum()
        counts[rest, rest] -= own + to_rest + from_rest
        self._set(counts, slot, np.array([slot]), np.array([own]))
        self._set(counts, slot, np.array([rest]), np.array([from_rest]))
        self._set(counts.T, slot, np.array([rest]), np.array([to_rest]))

    def fill(self, counts):
        """Sets all classes at once, by their counts (C, C), with no rest."""
        self.counts[:-1, :-1] = counts
        self.free = []
        for table in (self.counts, self.counts.T):
            for column in table.T:
                rows = np.flatnonzero(column)
                self.gains[np.ix_(rows, rows)] += g(column[rows][:, None], column[rows])
        self.first[:-1], self.second[:-1] = counts.sum(1), counts.sum(0)
        for slot in range(self.size):
            self._refresh(slot)

    def cheapest(self):
        """The two slots whose merger loses least mutual information."""
        np.subtract(self.others[:-1, :-1], self.gains[:-1, :-1], out=self._cost)
        return divmod(int(self._cost.argmin()), self.size)

    def cost(self, a, b):
        """The part of T · AMI that merging two slots loses."""
        return self.others[a, b] - self.gains[a, b]

    def merge(self, a, b):
        """Merges two slots into the one with more tokens; returns that one and the freed one."""
        if self.first[a] < self.first[b]:
            a, b = b, a
        for table in (self.counts, self.counts.T):
            rows = np.flatnonzero(table[:, b])
            self._set(table, a, rows, table[rows, a] + table[rows, b])
            self._set(table, b, rows, np.zeros(len(rows)))
        self.first[a] += self.first[b]
        self.second[a] += self.second[b]
        if self.bigrams is not None:
            self.slot_of[self.slot_of == b] = a
        self.free.append(b)
        for table in (self.gains, self.gains.T):
            table[b] = 0
        for table in (self.others, self.others.T):
            table[b] = np.inf
        self._refresh(a)
        return a, b

    def _set(self, table, column, rows, values):
        """Sets table[rows, column], and G for the pairs that it concerns."""
        if not len(rows):
            return
        old = table[:, column].copy()
        new = old.copy()
        new[rows] = values
        # Pairs (row, any): the term e = column of Σ_e g(n_ae, n_be).
        any_ = np.flatnonzero((old != 0) | (new != 0))
        change = g(new[rows][:, None], new[any_]) - g(old[rows][:, None], old[any_])
        is_row = np.zeros(len(old), bool)
        is_row[rows] = True
        self.gains[np.ix_(rows, any_)] += change
        both = np.where(is_row[any_], 0.0, change)  # pairs of two rows are done
        self.gains[np.ix_(any_, rows)] += both.T
        if column != self.rest:
            # Pairs (column, any): the terms e in rows of Σ_e g(n_ea, n_eb).
            lines = table[rows]
            lines[:, column] = 0
            change = g(new[rows][:, None], lines) - g(old[rows][:, None], lines)
            change = change.sum(0)
            self.gains[column] += change
            self.gains[:, column] += change
        table[:, column] = new

    def _refresh(self, slot):
        """The part of the costs of a slot's pairs that G does not hold."""
        counts, first, second = self.counts, self.first, self.second
        active = np.ones(self.size + 1, bool)
        active[[*self.free, self.rest, slot]] = False
        d = np.flatnonzero(active)
        own, other = counts[slot, slot], counts[d, d]
        across, back = counts[slot, d], counts[d, slot]
        # For the four counts among the two slots, this replaces what G holds by h of their sum.
        corner = h(own + across + back + other) + h(own) + h(across) + h(back) + h(other)
        corner -= h(own + back) + h(across + other) + h(own + across) + h(back + other)
        margins = g(first[slot], first[d]) + g(second[slot], second[d])
        self.others[slot, d] = self.others[d, slot] = margins - corner


def exchange(bigrams, order, classes, num_classes, done):
    """Moves each word to the class where AMI is largest; a class keeps its last word.

    Args:
        bigrams: `Bigrams`.
        order: int (V,), the words in the order in which they are tried.
        classes: int (V,), changed in place.
        num_classes: C.
        done: called with the number of words done.

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

"""The window of Brown clustering: some classes, and what it costs to merge each pair of them.

With n_ab the bigrams from class a to class b and h(x) = x ln x, a merger of a and b changes the
sum of h(n) by terms g(n_ae, n_be), g(x, y) = h(x+y) - h(x) - h(y), which are zero where either
count is. The table G(a, b) = Σ_e g(n_ae, n_be) + g(n_ea, n_eb) of all pairs is kept up to date: a
rare word, with few neighbours, changes few of its rows, so that a step costs O(C k) for k
neighbours, and the search for the least cost, O(C²), one subtraction.

Source: Brown et al. 1992, section 3; Liang 2005, chapter 4.
"""

import numpy as np


def mutual_information(counts):
    """Average mutual information in nats of neighbouring classes, from counts (C, C)."""
    total = counts.sum()
    margins = h(counts.sum(0)).sum() + h(counts.sum(1)).sum()
    return float((h(counts).sum() - margins) / total + np.log(total))


def h(x):
    """x ln x for counts; h(0) = h(1) = 0 exactly."""
    return x * np.log(np.maximum(x, 1.0))


def g(x, y):
    """h(x + y) - h(x) - h(y); exactly 0 where either is 0."""
    return h(x + y) - h(x) - h(y)


class Window:
    """Classes in slots, and what it costs to merge each pair of them.

    The last slot holds all words that are not yet added.

    Args:
        size: number of slots for classes.
        bigrams: `Bigrams` from which words are inserted, or None for classes set by `fill`.

    Example:
        window = tfsoftmax.partitions.brown_window.Window(3)
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

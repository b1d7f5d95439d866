"""Summaries that nothing was trained for, which a model has to surpass."""

from collections.abc import Iterable, Sequence

import numpy as np

from tfsoftmax.support.arguments import check_at_least


def first_words(sources: Iterable[str], count: int) -> list[str]:
    """The first words of each source.

    Args:
        sources: texts with words between blanks.
        count: how many words to keep.
    """
    check_at_least(1, count=count)
    return [" ".join(source.split()[:count]) for source in sources]


class NearestTitles:
    """Answers a source with the title of the most similar source of the training pairs.

    The similarity is the cosine of the vectors tf(w) ln(N / df(w)): tf is how often a word occurs
    in a text, and df in how many of the N training sources. All words count, also those outside
    the vocabulary. Of equal ones the first is taken.

    Args:
        sources: N training texts with words between blanks.
        titles: their N titles.

    Example:
        from experiments.inputs.title_baselines import NearestTitles
        nearest = NearestTitles(["the cat sat down", "a dog ran off"], ["cat sits", "dog runs"])
        print(nearest.titles(["my dog"]))  # ['dog runs']

    Source: Salton and Buckley 1988.
    """

    def __init__(self, sources: Sequence[str], titles: Sequence[str]):
        if not len(sources) or len(sources) != len(titles):
            raise ValueError(
                "`titles` must have one title for each source, of which there is at least one. "
                f"Received: {len(titles)} titles, {len(sources)} sources"
            )
        self._titles, self._ids = list(titles), {}
        words, texts = [], []
        for text, source in enumerate(sources):
            found = source.split()
            words += [self._ids.setdefault(word, len(self._ids)) for word in found]
            texts += [text] * len(found)
        # Each pair of a word and a text once, in the order of the words.
        pairs, times = np.unique(
            np.array(words, np.int64) * len(titles) + np.array(texts, np.int64), return_counts=True
        )
        words, self._texts = np.divmod(pairs, len(titles))
        in_texts = np.bincount(words, minlength=len(self._ids))
        self._ends = np.append(0, np.cumsum(in_texts))
        self._idf = np.log(len(titles) / in_texts)
        values = times * self._idf[words]
        norms = np.sqrt(np.bincount(self._texts, values**2, len(titles)))
        self._values = values / np.where(norms == 0, 1, norms)[self._texts]

    def titles(self, sources: Iterable[str]) -> list[str]:
        """The title for each of other sources."""
        return [self._titles[self._nearest(source.split())] for source in sources]

    def _nearest(self, words):
        """The number of the text with the greatest cosine. The norm of `words` changes nothing."""
        similarity = np.zeros(len(self._titles))
        for word in words:
            index = self._ids.get(word)
            if index is not None:
                part = slice(self._ends[index], self._ends[index + 1])
                similarity[self._texts[part]] += self._idf[index] * self._values[part]
        return int(similarity.argmax())

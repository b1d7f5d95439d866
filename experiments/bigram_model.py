"""A bigram language model with absolute discounting, and its ARPA file."""

import math

import numpy as np

from tfsoftmax.partitions.ngram_counts import Bigrams


class BigramModel:
    """P(w | v) = max(n(v, w) - d, 0) / n(v) + d n₊(v) / n(v) · P(w), P(w) add-one smoothed.

    n₊(v) is the number of distinct words seen after v. The discount is d = n₁ / (n₁ + 2 n₂), where
    n₁ and n₂ are the numbers of bigrams seen once and twice.

    Args:
        bigrams: `Bigrams` of a text whose sentences begin and end with `<eos>`.
        vocabulary: `Vocabulary` of V words.

    Source: Ney, Essen and Kneser 1994.
    """

    def __init__(self, bigrams, vocabulary):
        starts, words, counts = bigrams.successors
        self.vocabulary, self._starts, self._words = vocabulary, starts, words
        _, unigrams = bigrams.totals()
        self._unigram = np.log((unigrams + 1) / (unigrams.sum() + len(unigrams)))
        once, twice = (counts == 1).sum(), (counts == 2).sum()
        discount = once / max(once + 2 * twice, 1)
        totals, _ = bigrams.totals()
        distinct = np.diff(starts)
        # After a word that was never followed by another, only the unigrams count.
        self._backoff = np.where(
            totals > 0, np.log(np.maximum(discount * distinct, 1e-9) / np.maximum(totals, 1)), 0.0
        )
        history = np.repeat(np.arange(len(distinct)), distinct)
        seen = np.maximum(counts - discount, 0) / totals[history]
        smoothed = np.exp(self._backoff[history] + self._unigram[words])
        self._seen = np.log(seen + smoothed)
        keys = history * len(vocabulary) + words
        self._table = dict(zip(keys.tolist(), self._seen.tolist()))

    @classmethod
    def count(cls, batches, vocabulary):
        """The model of a text; `batches` yields pairs of ids: words, and the words after them."""
        return cls(Bigrams.count(batches, len(vocabulary)), vocabulary)

    def log_prob(self, before, word):
        """ln P(word | before), both given as ids."""
        seen = self._table.get(before * len(self.vocabulary) + word)
        return self._backoff[before] + self._unigram[word] if seen is None else seen

    def write_arpa(self, path):
        """Writes the model as an ARPA file, where `<eos>` becomes <s> or </s> by its place."""
        names, eos = self.vocabulary.words, self.vocabulary.eos_id
        # No word follows </s>, and no word is followed by <s>.
        behind = ["</s>" if i == eos else word for i, word in enumerate(names)]
        before = ["<s>" if i == eos else word for i, word in enumerate(names)]
        base = math.log(10)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"\\data\\\nngram 1={len(names) + 1}\nngram 2={len(self._words)}\n")
            file.write(f"\n\\1-grams:\n-99\t<s>\t{self._backoff[eos] / base:.6f}\n")
            for word, p, rest in zip(behind, self._unigram / base, self._backoff / base):
                file.write(f"{p:.6f}\t{word}" + ("\n" if word == "</s>" else f"\t{rest:.6f}\n"))
            file.write("\n\\2-grams:\n")
            for v, name in enumerate(before):
                for i in range(self._starts[v], self._starts[v + 1]):
                    file.write(f"{self._seen[i] / base:.6f}\t{name} {behind[self._words[i]]}\n")
            file.write("\n\\end\\\n")

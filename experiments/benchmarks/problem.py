"""The numbers that every case of a group receives: hidden states, labels and word counts."""

import dataclasses

import numpy as np

BLOCKS, ATTENTION_HEADS, ATTENDED = 2, 8, 128  # of a Transformer, which reads rows of 128 words
MEAN_WORDS = 17  # of the sentences of a made-up text


@dataclasses.dataclass(frozen=True)
class Problem:
    """N = streams · steps positions of D units, with labels among V words.

    Args:
        vocab_size: number of words V, numbered by falling frequency.
        units: size D of a hidden state.
        streams: streams B of a batch.
        steps: time steps T of a batch.
        data: directory of a prepared corpus that gives labels and counts; if it is empty, they
            follow Zipf's law, P(w) proportional to 1 / (w + 1).
    """

    vocab_size: int
    units: int = 512
    streams: int = 128
    steps: int = 20
    data: str = ""
    text_words: int = 50_000  # different words in the texts of a classifier

    @property
    def positions(self):
        """Number of positions N."""
        return self.streams * self.steps

    def counts(self):
        """Counts of the words, float64 (V,)."""
        if self.data:
            return np.asarray(self._corpus().vocabulary.counts, np.float64)
        return 1e8 / np.arange(1, self.vocab_size + 1)

    def words(self):
        """V words; without a corpus, random letters, about as long as the words of a text."""
        if self.data:
            return self._corpus().vocabulary.words
        rng = np.random.default_rng(2)
        lengths = rng.poisson(7, self.vocab_size) + 1
        letters = rng.choice(list("abcdefghijklmnopqrstuvwxyz"), lengths.sum())
        return ["".join(word) for word in np.split(letters, np.cumsum(lengths)[:-1])]

    def vocabulary(self):
        """A `Vocabulary` with these counts, whose words are numbers but for the first two."""
        from tfsoftmax.support.vocabulary import EOS, UNK, Vocabulary

        counts = self.counts().astype("int64")
        return Vocabulary([UNK, EOS, *map(str, range(2, len(counts)))], counts)

    def labels(self):
        """Labels of the positions, int32 (N,)."""
        if self.data:
            return self._corpus_labels()
        counts = self.counts()
        draw = np.random.default_rng(0).choice(
            self.vocab_size, self.positions, p=counts / counts.sum()
        )
        return draw.astype(np.int32)

    def kept(self, share):
        """Which positions are no padding, if this share is, bool (N,)."""
        return np.random.default_rng(4).random(self.positions) >= share

    def sequences(self, shape):
        """Words and the labels that follow them, int32 of this shape (streams, steps)."""
        labels = self.labels().reshape(shape)
        return np.roll(labels, 1, axis=1), labels

    def texts(self, length=20):
        """A text for each position, whose words follow Zipf's law, int32 (N, length)."""
        ranks = np.random.default_rng(3).random((self.positions, length))
        return (self.text_words**ranks).astype(np.int32) - 1

    def hidden(self):
        """Hidden states, float32 (N, D)."""
        rng = np.random.default_rng(1)
        return 0.3 * rng.standard_normal((self.positions, self.units), np.float32)

    def _corpus(self):
        from tfsoftmax.corpora.records import Corpus

        corpus = Corpus.load(self.data)
        if len(corpus.vocabulary) != self.vocab_size:
            raise ValueError(
                f"`vocab_sizes` must be the corpus's, {len(corpus.vocabulary)}. "
                f"Received: {self.vocab_size}"
            )
        return corpus

    def _corpus_labels(self):
        from tfsoftmax.corpora.pipeline import batches

        corpus, found = self._corpus(), []
        for _, next_words, weights in batches(corpus, "train"):
            found.extend(next_words.numpy()[weights.numpy() > 0].tolist())
            if len(found) >= self.positions:
                return np.array(found[: self.positions], np.int32)
        raise ValueError(
            f"`data` must hold at least {self.positions} tokens to train on. "
            f"Received: {len(found)}"
        )


def sentences_by_zipf(vocab_size, count, seed):
    """Ids of made-up sentences, whose words follow Zipf's law, as a list of arrays."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 / MEAN_WORDS, count)
    ids = (vocab_size ** rng.random(lengths.sum())).astype(np.int64) - 1
    return np.split(ids, np.cumsum(lengths)[:-1])

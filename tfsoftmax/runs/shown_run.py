"""What a person can ask a trained model about a text: the answers of `tfsoftmax demo`, as data."""

import math
import os
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfsoftmax.lm.decoding import Hypothesis, NextWordSampler, check_found
from tfsoftmax.lm.generation import Generator
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.lm.word_groups import Branch, grouping_of, path_of
from tfsoftmax.runs import runs
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.vocabulary import EOS, UNK

BEAM = 4
MOST_WORDS = 500  # of a text, which a generator reads word by word
REPEATS = 5  # calls of the head, of whose times the median is told
SEARCHES = ("greedy", "beam", "draw")
CASED = 0.01  # a share of words that names of symbols, such as N for numbers, stay below
MISTAKES = (ValueError, OSError, RuntimeError)  # of one run, which the others need not share


class ShownRun:
    """A run's best model, which answers questions about texts, one at a time.

    Texts are lists of at most `MOST_WORDS` words, or pieces for a run on pieces. Every probability
    is exact: that of a model which sums to one over its vocabulary. The model has states, so
    threads have to take turns.

    Args:
        directory: the folder of the run.

    Raises:
        ValueError: as `runs.load`.

    Example:
        from tfsoftmax.runs.shown_run import ShownRun
        run = ShownRun("runs/first")
        for word, probability in run.next_words(["the", "number"], k=5):
            print(f"{probability:.2%} {word}")
    """

    def __init__(self, directory: str):
        model, self.vocabulary, config = runs.load(directory, streams=BEAM)
        self.step = config["progress"]["step"]
        self._tokenizer = runs.Run(directory).tokenizer()
        self.head = model.get_layer("head")
        self._generator = Generator(model, self.vocabulary)
        self._scorer = Scorer(model, self.vocabulary)
        self._top_k = tf.function(self.head.top_k, autograph=False)
        self._last = None  # the last text and its hidden state
        self.grouping, self.tree = grouping_of(self.head), getattr(self.head, "tree", None)

    @property
    def parameters(self) -> int:
        """The number of the head's weights that are trained, tied ones included."""
        return sum(math.prod(weight.shape) for weight in self.head.trainable_weights)

    @property
    def megabytes(self) -> float:
        """Millions of bytes of all that the head holds."""
        return sum(w.value.dtype.size * math.prod(w.shape) for w in self.head.weights) / 1e6

    @property
    def is_cased(self) -> bool:
        """Whether more than a hundredth of the words that occurred, or pieces, have capitals."""
        pairs = zip(self.vocabulary.words, self.vocabulary.counts.tolist(), strict=True)
        words = [word for word, count in pairs if count and word not in (UNK, EOS)]
        texts = [self.added([], [word]) for word in words]
        return sum(text != text.lower() for text in texts) > CASED * len(texts)

    def split(self, text: str) -> list[str]:
        """The words of a text, or its pieces."""
        return self._tokenizer.encode(text)

    def added(self, words: Sequence[str], new: Sequence[str]) -> str:
        """What new words add to the text of the words before them, with the blank between."""
        before = self._tokenizer.decode(words)
        return self._tokenizer.decode([*words, *new])[len(before) :]

    def unknown(self, words: Sequence[str]) -> list[str]:
        """The words that the vocabulary lacks, each once. The model reads them as `<unk>`."""
        return [word for word in dict.fromkeys(words) if word not in self.vocabulary]

    def next_words(self, words: Sequence[str], k: int) -> list[tuple[str, float]]:
        """The k likeliest next words, or all if there are fewer, with their probabilities."""
        ids, log_probs = self._top(self._hidden(words)[None], min(k, len(self.vocabulary)))
        check_found(ids)
        return list(zip(self.vocabulary.decode(ids), np.exp(log_probs).tolist(), strict=True))

    def milliseconds(self, k: int) -> float:
        """The median time in which the head finds the k likeliest words of a hidden state."""
        hidden, k, seconds = self._hidden([])[None], min(k, len(self.vocabulary)), []
        self._top(hidden, k)  # traces
        for _ in range(REPEATS):
            start = time.perf_counter()
            self._top(hidden, k)
            seconds.append(time.perf_counter() - start)
        return 1000 * float(np.median(seconds))

    def score(self, words: Sequence[str]) -> list[tuple[str, float, bool]]:
        """Scores the words as a whole sentence.

        Returns:
            Of each word, and at last of `<eos>`: the word, ln P of it, and whether the vocabulary
            lacks it, so that it counts as `<unk>`.
        """
        check_length(words)
        (log_probs,) = self._scorer.sentences([words])
        unknown = self._scorer.unknown(words)
        return list(zip([*words, EOS], log_probs.tolist(), unknown.tolist(), strict=True))

    def continuations(
        self, words: Sequence[str], search: str, max_words: int, seed: int = 1
    ) -> list[Hypothesis]:
        """Continues a text: one sentence with "greedy", `BEAM` with "beam" and "draw".

        Their scores are those of `Generator.beam`, and ln P where nothing is searched.
        """
        check_length(words)
        expect(search in SEARCHES, "search", f"be one of {', '.join(SEARCHES)}", search)
        if search == "beam":
            return self._generator.beam(words, max_words)
        sampler = NextWordSampler(top_k=1 if search == "greedy" else None)
        drawn = self._generator.sample(words, max_words, sampler, seed)
        drawn = drawn[:1] if search == "greedy" else drawn
        scores = self._scorer.sentences([[*words, *each] for each in drawn])
        parts = [of_all[len(words) :] for of_all in scores]  # of what is new, and of <eos>
        ended = [len(each) < max_words for each in drawn]
        log_probs = [float((p if end else p[:-1]).sum()) for p, end in zip(parts, ended)]
        return list(map(Hypothesis, drawn, log_probs, log_probs, ended))

    def groups(self, words: Sequence[str], shown: int = 12, word: str | None = None) -> list[tuple]:
        """The head's groups of words, the likeliest after the text first.

        Args:
            words: the text.
            shown: how many words to name of each group.
            word: return only the group of this word.

        Returns:
            Of each group: its number, its probability after the text, its share of the training
            tokens, how many words it has, and the most frequent of them.

        Raises:
            ValueError: `word` is not in the vocabulary.
        """
        counts, grouping = self.vocabulary.counts, self.grouping
        probabilities = grouping.sums(self.probabilities(words))
        shares, sizes = grouping.sums(counts / max(1, counts.sum())), np.bincount(grouping.of_word)
        numbers = [g for g in np.argsort(-probabilities, kind="stable") if sizes[g]]
        if word is not None:
            numbers = [grouping.of_word[self._id(word)]]
        return [
            (int(g), float(probabilities[g]), float(shares[g]), int(sizes[g]),
             self.vocabulary.decode(grouping.members(g, counts)[:shown]))
            for g in numbers
        ]

    def path(self, words: Sequence[str], word: str, shown: int = 5) -> list[list[Branch]]:
        """The branches on the way to a word in the head's tree, as `path_of` gives them.

        Raises:
            ValueError: `word` is not in the vocabulary.
        """
        return path_of(self.tree, self._id(word), self.probabilities(words), shown)

    def probabilities(self, words: Sequence[str]) -> np.ndarray:
        """The exact probabilities of all words after a text, float64 (V,)."""
        log_probs = self.head.log_probs(self._hidden(words)[None])[0]
        return np.exp(log_probs.numpy().astype(np.float64))

    def _top(self, hidden, k):
        """The ids of the k likeliest words after a hidden state (1, d), and ln P of them."""
        return [values.numpy()[0] for values in self._top_k(hidden, k)]

    def _hidden(self, words):
        """The hidden state after a text. That of the last text is kept."""
        check_length(words)
        if self._last is None or self._last[0] != tuple(words):
            self._last = tuple(words), self._generator.hidden(words)
        return self._last[1]

    def _id(self, word):
        expect(word in self.vocabulary, "word", "be in the vocabulary", received=f"{word!r}")
        return int(self.vocabulary.encode([word])[0])


def load_runs(directories: Sequence[str]) -> dict[str, ShownRun | str]:
    """The runs by their names, each once. For a broken one, a sentence says what is wrong.

    Raises:
        ValueError: no run can be read. The message is that of the first.
    """
    directories = list(dict.fromkeys(directories))
    ends = [os.path.basename(os.path.normpath(directory)) for directory in directories]
    loaded, errors = {}, []
    for directory, end in zip(directories, ends, strict=True):
        name = end if ends.count(end) == 1 else directory
        try:
            loaded[name] = ShownRun(directory)
        except (*MISTAKES, tf.errors.OpError) as error:
            errors.append(error)
            loaded[name] = str(error)
    if len(errors) == len(loaded):
        raise errors[0] if errors else ValueError("`run` must name runs. Received: none")
    return loaded


def check_length(words: Sequence[str]) -> None:
    """Raises ValueError if a text has too many words."""
    expect(len(words) <= MOST_WORDS, "A text", f"have at most {MOST_WORDS} words here",
           received=f"{len(words):,}; use `tfsoftmax score` for longer ones")

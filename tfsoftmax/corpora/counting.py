"""The first pass over a corpus: counts the sentences and the words of each split."""

import collections
import dataclasses

from tfsoftmax.vocabulary import EOS, UNK, Vocabulary


@dataclasses.dataclass
class Tally:
    """What the first pass counted in a split.

    Attributes:
        sentences: the number of sentences.
        words: the number of words, without `<eos>`.
        counts: how often each word occurs; empty if that was not asked for.

    Example:
        from tfsoftmax.corpora.counting import count
        blocks = [["the cat sat", "the mat"]]
        tally = count(blocks, "train", keep_counts=True, report=lambda words: None)
        print(tally.tokens, tally.counts["the"])
    """

    sentences: int = 0
    words: int = 0
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    @property
    def tokens(self):
        """The words, and one `<eos>` for each sentence."""
        return self.words + self.sentences


def count(blocks, split, keep_counts, report):
    """Counts the sentences and the words of a split.

    Args:
        blocks: lists of lines. Each line with a word is a sentence.
        split: the name of the split, for messages.
        keep_counts: whether to count each word. This needs memory for all distinct words.
        report: a function that is called with the number of words in each block.

    Returns:
        The `Tally` of the split.

    Raises:
        ValueError: the text contains `<eos>`, which would end a sentence in its middle, or it
            has no sentence.
    """
    tally = Tally()
    for lines in blocks:
        words = " ".join(lines).split()
        if any(EOS in line for line in lines) and EOS in words:
            line = next(line for line in lines if EOS in line.split())
            raise ValueError(
                f"`{split}`: the text must not contain `{EOS}`, which `prepare` itself adds after "
                f"every sentence. Received: {line[:200]!r}"
            )
        tally.words += len(words)
        tally.sentences += sum(map(bool, map(str.strip, lines)))
        if keep_counts:
            tally.counts.update(words)
        report(len(words))
    if not tally.sentences:
        raise ValueError(f"`{split}` must hold at least one sentence. Received: no words")
    return tally


def build_vocabulary(tally: Tally, min_count: int, max_vocab: int | None) -> Vocabulary:
    """Builds the vocabulary of a training split.

    Where the text itself contains `<unk>`, as PTB and WikiText do, it counts as an unknown word
    like the rare words.

    Args:
        tally: the counts of the training split.
        min_count: words that occur less often become `<unk>`.
        max_vocab: the most words to keep; None for no limit.

    Raises:
        ValueError: no word occurs often enough.
    """
    counts = {**tally.counts, EOS: tally.sentences}
    vocabulary = Vocabulary.build(counts, min_count, max_vocab)
    if len(vocabulary) == 2:
        raise ValueError(
            f"`min_count` must leave words besides {UNK}. Received: min_count={min_count}, and "
            f"the most frequent word occurs {max(tally.counts.values())} times"
        )
    return vocabulary

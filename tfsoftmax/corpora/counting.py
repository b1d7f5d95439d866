"""The first pass over a corpus: counts the sentences and the words of each split."""

import collections
import dataclasses
from collections.abc import Iterable

from tfsoftmax.support.arguments import expect, refusal
from tfsoftmax.support.vocabulary import EOS, UNK, Vocabulary


@dataclasses.dataclass
class Tally:
    """What the first pass counted in a split.

    Attributes:
        sentences: the number of sentences.
        words: the number of words between blanks, without `<eos>`.
        pieces: the number of pieces that the tokenizer makes of them.
        longest: the most tokens of a sentence.
        text_bytes: the bytes of the sentences in UTF-8, each with the end of its line.
        changed_lines: how many sentences their pieces do not restore exactly.
        oov: the number of pieces that are no words of a vocabulary, where they were looked up.
        counts: how often each piece occurs; empty if that was not asked for.

    Example:
        from tfsoftmax.corpora.counting import count
        from tfsoftmax.corpora.tokenizers import Words
        blocks = [["the cat sat", "the mat"]]
        tally = count(blocks, "train", Words(), keep_counts=True, report=lambda pieces: None)
        print(tally.tokens, tally.counts["the"])
    """

    sentences: int = 0
    words: int = 0
    pieces: int = 0
    longest: int = 0
    text_bytes: int = 0
    changed_lines: int = 0
    oov: int = 0
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    @property
    def tokens(self):
        """The pieces, and one `<eos>` for each sentence."""
        return self.pieces + self.sentences

    @property
    def is_restorable(self):
        """Whether the ids of the pieces determine each line, apart from how it ends."""
        return self.oov == 0 and self.changed_lines == 0

    def add(self, line, pieces, tokenizer):
        """Adds a sentence and its pieces."""
        self.sentences += 1
        self.words += len(pieces) if tokenizer.pieces is None else len(line.split())
        self.pieces += len(pieces)
        self.longest = max(self.longest, len(pieces) + 1)
        self.text_bytes += len(line.encode("utf-8")) + 1
        self.changed_lines += tokenizer.decode(pieces) != line


def count(blocks, split, tokenizer, keep_counts, report):
    """Counts the sentences, words and pieces of a split.

    Args:
        blocks: lists of lines. Each line with a word is a sentence, even if the tokenizer makes
            no piece of it.
        split: the name of the split, for messages.
        tokenizer: the `Tokenizer`.
        keep_counts: whether to count each piece. This needs memory for all distinct pieces.
        report: a function that is called with the number of pieces in each block.

    Returns:
        The `Tally` of the split.

    Raises:
        ValueError: the text contains `<eos>`, which would end a sentence in its middle, or it
            has no sentence.
    """
    tally = Tally()
    for lines in blocks:
        words = []
        for line, pieces in zip(lines, tokenizer.encode_all(lines), strict=True):
            if not line.strip():
                continue
            if EOS in line and EOS in pieces:
                raise refusal(f"`{split}`: the text", f"not contain `{EOS}`, which `prepare` "
                              "itself adds after every sentence", line[:200])
            tally.add(line, pieces, tokenizer)
            words += pieces
        if keep_counts:
            tally.counts.update(words)
        report(len(words))
    expect(tally.sentences, split, "hold at least one sentence", received="no words")
    return tally


def kept_vocabulary(words: Iterable[str], tally: Tally) -> Vocabulary:
    """The vocabulary of some words or pieces, by falling frequency in a training split.

    Those that do not occur there are kept, since other texts may need them.
    """
    counts = {word: tally.counts[word] for word in words}
    counts |= {UNK: tally.counts.total() - sum(counts.values()), EOS: tally.sentences}
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return Vocabulary(ranked, [counts[word] for word in ranked])


def build_vocabulary(tally: Tally, min_count: int, max_vocab: int | None) -> Vocabulary:
    """Builds the vocabulary of the words of a training split.

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
    most = max((n for word, n in tally.counts.items() if word != UNK), default=0)
    expect(len(vocabulary) > 2, "min_count", f"leave words besides {UNK}",
           received=f"min_count={min_count}, and the most frequent of them occurs {most} times")
    return vocabulary

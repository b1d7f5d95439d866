"""First pass: how many sentences and words a split has, and which words."""

import collections
import dataclasses

from tfsoftmax.vocabulary import EOS, UNK, Vocabulary


@dataclasses.dataclass
class Tally:
    """What the first pass found; `counts` stays empty unless it was asked for."""

    sentences: int = 0
    words: int = 0
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    @property
    def tokens(self):
        """Words, and one `<eos>` a sentence."""
        return self.words + self.sentences


def count(blocks, split, keep_counts, report):
    """Counts a split.

    Args:
        blocks: iterable of lists of lines. A line without a word is no sentence.
        split: its name, for messages.
        keep_counts: whether to count each word, in memory that grows with their variety.
        report: function called with the number of words of each block.

    Returns:
        A `Tally`.

    Raises:
        ValueError: `<eos>` stands in the text, which would end a sentence where none
            ends; or there is no sentence.
    """
    tally = Tally()
    for lines in blocks:
        words = " ".join(lines).split()
        if any(EOS in line for line in lines) and EOS in words:
            line = next(line for line in lines if EOS in line.split())
            raise ValueError(
                f"`{split}`: the text must not contain `{EOS}`, which is put behind every "
                f"sentence; remove it. Received: {line[:200]!r}"
            )
        tally.words += len(words)
        tally.sentences += sum(map(bool, map(str.strip, lines)))
        if keep_counts:
            tally.counts.update(words)
        report(len(words))
    if not tally.sentences:
        raise ValueError(f"`{split}` must hold at least one sentence. Received: no words")
    return tally


def build_vocabulary(tally, min_count, max_vocab):
    """Returns the `Vocabulary` of the training split, whose `Tally` has its counts.

    `<unk>` in the text itself (as in PTB and WikiText) is OOV like the rare words.
    """
    counts = {**tally.counts, EOS: tally.sentences}
    vocabulary = Vocabulary.build(counts, min_count, max_vocab)
    if len(vocabulary) == 2:
        raise ValueError(
            f"`min_count` must leave words besides {UNK}. Received: min_count={min_count}, and "
            f"the most frequent word occurs {max(tally.counts.values())} times"
        )
    return vocabulary

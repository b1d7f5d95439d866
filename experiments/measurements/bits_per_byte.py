"""Bits per byte of the runs of the experiment `pieces`: words against pieces.

    python -m experiments.measurements.bits_per_byte --train=train.txt.gz --test=test.txt.gz

Pieces determine every byte of a text, and their nats are what it costs. Words with <unk> do not:
their nats leave open how the unknown words are spelt. The table shows both what a run on words
costs without that, which no reader could restore, and with it. The spelling is that of a model of
bytes, each after the four before it, with Witten-Bell smoothing, which has learnt from the words of
the training text that the vocabulary lacks, as often as they occur there.
"""

import collections
import math
import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown, report
from experiments.framework.outcome import Outcome
from experiments.tables import pieces
from tfsoftmax.commands import program
from tfsoftmax.corpora.text import TextFiles
from tfsoftmax.support.vocabulary import Vocabulary

ORDER = 5  # bytes: the one that is coded, and those before it
SYMBOLS = 257  # the bytes and the end of a word
END = 256


class Speller:
    """A model of the bytes of words, by Witten-Bell smoothing of the counts of all orders.

    Args:
        counts: dictionary from word to its number of occurrences.

    Source: Chen and Goodman 1998, equation 15 (Witten and Bell 1991), with the recursion ending in
    a uniform distribution over the bytes and the end of the word.
    """

    def __init__(self, counts):
        self._counts = collections.defaultdict(collections.Counter)
        for word, times in counts.items():
            symbols = [*word.encode("utf-8"), END]
            for place, symbol in enumerate(symbols):
                for length in range(min(ORDER - 1, place) + 1):
                    self._counts[tuple(symbols[place - length : place])][symbol] += times

    def bits(self, word):
        """The bits that a word costs, with its end."""
        symbols = [*word.encode("utf-8"), END]
        return -sum(
            math.log2(self.probability(symbols[max(0, place - ORDER + 1) : place], symbol))
            for place, symbol in enumerate(symbols)
        )

    def probability(self, context, symbol):
        """The probability of a symbol after those of a context."""
        probability = 1 / SYMBOLS
        for start in range(len(context), -1, -1):
            counts = self._counts.get(tuple(context[start:]))
            if counts:
                kinds, total = len(counts), counts.total()
                probability = (counts[symbol] + kinds * probability) / (total + kinds)
        return probability


def unknown_words(paths, vocabulary):
    """How often each word of a text occurs that a vocabulary lacks, the bytes of the text, and the
    number of lines that their words do not restore."""
    counts, size, changed = collections.Counter(), 0, 0
    for lines in TextFiles(paths):
        for line in filter(str.strip, lines):
            words = line.split()
            counts.update(word for word in words if word not in vocabulary)
            size += len(line.encode("utf-8")) + 1
            changed += " ".join(words) != line
    return counts, size, changed


def row(name, folder, train, test):
    """Cells of the table for a run, or None for one without a result on the test split."""
    (run,) = [run for run in pieces.RUNS if run.name == f"{name}-seed1"]
    outcome = Outcome.read(run, folder / run.name)
    if not outcome.test:
        return None
    split, result = outcome.config["corpus"]["splits"]["test"], outcome.test
    vocabulary = Vocabulary.load(folder / run.name / "vocabulary.txt")
    unknown, text_bytes, changed = (
        unknown_words([test], vocabulary) if split["oov"] else
        ({}, None, "bits_per_byte" not in result)
    )
    if changed:
        raise ValueError(
            f"{run.name}: the tokens must restore every line of the test text; single blanks must "
            f"be between words. Received: {changed:d} or more other lines"
        )
    bits = result["nats_per_token"] * result["tokens"] / math.log(2)
    if split["oov"]:
        learnt = Speller(unknown_words([train], vocabulary)[0])
        spelling = sum(times * learnt.bits(word) for word, times in unknown.items())
    else:
        text_bytes, spelling = bits / result["bits_per_byte"], 0.0
    tokens, seconds = result["tokens"], outcome.measures()["seconds"]
    return [
        name, f"{tokens:,}", f"{split['oov'] / (tokens - split['sentences']):.2%}",
        f"{result['perplexity']:,.2f}", f"{bits / text_bytes:.4f}" if spelling else "–",
        f"{spelling / text_bytes:.4f}" if spelling else "0",
        f"**{(bits + spelling) / text_bytes:.4f}**",
        f"{2 ** ((bits + spelling) / (split['words'] + split['sentences'])):,.2f}",
        f"{outcome.measures()['epoch']:.0f}", f"{seconds / 60:.0f}",
    ]


def main():
    options = flags.FLAGS
    folder = Path(options.runs) / "pieces"
    found = [row(n, folder, options.train, options.test) for n in pieces.VOCABULARIES]
    rows = [[
        "run", "tokens", "<unk>", "perplexity per token", "bits/byte, <unk> unspelt",
        "spelling of <unk>", "bits/byte", "perplexity per word", "epochs", "minutes",
    ]]
    rows += [[cell.replace("<unk>", "`<unk>`") for cell in cells] for cells in found if cells]
    rows[0] = [cell.replace("<unk>", "`<unk>`") for cell in rows[0]]
    outcomes = [(run, Outcome.read(run, folder / run.name)) for run in pieces.RUNS]
    path = Path(options.results) / "pieces" / "bits_per_byte.md"
    print(markdown.write(
        path, "# Bits per byte of words and pieces",
        __doc__.strip(), "## Results", report.facts(outcomes), markdown.table(rows),
        "All of the test split; a byte for the end of each line counts. The perplexity per word "
        "counts words and ends of lines, and includes the spelling.",
        "Written by `python -m experiments.measurements.bits_per_byte`.",
    ))


if __name__ == "__main__":
    flags.DEFINE_string("train", None, "Training text, one sentence per line.", required=True)
    flags.DEFINE_string("test", None, "Test text.", required=True)
    flags.DEFINE_string("runs", "runs", "Directory of the runs.")
    flags.DEFINE_string("results", "experiments/results", "Directory of the reports.")
    program.run(main, __doc__, sys.argv)

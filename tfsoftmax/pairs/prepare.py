"""Prepares a corpus of pairs of texts: vocabulary, records and the texts themselves."""

import os
import zlib

import numpy as np

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora.counting import build_vocabulary, kept_vocabulary
from tfsoftmax.corpora.encoding import check_nothing_lost
from tfsoftmax.corpora.publishing import missing_split, published
from tfsoftmax.corpora.tfrecord import RecordWriter
from tfsoftmax.pairs import batches as pair_batches
from tfsoftmax.pairs.config import PairsConfig
from tfsoftmax.pairs.corpus import PairCorpus, PairSplit
from tfsoftmax.pairs.reading import PairTally, examples
from tfsoftmax.pairs.sources import make_source
from tfsoftmax.pairs.texts import TextWriter
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.vocabulary import EOS, UNK, Vocabulary

__all__ = ["PairsConfig", "prepare", "summary"]

# The defaults of `min_count` and `max_vocab`.
MIN_COUNTS = {"docstring_pairs": 2, "text": 1, "gigaword": 1}
MAX_VOCABS = {"gigaword": 69_000}  # Shen et al. 2017, section 5.1


def prepare(config: PairsConfig, progress: bool = True) -> PairCorpus:
    """Prepares a corpus of pairs, unless it is already there, intact and with the same settings.

    A first pass counts the words, a second one encodes them. The pairs are put into batches of
    similar lengths, which are shuffled once.

    Args:
        config: the settings.
        progress: whether to report progress on the standard error stream.

    Returns:
        The corpus in `config.out`.

    Raises:
        ValueError, OSError, RuntimeError: as `corpora.publishing.published` says.
    """
    return published(PairCorpus, config, make_source, _settings, _write, progress)


def summary(corpus: PairCorpus) -> str:
    """Describes a corpus of pairs and its splits in a table."""
    lines = [
        f"{corpus.directory}: {corpus.name}, vocabulary {len(corpus.vocabulary):,}, batches of "
        f"{corpus.batch_size} pairs",
        f"{'split':<9}{'pairs':>11}{'source words':>14}{'OOV':>9}{'target words':>14}{'OOV':>9}"
        f"{'records':>9}{'cut sources':>13}{'left out: empty':>17}{'long target':>13}",
    ]
    for name, split in corpus.splits.items():
        lines.append(
            f"{name:<9}{split.sentences:>11,}{split.source_words:>14,}"
            f"{split.source_oov / max(1, split.source_words):>9.3%}"
            f"{split.words:>14,}{split.oov_rate:>9.3%}{split.records:>9,}"
            f"{split.cut_sources:>13,}{split.empty_pairs:>17,}{split.long_targets:>13,}"
        )
    return "\n".join([*lines, *missing_split(corpus)])


def pair_vocabulary(
    tally: PairTally, min_count: int, max_vocab: int | None, vocabulary_from: str
) -> Vocabulary:
    """Builds the vocabulary that sources and targets share.

    Args:
        tally: the counts of the training pairs.
        min_count, max_vocab: arguments of `Vocabulary.build`.
        vocabulary_from: "targets" keeps their most frequent words, "both" those of sources and
            targets together.

    Returns:
        A `Vocabulary` with the counts of the targets, by which its words are in falling order: they
        are what a model learns to predict.
    """
    if vocabulary_from == "targets":
        return build_vocabulary(tally, min_count, max_vocab)
    both = PairTally(tally.sentences, tally.counts + tally.source_counts)
    kept = set(build_vocabulary(both, min_count, max_vocab).words) - {UNK, EOS}
    return kept_vocabulary(kept, tally)


def _settings(config, source):
    return {
        "min_count": config.min_count or MIN_COUNTS[config.kind],
        "max_vocab": config.max_vocab or MAX_VOCABS.get(config.kind),
        "vocabulary_from": config.vocabulary_from,
        **{name: getattr(config, name) for name in PairCorpus.SHAPE},
        "seed": config.seed,
    }


def _write(directory, scratch, source, settings, config, progress):
    """Writes the files of a corpus of pairs into a folder, in two passes."""
    with progress.phase("reading") as report:
        blocks = source.open(scratch, report)
    tallies = {name: _counted(blocks[name], name, config, progress) for name in blocks}
    vocabulary = pair_vocabulary(
        tallies["train"], settings["min_count"], settings["max_vocab"], config.vocabulary_from
    )
    vocabulary.save(os.path.join(directory, manifests.VOCABULARY))
    ends = [_widths(tallies, *side) for side in (
        ("source_lengths", pair_batches.SOURCE_WIDTHS),
        ("target_lengths", pair_batches.TARGET_WIDTHS),
    )]
    splits = {}
    for name, tally in tallies.items():
        with progress.phase(f"encoding {name}", tally.words) as report:
            splits[name] = _write_split(
                blocks[name], name, tally, vocabulary, ends, config, directory, scratch, report
            )
    manifests.write_manifest(directory, config.corpus, settings, vocabulary, splits)


def _counted(blocks, name, config, progress):
    tally, words = PairTally(), 0
    with progress.phase(f"counting {name}") as report:
        for _ in examples(blocks, name, config.max_source, config.max_target, tally):
            report(tally.words - words)
            words = tally.words
    for note in tally.marks.notes(name):
        progress.say(f"note: {note}")
    expect(tally.sentences, name, "hold at least one pair of texts with words, with at most "
           f"{config.max_target} in the target", received=f"{tally.empty_pairs} pairs with an "
           f"empty side, {tally.long_targets} with a longer target")
    most = max(tally.sentences, 1000)
    expect(name != "train" or config.batch_size <= most, "batch_size",
           f"be at most {most} for a training split of {tally.sentences} pairs", config.batch_size)
    return tally


def _widths(tallies, lengths, count):
    longest = max(max(getattr(tally, lengths)) for tally in tallies.values())
    return pair_batches.widths(getattr(tallies["train"], lengths), longest, count)


def _write_split(blocks, name, tally, vocabulary, ends, config, directory, scratch, report):
    paths = [os.path.join(scratch, side) for side in ("sources", "targets")]
    sides = list(map(pair_batches.EncodedTexts, paths))
    texts = TextWriter(directory, name)
    for block in examples(blocks, name, config.max_source, config.max_target, PairTally()):
        kept = [pair for _, _, pairs in block for pair in pairs]
        for side, lines in zip(sides, zip(*kept)):
            words = [word for line in lines for word in (*line, EOS)]
            side.add(vocabulary.encode(words), np.array([len(line) + 1 for line in lines]))
        for source, targets, pairs in block:
            if pairs or name != "train":
                texts.write(source, targets)
        report(sum(len(target) for _, target in kept))
    batches, shapes = pair_batches.in_batches(
        *(side.lengths for side in sides), *ends, config.batch_size,
        (config.seed, zlib.crc32(name.encode())),
    )
    writer = RecordWriter(directory, name)
    written, source_written = np.zeros((2, len(vocabulary)), np.int64)
    pair_batches.write_batches(writer, *sides, batches, shapes, written, source_written)
    for side in sides:
        side.remove()
    files = writer.close()
    both = tally.sentences, vocabulary
    check_nothing_lost(name, tally.source_words, *both, source_written, all_words=False)
    check_nothing_lost(name, tally.words, *both, written, all_words=name == "train")
    return PairSplit.counted(
        files, tally, written, vocabulary,
        source_words=tally.source_words,
        source_oov=int(source_written[vocabulary.oov_id]),
        **{name: getattr(tally, name) for name in ("cut_sources", "empty_pairs", "long_targets")},
        texts=texts.close(),
    )

"""Writes a corpus of pairs: vocabulary, records and texts."""

import os
import zlib

import numpy as np

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import pair_batches
from tfsoftmax.corpora.counting import build_vocabulary
from tfsoftmax.corpora.pair_texts import TextWriter
from tfsoftmax.corpora.pairs import PairTally, examples
from tfsoftmax.corpora.records import Split
from tfsoftmax.corpora.writer import RecordWriter
from tfsoftmax.vocabulary import EOS, UNK, Vocabulary


def write_pairs(directory, scratch, source, settings, config, progress):
    """Writes the files of a corpus of pairs into a folder, in two passes.

    Args:
        directory: the folder for the files.
        scratch: a folder for files that are removed after use.
        source: where the pairs come from, a `Source`.
        settings: the settings that the manifest keeps.
        config: the `PrepareConfig`.
        progress: a `Progress`.

    Raises:
        ValueError: a split has no pairs, or no word is frequent enough.
        RuntimeError: the records do not hold exactly the words that were counted.
    """
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
    counts = {word: tally.counts[word] for word in kept}
    counts |= {UNK: tally.words - sum(counts.values()), EOS: tally.sentences}
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return Vocabulary(ranked, [counts[word] for word in ranked])


def _counted(blocks, name, config, progress):
    tally, words = PairTally(), 0
    with progress.phase(f"counting {name}") as report:
        for _ in examples(blocks, name, config.max_source, config.max_target, tally):
            report(tally.words - words)
            words = tally.words
    if report := tally.marks.report(name):
        progress.say(f"note: {report}")
    if not tally.sentences:
        raise ValueError(
            f"`{name}` must hold at least one pair of texts with words, with at most "
            f"{config.max_target} in the target. Received: {tally.empty_pairs} pairs with an empty "
            f"side, {tally.long_targets} with a longer target"
        )
    most = max(tally.sentences, 1000)
    if name == "train" and config.batch_size > most:
        raise ValueError(
            f"`batch_size` must be at most {most} for a training split of {tally.sentences} pairs. "
            f"Received: batch_size={config.batch_size}"
        )
    return tally


def _widths(tallies, lengths, count):
    longest = max(max(getattr(tally, lengths)) for tally in tallies.values())
    return pair_batches.widths(getattr(tallies["train"], lengths), longest, count)


def _write_split(blocks, name, tally, vocabulary, ends, config, directory, scratch, report):
    paths = [os.path.join(scratch, side) for side in ("sources", "targets")]
    sides = list(map(pair_batches.EncodedTexts, paths))
    texts = TextWriter(directory, name)
    for block in examples(blocks, name, config.max_source, config.max_target, PairTally()):
        pairs = [pair for _, _, pairs in block for pair in pairs]
        for side, lines in zip(sides, zip(*pairs)):
            words = [word for line in lines for word in (*line, EOS)]
            side.add(vocabulary.encode(words), np.array([len(line) + 1 for line in lines]))
        for source, targets, pairs in block:
            if pairs or name != "train":
                texts.write(source, targets)
        report(sum(len(target) for _, target in pairs))
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
    _check_nothing_lost(name, tally, vocabulary, written, source_written)
    return Split(
        files=files,
        records=sum(file.records for file in files),
        sentences=tally.sentences,
        words=tally.words,
        tokens=int(written.sum()),
        oov=int(written[vocabulary.oov_id]),
        texts=texts.close(),
        pair_counts={
            "source_words": tally.source_words,
            "source_oov": int(source_written[vocabulary.oov_id]),
            **{n: getattr(tally, n) for n in ("cut_sources", "empty_pairs", "long_targets")},
        },
    )


def _check_nothing_lost(name, tally, vocabulary, written, source_written):
    """Compares the words in the records with what the first pass counted."""
    counted = [tally.words + tally.sentences, tally.source_words + tally.sentences]
    found = [int(written.sum()), int(source_written.sum())]
    same = name != "train" or np.array_equal(written, vocabulary.counts)
    if counted != found or not same:
        raise RuntimeError(
            f"`{name}`: every word must be written as often as it was counted; did the texts "
            f"change meanwhile? Received: {counted} words of targets and sources counted, {found} "
            "written"
        )

"""The second pass over a corpus: encodes words, orders sentences, and writes records."""

import zlib

import numpy as np

from tfsoftmax.corpora.orders import ORDERS
from tfsoftmax.corpora.splits import PAD, SentenceSplit
from tfsoftmax.corpora.tfrecord import RecordWriter
from tfsoftmax.support.vocabulary import EOS


def encode_split(
    blocks, name, tally, tokenizer, vocabulary, config, order, directory, scratch, report
):
    """Writes the record files of one split.

    Args:
        blocks: lists of lines, the same as in the first pass.
        name: the name of the split.
        tally: what the first pass counted.
        tokenizer: the `Tokenizer` of the first pass.
        vocabulary: the vocabulary of the corpus.
        config: the settings of `prepare`.
        order: the order of the sentences, a name in `ORDERS`.
        directory: the folder for the record files.
        scratch: the folder for scratch files, which are removed after use.
        report: a function that is called with the number of pieces in each block.

    Returns:
        The `SentenceSplit`.

    Raises:
        RuntimeError: the records do not hold what the first pass counted.
    """
    seed = (config.seed, zlib.crc32(name.encode()))
    ordered = ORDERS[order](
        scratch, tally.tokens, config.streams, config.time_steps, vocabulary.eos_id, seed
    )
    for ids, lengths in encode_blocks(blocks, tokenizer, vocabulary):
        ordered.add(ids, lengths)
        report(len(ids) - len(lengths))
    writer = RecordWriter(directory, name)
    written = np.zeros(len(vocabulary), dtype=np.int64)
    for records in ordered.records():
        _write(writer, records, written)
    files = writer.close()
    check_nothing_lost(
        name, tally.pieces, tally.sentences, vocabulary, written, all_words=bool(tally.counts)
    )
    return SentenceSplit.counted(
        files, tally, written, vocabulary, text_bytes=tally.text_bytes,
        changed_lines=tally.changed_lines,
    )


def encode_blocks(blocks, tokenizer, vocabulary):
    """Encodes the sentences of each block.

    Yields:
        ids: int32, the pieces of the sentences, with `<eos>` after each sentence.
        lengths: int64, the number of ids of each sentence.
    """
    for lines in blocks:
        words, lengths = [], []
        for line, sentence in zip(lines, tokenizer.encode_all(lines), strict=True):
            if line.strip():
                words += sentence
                words.append(EOS)
                lengths.append(len(sentence) + 1)
        yield vocabulary.encode(words), np.array(lengths, dtype=np.int64)


def _write(writer, records, written):
    writer.write(records)
    targets = records[:, :, 1:]
    written += np.bincount(targets[targets != PAD], minlength=len(written))


def check_nothing_lost(name, words, sentences, vocabulary, written, all_words):
    """Compares what is in the records with what the first pass counted.

    Args:
        name: the name of the split.
        words: how many words or pieces it has, without the `<eos>` of each sentence.
        sentences: how many sentences, or texts, it has.
        vocabulary: the vocabulary, with counts of the training split.
        written: int64 (V,), how often each word was written.
        all_words: whether each word must be written as often as the vocabulary counts it.

    Raises:
        RuntimeError: they differ.
    """
    tokens = words + sentences
    if written.sum() != tokens or written[vocabulary.eos_id] != sentences:
        raise RuntimeError(
            f"`{name}`: as many tokens must be written as were counted; did the text change "
            f"meanwhile? Received: {tokens} counted, {written.sum()} written"
        )
    if all_words and not np.array_equal(written, vocabulary.counts):
        word = vocabulary.words[np.flatnonzero(written != vocabulary.counts)[0]]
        raise RuntimeError(
            f"`{name}`: every word must be written as often as it was counted; did the text "
            f"change meanwhile? Received: another count of {word!r}"
        )

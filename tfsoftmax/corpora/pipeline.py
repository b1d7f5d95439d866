"""From record files to the batches that a language model is trained and evaluated on."""

import tensorflow as tf

from tfsoftmax.corpora.records import PAD


def batches(corpus, split, start=0, count=None):
    """Returns the batches of one split, in the order of the files.

    Stream b of batch r + 1 goes on where stream b of batch r ended, so the states of a
    recurrent layer carry over. Each stream begins with `<eos>` as its first input.

    Args:
        corpus: `tfsoftmax.corpora.records.Corpus`.
        split: name of a split, such as "train".
        start: first record to read; the records before it are not parsed.
        count: number of records; None: all that follow.

    Returns:
        A `tf.data.Dataset` of known length of `(words, next_words, weights)`: int32
        (B, T), int32 (B, T), float32 (B, T). B = streams, T = steps. `weights` is 1 for
        every word and `<eos>` of the split, each once, and 0 beyond the ragged ends of
        the streams, where both ids are `<eos>`.

    Raises:
        ValueError: no such split, `start` or `count` outside, or a damaged record file.

    Source: Müller 2017, section 4.2. There the ragged ends are cut off; here they are
        kept, with weight 0 where a stream has ended, so that no word is lost.
    """
    name, split = split, corpus.split(split)
    if not 0 <= start <= split.records:
        raise ValueError(
            f"`start` must lie in [0, {split.records}], the records of {name!r}. "
            f"Received: start={start}"
        )
    available = split.records - start
    if count is None:
        count = available
    elif not 0 <= count <= available:
        raise ValueError(
            f"`count` must lie in [0, {available}], the records of {name!r} from {start} on. "
            f"Received: count={count}"
        )
    files, skipped = _files_from(split.files, start)
    for file in files:
        file.verify()
    records = tf.data.TFRecordDataset([file.path for file in files], buffer_size=1 << 20)
    records = records.skip(start - skipped).take(count)
    parsed = records.map(_parser(corpus), num_parallel_calls=1, deterministic=True)
    return parsed.apply(tf.data.experimental.assert_cardinality(count)).prefetch(8)


def _files_from(files, start):
    """Returns the files from the one that holds record `start`, and the records before them."""
    skipped = 0
    for index, file in enumerate(files):
        if start < skipped + file.records:
            return files[index:], skipped
        skipped += file.records
    return files[-1:], skipped - files[-1].records


def _parser(corpus):
    shape = (corpus.streams, corpus.time_steps + 1)
    eos = tf.constant(corpus.vocabulary.eos_id, tf.int32)

    def parse(record):
        ids = tf.reshape(tf.io.decode_raw(record, tf.int32), shape)
        weights = tf.cast(tf.not_equal(ids[:, 1:], PAD), tf.float32)
        ids = tf.where(tf.equal(ids, PAD), eos, ids)
        return ids[:, :-1], ids[:, 1:], weights

    return parse

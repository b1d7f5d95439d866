"""Reads record files as the batches on which models are trained and evaluated."""

import keras
import tensorflow as tf

from tfsoftmax.corpora.records import PAD, Corpus


def batches(
    corpus: Corpus, split: str, start: int = 0, count: int | None = None,
    strategy: tf.distribute.Strategy | None = None,
) -> tf.data.Dataset:
    """Makes a dataset of the batches of one split, in the order of the files.

    Stream b of a batch continues stream b of the batch before, so that a recurrent layer can
    carry its states. The first input of each stream is `<eos>`, or the word before its part of
    the text if the corpus is in the order of the text.

    Args:
        corpus: the prepared corpus, with B streams of T time steps, or of batches of B pairs.
        split: the name of a split, such as "train".
        start: the first record to read. Earlier records are not parsed.
        count: the number of records to read; None to read all that follow.
        strategy: a strategy whose P replicas share the rows: replica p reads rows p B / P to
            (p + 1) B / P. None, or a strategy of one replica, for no sharing.

    Returns:
        A dataset of known length with elements `(words, next_words, weights)`: int32 (B, T),
        int32 (B, T), float32 (B, T). Each word and each `<eos>` of the split occurs once in
        `next_words` with weight 1. Where a stream has ended before the longest one, the weight
        is 0 and both ids are `<eos>`.

        For pairs the elements are `((source, words), next_words, weights)`: int32 (B, S), int32
        (B, T), int32 (B, T), float32 (B, T), where S and T differ from batch to batch, with at most
        36 shapes in a corpus. `<eos>` ends each source and fills it up to S; `real_words` tells
        the two apart. `words` begins with `<eos>`, and `next_words` ends with it. An empty pair
        whose weights are all 0 may stand in one batch of a split.

        For several replicas it is a distributed dataset that begins
        anew after its end, so that workers need not ask each other in each step for the end.

    Raises:
        ValueError: the rows cannot be shared equally, there is no such split, `start` or `count`
            is out of its range, or a record file is damaged.

    Source: Müller 2017, section 4.2. Departure: there the ends of the longer streams are cut
        off; here they are kept, so that no word is lost.
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
    parser = {"sentences": _sentence_parser, "pairs": _pair_parser}[corpus.task]
    parsed = records.map(parser(corpus), num_parallel_calls=1, deterministic=True)
    parsed = parsed.apply(tf.data.experimental.assert_cardinality(count))
    if strategy is None or strategy.num_replicas_in_sync == 1:
        return _prefetched(parsed)
    rows_of_each(corpus, strategy)
    return strategy.distribute_datasets_from_function(
        lambda worker: _prefetched(_of_worker(parsed, worker).repeat())
    )


def rows_of_each(corpus: Corpus, strategy: tf.distribute.Strategy) -> int:
    """The number of rows of a batch, streams or pairs, that each replica reads, or a ValueError."""
    name, size = next(iter(corpus.shape.items()))
    replicas = strategy.num_replicas_in_sync
    if size % replicas:
        raise ValueError(
            f"`{name}` must be a multiple of the number of devices, {replicas}: prepare the "
            f"corpus with another `{name}`, or use a number of devices that divides it, such as "
            f"one (--strategy=none). Received: {name}={size}"
        )
    return size // replicas


def real_words(source: tf.Tensor, eos_id: int) -> tf.Tensor:
    """Tells the words of sources, and the `<eos>` after each, from what fills the places behind.

    Args:
        source: int (B, S), sources of `batches`, or Keras's symbol for them. No text contains
            `<eos>` itself.
        eos_id: the id of `<eos>`.

    Returns:
        bool (B, S). Each row begins with at least one True, also that of an empty pair.
    """
    ends = keras.ops.cast(keras.ops.equal(source, eos_id), "int32")
    return keras.ops.equal(keras.ops.cumsum(ends, axis=1) - ends, 0)


def _of_worker(records, worker):
    """For each record, the rows of each replica of a worker, one replica after the other."""
    parts, here = worker.num_replicas_in_sync, worker.num_input_pipelines
    first = worker.input_pipeline_id * (parts // here)

    def share(array):
        whole = tf.reshape(array, (parts, array.shape[0] // parts, -1))
        whole = tf.ensure_shape(whole, (*whole.shape[:2], array.shape[1]))
        return whole[first : first + parts // here]

    return records.map(lambda *batch: tf.nest.map_structure(share, batch)).unbatch()


def _prefetched(dataset):
    options = tf.data.Options()
    # Nothing here is tuned. With the tuner, training hung at the deletion of an iterator after the
    # clock that libc tells was set back by a day (tests/torture).
    options.autotune.enabled = False
    return dataset.prefetch(8).with_options(options)


def _files_from(files, start):
    """The files from the one with record `start` on, and the number of records before them."""
    skipped = 0
    for index, file in enumerate(files):
        if start < skipped + file.records:
            return files[index:], skipped
        skipped += file.records
    return files[-1:], skipped - files[-1].records


def _sentence_parser(corpus):
    shape = (corpus.streams, corpus.time_steps + 1)
    eos = tf.constant(corpus.vocabulary.eos_id, tf.int32)

    def parse(record):
        ids = tf.reshape(tf.io.decode_raw(record, tf.int32), shape)
        weights = tf.cast(tf.not_equal(ids[:, 1:], PAD), tf.float32)
        ids = tf.where(tf.equal(ids, PAD), eos, ids)
        return ids[:, :-1], ids[:, 1:], weights

    return parse


def _pair_parser(corpus):
    rows, eos = corpus.batch_size, tf.constant(corpus.vocabulary.eos_id, tf.int32)

    def parse(record):
        ints = tf.io.decode_raw(record, tf.int32)
        end = 2 + rows * ints[0]
        source, targets = (tf.reshape(part, (rows, -1)) for part in (ints[2:end], ints[end:]))
        weights = tf.cast(tf.not_equal(targets, PAD), tf.float32)
        source, targets = (tf.where(tf.equal(ids, PAD), eos, ids) for ids in (source, targets))
        words = tf.pad(targets[:, :-1], [[0, 0], [1, 0]], constant_values=eos)
        return (source, words), targets, weights

    return parse

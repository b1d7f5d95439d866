"""Reads record files as the batches on which models are trained and evaluated."""

import tensorflow as tf

from tfsoftmax.corpora.records import Corpus
from tfsoftmax.support.arguments import expect


def batches(
    corpus: Corpus, split: str, start: int = 0, count: int | None = None,
    strategy: tf.distribute.Strategy | None = None,
) -> tf.data.Dataset:
    """Makes a dataset of the batches of one split, in the order of the files.

    Stream b of a batch continues stream b of the batch before, so that a recurrent layer can
    carry its states. The first input of each stream is `<eos>`, or the word before its part of
    the text if the corpus is in the order of the text.

    Args:
        corpus: the prepared corpus, with B streams of T time steps.
        split: the name of a split, such as "train".
        start: the first record to read. Earlier records are not parsed.
        count: the number of records to read; None to read all that follow.
        strategy: a strategy whose P replicas share the rows: replica p reads rows p B / P to
            (p + 1) B / P. None, or a strategy of one replica, for no sharing.

    Returns:
        A dataset of known length with elements `(words, next_words, weights)`: int32 (B, T),
        int32 (B, T), float32 (B, T). Each word and each `<eos>` of the split occurs once in
        `next_words` with weight 1. Where a stream has ended before the longest one, the weight
        is 0 and both ids are `<eos>`. The elements of another kind of corpus are what its `parser`
        returns.

        For several replicas it is a distributed dataset that begins
        anew after its end, so that workers need not ask each other in each step for the end.

    Raises:
        ValueError: the rows cannot be shared equally, there is no such split, `start` or `count`
            is out of its range, or a record file is damaged.

    Source: Müller 2017, section 4.2. Departure: there the ends of the longer streams are cut
        off; here they are kept, so that no word is lost.
    """
    name, split = split, corpus.split(split)
    expect(0 <= start <= split.records, "start",
           f"lie in [0, {split.records}], the records of {name!r}", start)
    available = split.records - start
    count = available if count is None else count
    expect(0 <= count <= available, "count",
           f"lie in [0, {available}], the records of {name!r} from {start} on", count)
    files, skipped = _files_from(split.files, start)
    for file in files:
        file.verify()
    records = tf.data.TFRecordDataset([file.path for file in files], buffer_size=1 << 20)
    records = records.skip(start - skipped).take(count)
    parsed = records.map(corpus.parser(), num_parallel_calls=1, deterministic=True)
    parsed = parsed.apply(tf.data.experimental.assert_cardinality(count))
    if strategy is None or strategy.num_replicas_in_sync == 1:
        return _prefetched(parsed)
    rows_of_each(corpus, strategy)
    return strategy.distribute_datasets_from_function(
        lambda worker: _prefetched(_of_worker(parsed, worker).repeat())
    )


def rows_of_each(corpus: Corpus, strategy: tf.distribute.Strategy) -> int:
    """The number of rows of a batch that each replica reads, or a ValueError."""
    name, size = next(iter(corpus.shape.items()))
    replicas = strategy.num_replicas_in_sync
    expect(size % replicas == 0, name, f"be a multiple of the number of devices, {replicas}: "
           f"prepare the corpus with another `{name}`, or use a number of devices that divides it, "
           "such as one (--strategy=none)", size)
    return size // replicas


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

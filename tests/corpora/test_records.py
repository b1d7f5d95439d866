"""Facts about prepared corpora on disk: framing, manifest, what `Corpus.load` refuses."""

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_equal
from refusals import refused
from runs_helper import read_despite_damage
from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import publishing, tfrecord
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.splits import SentenceSplit
from tfsoftmax.corpora.streams import Streams
from tfsoftmax.corpora.tfrecord import RecordWriter
from tfsoftmax.support.vocabulary import Vocabulary

STREAMS, STEPS = 3, 4


def make_corpus(directory, sentence_lengths=(5, 2, 7, 1, 3, 3, 4, 9, 2), shard_bytes=1 << 20):
    """Writes a corpus whose words count up, so that each is distinct; returns its sentences."""
    total = sum(sentence_lengths)
    words = [f"w{i}" for i in range(total)]
    vocabulary = Vocabulary(["<unk>", "<eos>", *words], [0, len(sentence_lengths)] + [1] * total)
    ends = np.cumsum(sentence_lengths)
    sentences = np.split(np.arange(2, total + 2, dtype=np.int32), ends[:-1])
    ids = np.concatenate([np.append(sentence, 1) for sentence in sentences]).astype(np.int32)
    streams = Streams(STREAMS, STEPS, eos_id=1)
    streams.deal(ids, np.array(sentence_lengths) + 1)
    writer = RecordWriter(directory, "train", shard_bytes)
    writer.write(streams.cut())
    writer.write(streams.finish())
    files = writer.close()
    count = sum(file.records for file in files)
    split = SentenceSplit(files, count, len(sentences), total, total + len(sentences), 0, 9, 0)
    vocabulary.save(os.path.join(directory, manifests.VOCABULARY))
    settings = {"task": "sentences", "order": "text", "streams": STREAMS, "time_steps": STEPS}
    manifests.write_manifest(directory, "tiny", settings, vocabulary, {"train": split})
    return [sentence.tolist() for sentence in sentences]


def test_framing_equals_that_of_tensorflow(tmp_path):
    payloads = np.random.default_rng(3).integers(-(2**31), 2**31, (37, 21)).astype("<i4")
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for row in payloads:
            writer.write(row.tobytes())
    ours = tfrecord.frame(payloads).tobytes()
    assert ours == (tmp_path / "theirs").read_bytes()
    assert len(ours) == 37 * tfrecord.framed_bytes(21)


def test_first_input_is_eos_and_inputs_are_the_targets_one_step_later(tmp_path):
    make_corpus(tmp_path)
    corpus = Corpus.load(tmp_path)
    words, next_words, _ = (
        np.concatenate(x, axis=1) for x in zip(*batches(corpus, "train").as_numpy_iterator())
    )
    np.testing.assert_array_equal(words[:, 0], corpus.vocabulary.eos_id)
    np.testing.assert_array_equal(words[:, 1:], next_words[:, :-1])


def test_weight_is_zero_only_after_the_end_of_a_stream_and_ids_are_valid_there(tmp_path):
    make_corpus(tmp_path)
    corpus = Corpus.load(tmp_path)
    words, next_words, weights = (
        np.concatenate(x, axis=1) for x in zip(*batches(corpus, "train").as_numpy_iterator())
    )
    assert (np.diff(weights, axis=1) <= 0).all() and 0 < weights.mean() < 1
    np.testing.assert_array_equal(next_words[weights == 0], corpus.vocabulary.eos_id)
    assert words.min() >= 0


@pytest.mark.parametrize("shard_bytes", [1, 200, 1 << 20])
def test_any_range_of_records_equals_that_part_of_the_whole(tmp_path, shard_bytes):
    make_corpus(tmp_path, shard_bytes=shard_bytes)
    corpus = Corpus.load(tmp_path)
    total = corpus.splits["train"].records
    assert (len(corpus.splits["train"].files) > 1) == (shard_bytes < 1 << 20)
    whole = list(batches(corpus, "train").as_numpy_iterator())
    assert len(whole) == total > 2
    for start in range(total + 1):
        for count in [None, *range(total - start + 1)]:
            part = batches(corpus, "train", start, count)
            expected = whole[start:] if count is None else whole[start : start + count]
            assert len(part) == len(expected)
            for batch, other in zip(part.as_numpy_iterator(), expected, strict=True):
                assert_all_equal(batch, other)


def test_batches_have_static_shapes_and_types(tmp_path):
    make_corpus(tmp_path)
    spec = batches(Corpus.load(tmp_path), "train").element_spec
    assert [(s.shape.as_list(), s.dtype) for s in spec] == [
        ([STREAMS, STEPS], tf.int32), ([STREAMS, STEPS], tf.int32), ([STREAMS, STEPS], tf.float32)
    ]


@pytest.mark.parametrize("arguments, message", [
    ({"split": "test"}, "`split` must be one of train.*Received: split='test'"),
    ({"split": "train", "start": -1}, "`start` must lie in .*Received: start=-1"),
    ({"split": "train", "start": 99}, "`start` must lie in .*Received: start=99"),
    ({"split": "train", "start": 1, "count": 99}, "`count` must lie in .*count=99"),
])
def test_bad_ranges_are_refused(tmp_path, arguments, message):
    make_corpus(tmp_path)
    refused(message, batches, Corpus.load(tmp_path), **arguments)


def test_directory_without_manifest_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a corpus made by `tfsoftmax prepare`"):
        Corpus.load(tmp_path)


def test_truncated_record_file_is_refused(tmp_path):
    make_corpus(tmp_path)
    path = tmp_path / "train-00000.tfrecord"
    path.write_bytes(path.read_bytes()[:-7])
    refused("train-00000.tfrecord: must have .* bytes", Corpus.load, tmp_path)


def test_missing_record_file_is_refused(tmp_path):
    make_corpus(tmp_path)
    (tmp_path / "train-00000.tfrecord").unlink()
    with pytest.raises(FileNotFoundError, match="train-00000.tfrecord: must exist next"):
        Corpus.load(tmp_path)


def test_foreign_record_file_of_the_same_size_is_refused_when_read(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    make_corpus(tmp_path / "a", (1, 2, 3, 4, 5, 6))
    make_corpus(tmp_path / "b", (6, 5, 4, 3, 2, 1))
    file = "train-00000.tfrecord"
    (tmp_path / "a" / file).write_bytes((tmp_path / "b" / file).read_bytes())
    corpus = Corpus.load(tmp_path / "a")
    refused("train-00000.tfrecord: must be as it was", batches, corpus, "train")


def test_vocabulary_of_another_corpus_is_refused(tmp_path):
    make_corpus(tmp_path)
    Vocabulary.build({"other": 1}).save(tmp_path / manifests.VOCABULARY)
    refused("vocabulary.txt: must be the vocabulary that the record", Corpus.load, tmp_path)


@pytest.mark.parametrize("change, message", [
    ({"version": 99}, "must be of version 1.*Received: version 99"),
    ({"format": "other"}, "must be the manifest of a tfsoftmax corpus"),
    ({"splits": {"train": {}}}, "`splits.train` must have 'records'; prepare the corpus again"),
])
def test_damaged_manifest_is_refused(tmp_path, change, message):
    make_corpus(tmp_path)
    path = tmp_path / manifests.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(f"manifest.json: {message}", Corpus.load, tmp_path)


def test_every_damage_to_a_manifest_is_named_or_changes_nothing_that_is_read(tmp_path):
    make_corpus(tmp_path)
    path = tmp_path / manifests.MANIFEST
    manifest = json.loads(path.read_text())
    whole = Corpus.load(tmp_path)
    values = None, -1, True, 1.5, "x", "../x.tfrecord", [], {}, [0], {"x": 1}
    for read in read_despite_damage(path, manifest, values, Corpus.load):
        assert (read.streams, read.time_steps) == (whole.streams, whole.time_steps)
        assert [f.path for s in read.splits.values() for f in s.files] == [
            f.path for name in read.splits for f in whole.splits[name].files
        ]
        for split in read.splits.values():
            assert {type(split.tokens), type(split.oov), type(split.words)} == {int}
        assert not manifests.is_ours(tmp_path) or publishing._is_prepared(
            Corpus, str(tmp_path), read.name, read.settings, overwrite=True
        ) in (True, False)


def test_manifest_that_is_no_json_is_refused(tmp_path):
    make_corpus(tmp_path)
    (tmp_path / manifests.MANIFEST).write_text("{")
    refused("manifest.json: must be JSON. Received: Expecting", Corpus.load, tmp_path)


def test_loaded_corpus_is_frozen_and_counts_match(tmp_path):
    sentences = make_corpus(tmp_path)
    corpus = Corpus.load(tmp_path)
    split = corpus.splits["train"]
    assert (split.sentences, split.words) == (len(sentences), sum(map(len, sentences)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        corpus.name = "other"


def test_no_thread_of_an_iterator_waits_for_the_clock(corpus):
    """`make torture` sets the clock back during training, which such a thread would make hang."""
    assert batches(corpus, "train").options().autotune.enabled is False

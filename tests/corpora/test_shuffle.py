"""Facts about the shuffle and the streams."""

import itertools
import os

import numpy as np
import pytest

from tfsoftmax.corpora import orders
from tfsoftmax.corpora.orders import ExternalShuffle
from tfsoftmax.corpora.splits import PAD
from tfsoftmax.corpora.streams import Streams, gather_sentences

EOS = 0


def make_sentences(count, seed=0):
    """Returns distinct sentences that end in EOS, as (list of tuples, ids, lengths)."""
    lengths = np.random.default_rng(seed).integers(2, 9, count)
    ids = np.arange(1, lengths.sum() + 1, dtype=np.int32)
    ids[np.cumsum(lengths) - 1] = EOS
    return split(ids), ids, lengths


def split(ids):
    return [tuple(part) for part in np.split(ids, np.flatnonzero(ids == EOS) + 1)[:-1]]


def shuffled(directory, ids, lengths, pieces=1, **options):
    shuffle = ExternalShuffle(directory, len(ids), EOS, **options)
    for part in np.array_split(np.arange(len(lengths)), pieces):
        shuffle.add(gather_sentences(ids, lengths, part), lengths[part])
    return np.concatenate([ids for ids, _ in shuffle.drain()])


@pytest.mark.parametrize("bucket_tokens", [20, 100, 10_000])
def test_shuffle_is_a_permutation_of_whole_sentences(tmp_path, bucket_tokens):
    sentences, ids, lengths = make_sentences(60)
    out = split(shuffled(tmp_path, ids, lengths, 3, seed=1, bucket_tokens=bucket_tokens))
    assert sorted(out) == sorted(sentences) and out != sentences
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("block_tokens", [10, 4_000_000])
def test_shuffle_depends_on_the_seed_and_not_on_the_blocks(tmp_path, monkeypatch, block_tokens):
    _, ids, lengths = make_sentences(60)
    options = {"bucket_tokens": 50}
    one = shuffled(tmp_path, ids, lengths, 1, seed=1, **options)
    monkeypatch.setattr(orders, "BLOCK_TOKENS", block_tokens)
    np.testing.assert_array_equal(one, shuffled(tmp_path, ids, lengths, 7, seed=1, **options))
    assert not np.array_equal(one, shuffled(tmp_path, ids, lengths, 1, seed=2, **options))


def test_every_order_of_sentences_is_equally_likely(tmp_path):
    ids = np.array([1, EOS, 2, EOS, 3, EOS, 4, EOS], dtype=np.int32)
    lengths = np.array([2, 2, 2, 2])
    trials = 2400
    counts = dict.fromkeys(itertools.permutations([1, 2, 3, 4]), 0)
    for seed in range(trials):
        out = shuffled(tmp_path, ids, lengths, seed=seed, bucket_tokens=3)
        counts[tuple(out[out != EOS].tolist())] += 1
    expected = trials / 24
    chi_square = sum((n - expected) ** 2 / expected for n in counts.values())
    assert chi_square < 50  # 23 degrees of freedom: exceeded with probability 0.001


def test_gathered_sentences_equal_a_loop():
    sentences, ids, lengths = make_sentences(20)
    order = np.random.default_rng(1).permutation(20)[:13]
    expected = [i for number in order for i in sentences[number]]
    assert gather_sentences(ids, lengths, order).tolist() == expected


@pytest.mark.parametrize("pieces", [1, 2, 9])
def test_streams_hold_every_sentence_once_whole_and_in_order(pieces):
    sentences, ids, lengths = make_sentences(50)
    streams = Streams(3, 4, EOS)
    records = []
    for part in np.array_split(np.arange(50), pieces):
        streams.deal(gather_sentences(ids, lengths, part), lengths[part])
        records.append(streams.cut())
        assert (records[-1] != PAD).all()
    records = np.concatenate([*records, streams.finish()])
    rows = np.concatenate([records[0, :, :1], *records[:, :, 1:]], axis=1)
    np.testing.assert_array_equal(records[1:, :, 0], records[:-1, :, -1])
    found = []
    for row in rows:
        real = row[row != PAD]
        assert real[0] == EOS and (row[len(real) :] == PAD).all()
        found.append(split(real[1:]))
        assert found[-1] == sorted(found[-1])
    assert sorted(sum(found, [])) == sentences
    assert max(map(len, rows)) - min((row != PAD).sum() for row in rows) <= 9 + 4


def test_cut_records_do_not_depend_on_when_they_are_cut():
    _, ids, lengths = make_sentences(50)
    whole, piecewise = Streams(3, 4, EOS), Streams(3, 4, EOS)
    whole.deal(ids, lengths)
    parts = []
    for part in np.array_split(np.arange(50), 8):
        piecewise.deal(gather_sentences(ids, lengths, part), lengths[part])
        parts.append(piecewise.cut())
    parts.append(piecewise.finish())
    np.testing.assert_array_equal(whole.finish(), np.concatenate(parts))


def test_more_streams_than_sentences_leave_streams_empty():
    streams = Streams(4, 3, EOS)
    streams.deal(np.array([7, EOS], dtype=np.int32), np.array([2]))
    np.testing.assert_array_equal(
        streams.finish(), [[[EOS, 7, EOS, PAD]] + [[EOS, PAD, PAD, PAD]] * 3]
    )

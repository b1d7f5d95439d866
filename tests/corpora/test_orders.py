"""Facts about the order of the text, and its choice by `prepare`."""

import os

import numpy as np
import pytest

from tfsoftmax.corpora import orders, records
from tfsoftmax.corpora.catalogue import ORDERS
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.prepare import PrepareConfig, prepare, summary

EOS, PAD = 0, records.PAD
LINES = [" ".join(f"w{i}" for i in range(k, k + 2 + k % 5)) for k in range(37)]


def in_text_order(directory, ids, streams, time_steps, pieces=3):
    order = orders.TextOrder(str(directory), len(ids), streams, time_steps, EOS, seed=1)
    for part in np.array_split(np.asarray(ids, np.int32), pieces):
        order.add(part, np.array([len(part)]))
    found = list(order.records())
    assert os.listdir(directory) == []
    assert all(part.dtype == np.dtype("<i4") for part in found)
    return np.concatenate(found)


@pytest.mark.parametrize("tokens, streams, time_steps", [
    (60, 4, 5), (61, 4, 5), (59, 4, 5), (7, 3, 4), (5, 7, 2), (1, 1, 1), (1, 3, 4), (83, 1, 6),
])
@pytest.mark.parametrize("chunk", [1, 50, 1000])
def test_streams_are_contiguous_parts_of_the_text(
    tmp_path, monkeypatch, tokens, streams, time_steps, chunk
):
    monkeypatch.setattr(orders, "_CHUNK_TOKENS", chunk)
    ids = np.arange(1, tokens + 1)
    found = in_text_order(tmp_path, ids, streams, time_steps)
    length = -(-tokens // streams)
    expected = np.full((streams, -(-length // time_steps), time_steps + 1), PAD)
    for place, token in enumerate(ids):  # place by place, from what the docstring promises
        stream, offset = divmod(place, length)
        record, step = divmod(offset, time_steps)
        expected[stream, record, step + 1] = token
        expected[stream, record, step] = ids[place - 1] if place else EOS
        if offset % time_steps == time_steps - 1 and offset < length - 1:
            expected[stream, record + 1, 0] = token
    inside = expected[..., 1:] != PAD
    found = found.transpose(1, 0, 2)
    np.testing.assert_array_equal(found[..., 1:], expected[..., 1:])
    np.testing.assert_array_equal(found[..., :-1][inside], expected[..., :-1][inside])


@pytest.fixture
def text(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return str(tmp_path / "train.txt")


def prepared(text, tmp_path, name="out", **options):
    options = {"streams": 3, "time_steps": 4, **options}
    config = PrepareConfig(
        "text", str(tmp_path / name), train=text, valid=text, overwrite=True, **options
    )
    return prepare(config, progress=False)


def test_the_weighted_targets_of_the_streams_spell_the_text(text, tmp_path):
    corpus = prepared(text, tmp_path, order="text")
    targets, inputs = [[[] for _ in range(3)] for _ in range(2)]
    for words, next_words, weights in batches(corpus, "train").as_numpy_iterator():
        for row in range(3):
            taken = weights[row] > 0
            inputs[row] += corpus.vocabulary.decode(words[row][taken])
            targets[row] += corpus.vocabulary.decode(next_words[row][taken])
    spelled = [word for stream in targets for word in stream]
    assert spelled == [w for line in LINES for w in [*line.split(), "<eos>"]]
    assert [word for stream in inputs for word in stream] == ["<eos>", *spelled[:-1]]
    assert corpus.order == "text" and "in the order of the text" in summary(corpus)


def test_the_seed_does_not_matter_for_the_order_of_the_text(text, tmp_path):
    made = [prepared(text, tmp_path, str(seed), order="text", seed=seed) for seed in (1, 2)]
    files = [corpus.split("train").files[0] for corpus in made]
    assert files[0].sha256 == files[1].sha256 and made[0].settings == made[1].settings


def test_another_order_is_another_corpus(text, tmp_path):
    assert prepared(text, tmp_path).order == "shuffled"
    with pytest.raises(ValueError, match="order is 'shuffled', not 'text'"):
        prepare(PrepareConfig(
            "text", str(tmp_path / "out"), train=text, valid=text, streams=3, time_steps=4,
            order="text",
        ), progress=False)


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="`order` must be one of text, shuffled. .*'sorted'"):
        PrepareConfig("text", "out", order="sorted")


def test_corpora_whose_published_results_carry_the_state_keep_their_order():
    assert {name for name, order in ORDERS.items() if order == "text"} == {
        "ptb", "wikitext2", "wikitext103"
    }
    assert set(ORDERS.values()) == set(orders.ORDERS)

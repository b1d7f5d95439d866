"""Facts about pairs that several devices read together."""

import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from tfsoftmax.corpora.pipeline import _of_worker, batches, rows_of_each
from tfsoftmax.pairs.config import PairsConfig
from tfsoftmax.pairs.corpus import PairCorpus
from tfsoftmax.pairs.prepare import prepare


@pytest.fixture
def pairs(tmp_path):
    rng = np.random.default_rng(0)
    with open(tmp_path / "train.tsv", "w") as file:
        for _ in range(43):
            a, b = (" ".join(rng.choice(list("abcdef"), rng.integers(1, 15))) for _ in range(2))
            print(a, b, sep="\t", file=file)
    return prepare(PairsConfig(
        "text", str(tmp_path / "data"), str(tmp_path / "train.tsv"), batch_size=8
    ), progress=False)


def flat(batch):
    return [np.asarray(array) for array in tf.nest.flatten(batch)]


def rows_of_replicas(directory):
    """What two replicas read: for each record, the arrays of each replica, flattened."""
    corpus, strategy = PairCorpus.load(directory), replicas_helper.strategy_here()
    found, steps = [], iter(batches(corpus, "train", 1, strategy=strategy))
    for _ in range(corpus.split("train").records - 1):
        (source, words), next_words, weights = next(steps)
        arrays = [strategy.experimental_local_results(each)
                  for each in (source, words, next_words, weights)]
        found.append([[array.numpy() for array in replica] for replica in zip(*arrays)])
    return found


def test_two_replicas_read_the_halves_of_each_batch(pairs):
    expected = list(batches(pairs, "train", 1).as_numpy_iterator())
    (found,) = replicas_helper.run(rows_of_replicas, devices=2, directory=pairs.directory)
    assert len(found) == len(expected) == 5
    for replicas, batch in zip(found, expected):
        for arrays in zip(*replicas, flat(batch), strict=True):
            np.testing.assert_array_equal(np.concatenate(arrays[:2]), arrays[2])


@pytest.mark.parametrize("replicas, processes", [(2, 2), (4, 2), (8, 1)])
def test_the_rows_of_all_processes_are_the_batch(pairs, replicas, processes):
    whole = batches(pairs, "train")
    shares = [
        list(_of_worker(whole, tf.distribute.InputContext(processes, i, replicas)))
        for i in range(processes)
    ]
    here = replicas // processes
    for number, batch in enumerate(whole):
        parts = [
            flat(share[number * here + replica]) for share in shares for replica in range(here)
        ]
        for *arrays, expected in zip(*parts, flat(batch)):
            np.testing.assert_array_equal(np.concatenate(arrays), expected)


def test_batches_that_devices_cannot_share_are_refused(pairs):
    class Three:
        num_replicas_in_sync = 3

    with pytest.raises(ValueError, match="`batch_size` must be a multiple of the number of device"):
        rows_of_each(pairs, Three())

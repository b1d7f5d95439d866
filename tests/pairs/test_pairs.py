"""Facts about corpora of pairs: what is kept, how it is laid out, and that it is read back."""

import collections
import contextlib
import gzip
import itertools
import json
import os

import numpy as np
import pytest
from pair_files import BATCH, as_words, prepared, read_back

from cases import assert_all_equal
from runs_helper import read_despite_damage
from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.prepare import prepare
from tfsoftmax.pairs import batches as pair_batches
from tfsoftmax.pairs.corpus import PairCorpus
from tfsoftmax.pairs.model import real_words
from tfsoftmax.pairs.prepare import summary
from tfsoftmax.pairs.texts import texts
from tfsoftmax.support.progress import Progress


def test_every_pair_of_every_split_is_in_the_batches_once(tmp_path, pairs):
    corpus = prepared(tmp_path)
    assert corpus.vocabulary.eos_id > 0
    for split, rows in pairs.items():
        assert sorted(read_back(corpus, split)) == sorted(as_words(rows, corpus.vocabulary))
        found = corpus.split(split)
        assert (found.sentences, found.records) == (len(rows), -(-len(rows) // BATCH))
        assert found.words == sum(len(target.split()) for _, target in rows)
        assert found.tokens == found.words + len(rows)
        sources = [word for source, _ in as_words(rows, corpus.vocabulary) for word in source]
        assert found.source_words == len(sources)
        assert found.source_oov == sources.count("<unk>")
    assert "200" in summary(corpus) and "empty" in summary(corpus)
    table = summary(corpus).splitlines()
    assert len({len(line) for line in table[1:]}) == 1


def test_progress_counts_the_words_of_all_targets(tmp_path, pairs, monkeypatch):
    done, phase = collections.Counter(), Progress.phase

    @contextlib.contextmanager
    def counted(self, description, total=None, unit="words"):
        with phase(self, description, total, unit):
            yield lambda words: done.update({description: words})

    monkeypatch.setattr(Progress, "phase", counted)
    corpus = prepared(tmp_path)
    for name, split in corpus.splits.items():
        assert done[f"counting {name}"] == done[f"encoding {name}"] == split.words > 0


def test_two_files_make_the_same_records_as_one_with_tabs(tmp_path, pairs):
    files = {}
    for split, rows in pairs.items():
        for name, column in ((split, 0), (f"{split}_targets", 1)):
            files[name] = str(tmp_path / f"{name}.txt")
            with open(files[name], "w", encoding="utf-8") as file:
                file.writelines(f"{row[column]}\n" for row in rows)
    one = prepared(tmp_path)
    two = prepared(tmp_path, out=str(tmp_path / "two"), **files)
    assert one.vocabulary.sha256 == two.vocabulary.sha256
    for split in pairs:
        assert [file.sha256 for file in one.split(split).all_files] == [
            file.sha256 for file in two.split(split).all_files
        ]


def test_batches_have_few_shapes_and_little_padding(tmp_path, pairs):
    corpus, shapes, places, real = prepared(tmp_path, batch_size=2), collections.Counter(), 0, 0
    order = []
    for (source, words), next_words, weights in batches(corpus, "train").as_numpy_iterator():
        assert words.shape == next_words.shape == weights.shape
        order.append(source.shape[1])
        shapes[source.shape[1], words.shape[1]] += 1
        places += source.size + words.size
        real += real_words(source, corpus.vocabulary.eos_id).numpy().sum() + weights.sum()
    assert 4 < len(shapes) <= 36
    assert order != sorted(order)
    longest = sum(np.max(list(shapes), axis=0)) * 2 * shapes.total()
    assert places - real < (longest - real) / 3


def test_any_range_of_records_equals_that_part_of_the_whole(tmp_path, pairs):
    corpus = prepared(tmp_path, batch_size=40)
    whole = list(batches(corpus, "train").as_numpy_iterator())
    assert len(whole) == 5
    for start, count in itertools.product(range(6), (None, 0, 1, 2)):
        if count is not None and start + count > 5:
            continue
        part = list(batches(corpus, "train", start, count).as_numpy_iterator())
        expected = whole[start:] if count is None else whole[start : start + count]
        assert len(part) == len(expected)
        for a, b in zip(part, expected):
            assert_all_equal((*a[0], *a[1:]), (*b[0], *b[1:]))


def test_same_seed_gives_the_same_bytes_and_another_seed_other_batches(tmp_path, pairs):
    found = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        prepared(tmp_path, out=str(tmp_path / name), seed=seed)
        folder = tmp_path / name
        found.append({path: (folder / path).read_bytes() for path in os.listdir(folder)})
    assert found[0] == found[1]
    same = {name for name in found[0] if found[0][name] == found[2][name]}
    assert {"vocabulary.txt", *(f"{split}-texts.tsv.gz" for split in pairs)} <= same
    assert "train-00000.tfrecord" not in same


def most_frequent(counts, size):
    return sorted(set(counts) - {"<unk>"}, key=lambda word: (-counts[word], word))[:size]


@pytest.mark.parametrize("words_of, most", [("targets", 5), ("both", 15)])
def test_vocabulary_has_the_most_frequent_words_and_their_counts_in_the_targets(
    tmp_path, pairs, words_of, most
):
    targets = collections.Counter(" ".join(target for _, target in pairs["train"]).split())
    both = collections.Counter(" ".join(map("\t".join, pairs["train"])).split())
    vocabulary = prepared(tmp_path, max_vocab=most + 2, vocabulary_from=words_of).vocabulary
    kept = most_frequent({"targets": targets, "both": both}[words_of], most)
    assert set(vocabulary.words) == {*kept, "<unk>", "<eos>"}
    assert any(word in vocabulary for word in ("s0", "s3")) == (words_of == "both")
    counts = dict(zip(vocabulary.words, vocabulary.counts.tolist()))
    assert all(counts[word] == targets[word] for word in kept)
    assert counts["<eos>"] == 200 and sum(counts.values()) == sum(targets.values()) + 200
    assert vocabulary.counts.tolist() == sorted(vocabulary.counts.tolist(), reverse=True)


def test_texts_are_kept_with_all_references_and_their_unknown_words(tmp_path, pairs):
    with gzip.open(tmp_path / "test.tsv.gz", "at", encoding="utf-8") as file:
        file.write("an  unseen source\tfirst unseen\t\tthird one\n")
    corpus = prepared(tmp_path)
    for split in ("train", "valid"):
        assert list(texts(corpus, split)) == [(s, (t,)) for s, t in pairs[split]]
    *_, last = texts(corpus, "test")
    assert last == ("an unseen source", ("first unseen", "third one"))
    test = corpus.split("test")
    assert (test.sentences, test.empty_pairs, test.texts.records) == (14, 1, 13)
    unknown = ["<unk>"] * 2
    assert read_back(corpus, "test").count((unknown + ["<unk>"], unknown)) == 2


def test_titles_as_sentences_have_the_vocabulary_of_the_pairs(tmp_path, pairs):
    """So that clusters which a language model learns on titles fit the model of the pairs."""
    corpus = prepared(tmp_path, max_vocab=9)
    with open(tmp_path / "titles.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{target}\n" for _, (target,) in texts(corpus, "train"))
    of_titles = prepare(PrepareConfig(
        "text", str(tmp_path / "titles"), str(tmp_path / "titles.txt"), max_vocab=9, streams=2
    ), progress=False)
    assert of_titles.vocabulary.sha256 == corpus.vocabulary.sha256


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_widths_leave_the_fewest_places_empty(count):
    rng = np.random.default_rng(count)
    for _ in range(20):
        lengths = {int(k): int(rng.integers(1, 9)) for k in rng.choice(15, 6, False) + 1}
        longest = max(lengths) + int(rng.integers(3))

        def places(ends, lengths=lengths):
            return sum(n * min(e for e in ends if e >= k) for k, n in lengths.items())

        found = pair_batches.widths(lengths, longest, count).tolist()
        others = itertools.combinations_with_replacement(lengths, count - 1)
        assert places(found) == min(places([*ends, longest]) for ends in others)
        assert found[-1] == longest and found == sorted(set(found)) and len(found) <= count


def test_every_damage_to_a_manifest_is_named_or_changes_nothing_that_is_read(tmp_path, pairs):
    whole = prepared(tmp_path)
    path = tmp_path / "out" / manifests.MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["settings"]["inputs"]
    values = None, -1, True, "../x.tfrecord", [0], {"x": 1}
    for read in read_despite_damage(path, manifest, values, PairCorpus.load):
        assert read.shape == whole.shape and summary(read)
        assert [f.path for s in read.splits.values() for f in s.all_files] == [
            f.path for name in read.splits for f in whole.splits[name].all_files
        ]

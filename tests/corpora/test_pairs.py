"""Facts about corpora of pairs: what is kept, how it is laid out, and that it is read back."""

import collections
import gzip
import itertools
import json
import os

import numpy as np
import pytest
from test_records import places

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import pair_batches
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.pair_texts import texts
from tfsoftmax.corpora.pipeline import batches, real_words
from tfsoftmax.corpora.prepare import prepare, summary
from tfsoftmax.corpora.records import Corpus

WORDS = ["the", "cat", "sat", "naïve", "on", "a", "mat", "of", "<unk>", "straw", "."]
BATCH = 6


def make_pairs(count, seed):
    rng = np.random.default_rng(seed)

    def text(most):
        return " ".join(rng.choice(WORDS, rng.integers(1, most)))

    # More words are "the" than there are pairs, so that `<eos>` is not the word of id 0.
    return [(f"{text(25)} s{i % 7}", f"the {text(9)}") for i in range(count)]


@pytest.fixture
def pairs(tmp_path):
    """Compressed files of pairs with tabs; returns a dict from split to pairs."""
    pairs = {"train": make_pairs(200, 0), "valid": make_pairs(31, 1), "test": make_pairs(12, 2)}
    for split, rows in pairs.items():
        with gzip.open(tmp_path / f"{split}.tsv.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{source}\t{target}\n" for source, target in rows)
    return pairs


def config(tmp_path, **changes):
    files = {split: str(tmp_path / f"{split}.tsv.gz") for split in ("train", "valid", "test")}
    settings = {"task": "pairs", "corpus": "text", "out": str(tmp_path / "out"),
                "batch_size": BATCH}
    return PrepareConfig(**settings | files | changes)


def prepared(tmp_path, **changes):
    return prepare(config(tmp_path, **changes), progress=False)


def read_back(corpus, split):
    """The pairs that the batches of a split spell, in order, as lists of words."""
    found, vocabulary = [], corpus.vocabulary
    for (source, words), next_words, weights in batches(corpus, split).as_numpy_iterator():
        real = real_words(source, vocabulary.eos_id).numpy()
        for s, r, w, n, weight in zip(source, real, words, next_words, weights):
            length = int(weight.sum())
            if not length:
                assert r.sum() == 1 and (w == vocabulary.eos_id).all()
                continue
            assert weight[:length].all()
            target, text = n[:length].tolist(), s[r].tolist()
            assert target[-1] == text[-1] == vocabulary.eos_id == w[0]
            assert w[1:length].tolist() == target[:-1]
            found.append((vocabulary.decode(text[:-1]), vocabulary.decode(target[:-1])))
    return found


def as_words(pairs, vocabulary):
    def known(text):
        return [word if word in vocabulary else "<unk>" for word in text.split()]

    return [(known(source), known(target)) for source, target in pairs]


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
        assert found.pair_counts["source_words"] == len(sources)
        assert found.pair_counts["source_oov"] == sources.count("<unk>")
    assert "200" in summary(corpus) and "empty" in summary(corpus)
    table = summary(corpus).splitlines()
    assert len({len(line) for line in table[1:]}) == 1


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
            for x, y in zip((*a[0], *a[1:]), (*b[0], *b[1:]), strict=True):
                np.testing.assert_array_equal(x, y)


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


def test_vocabulary_has_the_most_frequent_words_of_the_targets_and_their_counts(tmp_path, pairs):
    targets = collections.Counter(" ".join(target for _, target in pairs["train"]).split())
    vocabulary = prepared(tmp_path, max_vocab=7).vocabulary
    kept = most_frequent(targets, 5)
    assert set(vocabulary.words) == {*kept, "<unk>", "<eos>"}
    counts = dict(zip(vocabulary.words, vocabulary.counts.tolist()))
    assert all(counts[word] == targets[word] for word in kept)
    assert counts["<eos>"] == 200 and sum(counts.values()) == sum(targets.values()) + 200


def test_vocabulary_of_both_sides_has_the_counts_of_the_targets(tmp_path, pairs):
    everything = collections.Counter(" ".join(map("\t".join, pairs["train"])).split())
    vocabulary = prepared(tmp_path, max_vocab=17, vocabulary_from="both").vocabulary
    kept = most_frequent(everything, 15)
    assert set(vocabulary.words) == {*kept, "<unk>", "<eos>"}
    assert any(word in vocabulary for word in ("s0", "s3")) and len(vocabulary) == 17
    counts = dict(zip(vocabulary.words, vocabulary.counts.tolist()))
    targets = collections.Counter(" ".join(target for _, target in pairs["train"]).split())
    assert all(counts[word] == targets[word] for word in kept)
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
    assert (test.sentences, test.pair_counts["empty_pairs"], test.texts.records) == (14, 1, 13)
    unknown = ["<unk>"] * 2
    assert read_back(corpus, "test").count((unknown + ["<unk>"], unknown)) == 2


def test_bad_pairs_are_counted_and_long_sources_cut(tmp_path, pairs):
    with gzip.open(tmp_path / "train.tsv.gz", "at", encoding="utf-8") as file:
        file.write("\n \t \nno target\t\n\tno source\n" + "a " * 40 + "\t" + "cat " * 12 + "\n")
        file.write("a " * 40 + "\tcat\n")
    with gzip.open(tmp_path / "test.tsv.gz", "at", encoding="utf-8") as file:
        file.write("of straw\t" + "cat " * 12 + "\n")
    corpus = prepared(tmp_path, max_source=30, max_target=11)
    train, test = corpus.split("train"), corpus.split("test")
    assert train.sentences == 201
    found = {name: train.pair_counts[name] for name in manifests.PAIR_COUNTS[2:]}
    assert found == {"cut_sources": 1, "empty_pairs": 4, "long_targets": 1}
    assert (["a"] * 30, ["cat"]) in read_back(corpus, "train")
    assert (train.texts.records, test.sentences, test.texts.records) == (201, 12, 13)
    manifest = json.loads((tmp_path / "out" / manifests.MANIFEST).read_text())
    assert manifest["splits"]["train"]["empty_pairs"] == 4


def damage(tmp_path, name, text):
    with open(tmp_path / name, "wb") as file:
        file.write(text)
    return str(tmp_path / name)


@pytest.mark.parametrize("line, columns", [(b"no tab here", 1), (b"a\tb\tc", 3)])
def test_wrong_columns_are_refused_with_their_line(tmp_path, pairs, line, columns):
    path = damage(tmp_path, "bad.tsv", b"a\tb\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"bad.tsv, line 2: must have two columns.*{columns} in"):
        prepared(tmp_path, train=path)


def test_files_of_different_length_are_refused_with_both_lengths(tmp_path, pairs):
    source = damage(tmp_path, "s.txt", b"a\n" * 5)
    target = damage(tmp_path, "t.txt", b"b\n" * 3)
    for files, message in (((source, target), "5 in .*s.txt, 3 in .*t.txt"),
                           ((target, source), "3 in .*t.txt, 5 in .*s.txt")):
        with pytest.raises(ValueError, match=f"same number of lines.*Received: {message}"):
            prepared(tmp_path, train=files[0], train_targets=files[1])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content, message",
    [
        (b"a\tb\xff\n", "train.bad, line 1: must be UTF-8"),
        (b"a\tb <eos> c\n", "`train`: the texts must not contain `<eos>`"),
        (b"a\t\n\n", "`train` must hold at least one pair .*Received: 2 pairs with an empty side"),
        (b"", "`train` must hold at least one pair"),
        (b"a\t" + b"b " * 31 + b"\n", "`train` must hold.*1 with a longer target"),
    ],
)
def test_texts_that_make_no_pairs_are_refused(tmp_path, pairs, content, message):
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, train=damage(tmp_path, "train.bad", content))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"train_targets": ["train.tsv.gz"], "train": ["train.tsv.gz"] * 2}, "existing files"),
        ({"train": ()}, "`train` must name files"),
        ({"valid": (), "valid_targets": "x"}, "`valid_targets` must be given with `valid` only"),
        ({"streams": 7}, "`streams` must be given with task='sentences' only"),
        ({"corpus": "ptb"}, "`corpus` must be one of text.*for task='pairs'"),
        ({"batch_size": 5000}, "`batch_size` must be at most 1000"),
        ({"max_target": 0}, "`max_target` must be at least 1"),
        ({"vocabulary_from": "sources"}, "`vocabulary_from` must be one of targets, both"),
        ({"task": "sentences"}, "`batch_size` must be given with task='pairs' only"),
        ({"task": "words"}, "`task` must be one of sentences, pairs"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, pairs, changes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepared(tmp_path, **changes)


def test_prepared_again_it_is_left_alone_and_damage_and_changes_are_noticed(
    tmp_path, pairs, capsys
):
    prepared(tmp_path)
    prepare(config(tmp_path))
    assert "it is intact" in capsys.readouterr().err
    with pytest.raises(ValueError, match="max_source is 100, not 9"):
        prepared(tmp_path, max_source=9)
    path = tmp_path / "out" / "valid-texts.tsv.gz"
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="it is damaged: .*valid-texts.tsv.gz: the SHA-256"):
        prepared(tmp_path)
    with pytest.raises(ValueError, match="valid-texts.tsv.gz: the SHA-256"):
        list(texts(Corpus.load(tmp_path / "out", ("pairs",)), "valid"))
    prepared(tmp_path, overwrite=True)


def test_a_reader_of_sentences_refuses_pairs(tmp_path, pairs):
    prepared(tmp_path)
    with pytest.raises(ValueError, match="must be a corpus of sentences. Received: one of pairs"):
        Corpus.load(tmp_path / "out")


@pytest.mark.parametrize("side, lost", [("targets", False), ("targets", True), ("sources", True)])
def test_texts_that_change_between_the_passes_are_noticed(
    tmp_path, pairs, monkeypatch, side, lost
):
    original = pair_batches.EncodedTexts.add

    def changed(self, ids, lengths):
        if self._path.endswith(side):
            ids, lengths = ids.copy(), lengths.copy()
            if lost:
                lengths[0] -= 1
                ids = ids[1:]
            else:
                ids[0] = (ids[0] + 1) % 9
        original(self, ids, lengths)

    monkeypatch.setattr(pair_batches.EncodedTexts, "add", changed)
    with pytest.raises(RuntimeError, match="did the texts change meanwhile"):
        prepared(tmp_path)


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


def write_gigaword(folder):
    """Writes the layout of Rush et al. with a few lines; returns the pairs of each split."""
    rows = {split: make_pairs(count, seed) for seed, (split, count) in enumerate(
        {"train": 50, "valid": 20, "test": 15, "duc2004": 8}.items()
    )}
    names = {
        "train": ("train/train.article.txt.gz", "train/train.title.txt.gz"),
        "valid": ("train/valid.article.filter.txt", "train/valid.title.filter.txt"),
        "test": ("Giga/input.txt", "Giga/task1_ref0.txt"),
        "duc2004": ("DUC2004/input.txt", "DUC2004/task1_ref0.txt"),
    }
    for split, files in names.items():
        for column, name in enumerate(files):
            path = folder / name
            path.parent.mkdir(exist_ok=True, parents=True)
            text = "".join(f"{row[column]}\n" for row in rows[split]).encode()
            path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    for i in (1, 2, 3):
        (folder / f"DUC2004/task1_ref{i}.txt").write_text(f"cat {i}\n" * 7 + "\n")
    return rows


def test_gigaword_is_read_from_its_folder_with_the_references_of_duc(tmp_path):
    rows = write_gigaword(tmp_path / "sumdata")
    settings = PrepareConfig(
        task="pairs", corpus="gigaword", out=str(tmp_path / "out"), batch_size=BATCH,
        manual_dir=str(tmp_path / "sumdata"),
    )
    corpus = prepare(settings, progress=False)
    assert list(corpus.splits) == ["train", "valid", "test", "duc2004"]
    for split in ("train", "valid", "test"):
        assert sorted(read_back(corpus, split)) == sorted(as_words(rows[split], corpus.vocabulary))
    first, *_, last = texts(corpus, "duc2004")
    assert first == (rows["duc2004"][0][0], (rows["duc2004"][0][1], "cat 1", "cat 2", "cat 3"))
    assert last[1] == (rows["duc2004"][-1][1],)
    assert corpus.split("duc2004").sentences == 4 * 8 - 3
    assert corpus.settings["max_vocab"] == 69_000
    assert prepare(settings, progress=False).vocabulary.sha256 == corpus.vocabulary.sha256


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda folder: (folder / "Giga/task1_ref0.txt").unlink(), "Giga/input.txt and"),
        (lambda folder: (folder / "train/train.title.txt.gz").unlink(), "one train.article.txt"),
        (lambda folder: (folder / "train.article.txt").touch(), "one train.article.txt"),
        (lambda folder: (folder / "DUC2004/task1_ref1.txt.gz").touch(), "one DUC2004/input.txt"),
        (lambda folder: (folder / "train/valid.title.filter.txt.xz").touch(), "one valid.article"),
        (lambda folder: (folder / "train/valid.article.filter.txt").unlink(), "valid.article"),
        (lambda folder: folder.rename(folder.parent / "other"), "folder with the files"),
    ],
)
def test_folders_that_lack_files_of_gigaword_are_refused(tmp_path, change, message):
    folder = tmp_path / "sumdata"
    write_gigaword(folder)
    change(folder)
    settings = PrepareConfig(
        task="pairs", corpus="gigaword", out=str(tmp_path / "out"), manual_dir=str(folder)
    )
    with pytest.raises((ValueError, FileNotFoundError), match=f"^`manual_dir` must .*{message}"):
        prepare(settings, progress=False)


def test_every_damage_to_a_manifest_is_named_or_changes_nothing_that_is_read(tmp_path, pairs):
    whole, refused = prepared(tmp_path), 0
    path = tmp_path / "out" / manifests.MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["settings"]["inputs"]
    for place in list(places(manifest))[1:]:
        for value in (None, -1, True, "../x.tfrecord", [0], {"x": 1}):
            damaged = json.loads(json.dumps(manifest))
            owner = damaged
            for key in place[:-1]:
                owner = owner[key]
            owner[place[-1]] = value
            path.write_text(json.dumps(damaged))
            try:
                read = Corpus.load(tmp_path / "out", ("pairs",))
            except (ValueError, FileNotFoundError) as error:
                assert str(tmp_path) in str(error)
                refused += 1
            else:
                assert read.shape == whole.shape and summary(read)
                assert [f.path for s in read.splits.values() for f in s.all_files] == [
                    f.path for name in read.splits for f in whole.splits[name].all_files
                ]
    assert refused > 100

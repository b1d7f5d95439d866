"""`tfsoftmax cluster` and `show_clusters` on a small corpus: their files feed the heads."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from runs_helper import MODEL, SMALL, error_of, tool
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm import word_vectors
from tfsoftmax.lm.model import language_model, reset_states, split_at_head
from tfsoftmax.partitions import classes, code_files, tree_builders
from tfsoftmax.runs import runs


@pytest.fixture(scope="module")
def paths(corpus, tmp_path_factory):
    """The file of a clustering into seven classes, and what the tool printed."""
    out = tmp_path_factory.mktemp("brown") / "paths"
    data = f"--data={corpus.directory}"
    return out, tool("cluster", data, f"--out={out}", "--classes=7", "--words=3").stdout


def train(corpus, run, head, **options):
    arguments = [f"--head={head}", f"--head_options={json.dumps(options)}", "--max_steps=5"]
    done = tool("train", f"--data={corpus.directory}", f"--run={run}", *SMALL, *arguments)
    return json.loads(done.stdout.splitlines()[-1])


def test_paths_of_every_word_of_the_corpus(corpus, paths):
    (out, printed), words = paths, corpus.vocabulary.words
    assert "average mutual information" in printed
    assert len(printed.splitlines()) == 3 + 7
    sizes = np.bincount(classes.build(out, len(words), words=words))
    members = classes.build(out, len(words), words=words)
    shares = np.bincount(members, corpus.vocabulary.counts) / corpus.vocabulary.counts.sum()
    assert f"computes {7 + shares @ sizes:,.0f} scores" in printed
    assert len(set(code_files.read_codes(out, words))) == 7
    assert len(out.read_text().splitlines()) == len(words)
    assert classes.build(out, len(words), words=words).max() == 6
    tree = tree_builders.build(out, len(words), words=words)
    tree = tree_builders.binarised(tree, corpus.vocabulary.counts)
    assert tree.is_binary and np.all(tree.depths > 0)


def test_the_class_of_one_word(corpus, tmp_path):
    word = corpus.vocabulary.words[5]
    done = tool("cluster", f"--data={corpus.directory}", f"--out={tmp_path / 'p'}", "--classes=4",
                f"--words_of={word}")
    assert word in done.stdout.splitlines()[-1].split("\t")[1].split(" ")


def test_classes_of_another_tool(corpus, tmp_path):
    words = corpus.vocabulary.words
    (tmp_path / "mkcls").write_text("".join(f"{w}\t{i % 12}\n" for i, w in enumerate(words[:-1])))
    tool("cluster", f"--data={corpus.directory}", f"--out={tmp_path / 'p'}", "--method=file",
         f"--file={tmp_path / 'mkcls'}", "--format=mkcls")
    found = classes.build(tmp_path / "p", len(words), words=words)
    names = [*sorted(range(12), key=str), "none"]
    expected = [names.index(i % 12) for i in range(len(words) - 1)] + [12]
    assert found.tolist() == expected


@pytest.mark.parametrize("flag, message", [
    ("--method=file", "`file` must be given for --method=file. Received: file=None"),
    ("--format=mkcls", "`format` must be given with --method=file only"),
    ("--classes=0", "`classes` must be at least 1"),
    ("--words_of=xyzzy", "`words_of` must be a word"),
    ("--words=-1", "`words` must be at least 0. Received: words=-1"),
    ("--passes=-1", "`passes` must be at least 0. Received: passes=-1"),
    ("--shortlist=3", "`shortlist` must be given with --method=soul only. Received: shortlist=3, "),
    ("--method=soul", "`run` must be given for --method=soul. Received: run=None"),
    ("--out=x.json", "`out` must end in .json for --method=soul, and only then. Received: out='x"),
])
def test_mistakes_end_in_a_sentence(corpus, tmp_path, flag, message):
    out = f"--out={tmp_path / 'p'}"
    done = error_of("cluster", f"--data={corpus.directory}", out, flag)
    assert done.startswith(f"error: {message}")


def test_a_corpus_is_not_overwritten(corpus):
    of_corpus = f"{corpus.directory}/vocabulary.txt"
    done = error_of("cluster", f"--data={corpus.directory}", f"--out={of_corpus}")
    expected = "error: `out` must not be a file of a corpus. Received: out="
    assert done == f"{expected}{of_corpus!r}\n"


def test_clusters_of_no_words_are_refused():
    done = error_of("show_clusters", "--run=x", "--words=-1")
    assert done == "error: `words` must be at least 1. Received: words=-1\n"


@pytest.mark.parametrize("head, option", [
    ("tree", "tree"), pytest.param("class", "classes", marks=pytest.mark.slow),
    pytest.param("nary", "tree", marks=pytest.mark.slow),
])
def test_heads_are_trained_on_brown_clusters(corpus, paths, tmp_path, head, option):
    finished = train(corpus, tmp_path / "run", head, **{option: str(paths[0])})
    assert 1 < finished["best_perplexity"] < 1000
    again = tool("evaluate", f"--run={tmp_path / 'run'}", "--split=valid").stdout
    perplexity = json.loads(again.splitlines()[-1])["perplexity"]
    np.testing.assert_allclose(perplexity, finished["best_perplexity"], rtol=1e-5)


def test_learnt_clusters_are_printed_and_become_classes(corpus, tmp_path):
    train(corpus, tmp_path / "run", "self_organised")
    out, words = tmp_path / "clusters", corpus.vocabulary.words
    lines = tool("show_clusters", f"--run={tmp_path / 'run'}", f"--out={out}").stdout.splitlines()
    numbers, printed = [int(line.split()[0]) for line in lines], [x.split()[2:] for x in lines]
    assert sorted(sum(printed, [])) == sorted(words)
    shares = [float(line.split()[1].strip("%")) for line in lines]
    assert shares == sorted(shares, reverse=True)
    assert train(corpus, tmp_path / "class", "class", classes=str(out))["best_perplexity"] > 1
    by_class = classes.build(out, len(words), words=words)
    for cluster, members in zip(numbers, printed):
        assert {by_class[words.index(word)] for word in members} == {cluster}
    run = f"--run={tmp_path / 'run'}"
    done = tool("show_clusters", run, f"--words_of={words[3]}", "--words=99")
    assert words[3] in done.stdout.split() and len(done.stdout.splitlines()) == 1


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A run on the corpus."""
    run = tmp_path_factory.mktemp("vectors") / "run"
    train(corpus, run, "tree", tree="random")
    return run


@pytest.mark.parametrize("method, name, head, option", [
    ("kmeans", "classes.txt", "class", "classes"), ("splits", "codes.txt", "tree", "tree"),
    ("soul", "tree.json.gz", "nary", "tree"),
])
def test_groups_by_the_vectors_of_a_run_feed_the_heads(
    corpus, trained, tmp_path, method, name, head, option
):
    flags = {"soul": ["--shortlist=5", "--classes=4"], "kmeans": ["--classes=6"]}.get(method, [])
    file, words, run = tmp_path / name, corpus.vocabulary.words, trained
    if method != "splits":  # embeddings need no corpus
        run = shutil.copytree(trained, tmp_path / "moved")
        config = json.loads((run / "config.json").read_text())
        config["corpus"]["directory"] = str(tmp_path / "gone")
        (run / "config.json").write_text(json.dumps(config))
    done = tool("cluster", f"--method={method}", f"--run={run}", f"--out={file}", *flags)
    assert ("scores for an average token" in done.stdout) == (method != "splits")
    if method == "kmeans":
        assert classes.build(file, len(words), words=words).max() <= 5
    else:
        tree = tree_builders.build(file, len(words), words=words)
        assert tree.is_binary if method == "splits" else tree.sizes[0] <= 9
        frequent = np.argsort(-corpus.vocabulary.counts, kind="stable")[:5]
        assert method == "splits" or (tree.depths[frequent] == 1).all()
    if method == "soul":
        assert f"in each of {len(tree.sizes) - 1} classes" in done.stdout
        assert "with 5 words beside them in the root" in done.stdout
    assert train(corpus, tmp_path / "run", head, **{option: str(file)})["best_perplexity"] > 1


@pytest.mark.parametrize("flags, message", [
    (["--method=soul", "--shortlist=500"], "`shortlist` must be smaller than the vocabulary"),
    (["--method=soul", "--shortlist=40", "--classes=30"], "`classes` must be at most "),
    (["--method=kmeans", "--classes=500"], "`classes` must be at most "),
])
def test_more_words_or_classes_than_there_are_are_refused(trained, tmp_path, flags, message):
    out = tmp_path / ("x.json" if "--method=soul" in flags else "x")
    done = error_of("cluster", f"--run={trained}", f"--out={out}", *flags)
    assert done.startswith(f"error: {message}")


def test_average_hidden_states_are_those_before_each_word(corpus, trained):
    model, vocabulary, _ = runs.load(str(trained), corpus.batch_size, corpus.shape["time_steps"])
    averages = word_vectors.average_hidden_states(model, corpus)
    _, hidden_model = split_at_head(model, vocabulary)
    reset_states(model)
    before = {}
    for batch, labels, weights in batches(corpus, "train").as_numpy_iterator():
        hidden = hidden_model(batch, training=False).numpy()
        for place in np.argwhere(weights > 0):
            before.setdefault(labels[tuple(place)], []).append(hidden[tuple(place)])
    everything = np.mean([np.mean(states, 0) for states in before.values()], 0)
    expected = [
        np.mean(before[word], 0) if word in before else everything
        for word in range(len(vocabulary))
    ]
    np.testing.assert_allclose(averages, expected, rtol=1e-4, atol=1e-6)
    table = model.get_layer("embedding").embeddings.numpy()
    np.testing.assert_array_equal(word_vectors.input_embeddings(model), table)
    half = language_model(dataclasses.replace(MODEL, precision="mixed_bfloat16"), vocabulary, 1)
    assert word_vectors.input_embeddings(half).dtype == np.float32

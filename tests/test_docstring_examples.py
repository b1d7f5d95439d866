"""The examples of docstrings run as they stand after `import keras, tfsoftmax`."""

import importlib
import importlib.util
import inspect
import os
import re
import textwrap
import typing

import keras
import pytest

import tfsoftmax
from modules_helper import module_names
from pairs_helper import small_pairs
from runs_helper import MODEL
from tfsoftmax.corpora.piece_training import train_sentencepiece
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.runs.training import train


def public():
    """{dotted name: object} of the public classes and functions of all modules but commands."""
    found = {}
    for module in module_names():
        if ".commands" in module:
            continue
        for name, value in vars(importlib.import_module(module)).items():
            own = getattr(value, "__module__", None) == module and not name.startswith("_")
            if own and (inspect.isclass(value) or inspect.isfunction(value)):
                found[f"{module}.{name}".removeprefix("tfsoftmax.")] = value
    return found


def example_of(value):
    """The indented block after `Example:` in a docstring, or an empty string."""
    block = re.search(r"^Example:\n((?: {4}.*\n?|\n)+)", inspect.getdoc(value) or "", re.MULTILINE)
    return textwrap.dedent(block.group(1)).strip("\n") if block else ""


PUBLIC = public()
EXAMPLES = {name: example_of(value) for name, value in PUBLIC.items() if example_of(value)}
# Classes that users meet only inside others, and builders that read downloads. `ops` has functions
# and the tuples that they pass to each other.
WITHOUT = {
    "runs.progress.Progress", "runs.trainer.Trainer", "lm.tail_ngram.TailNgram",
    "profiling.traced_step.Execution", "distributions.nary_tiles.TiledSteps",
    "corpora.builders.Ptb", "corpora.builders.Text8", "corpora.builders.Wikitext2",
    "corpora.builders.Wikitext103", "sharding.shards.Shard", "retrieval.found_words.Sample",
    "ngrams.tables.BigramTables",
}

EXTRAS = {
    "corpora.tokenizers.SentencePieces": "sentencepiece",
    "corpora.tokenizers.JsonTokenizer": "tokenizers",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """A folder with the files that the examples read."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "data").mkdir()
    os.symlink(corpus.directory, folder / "data" / "docstrings")
    pairs = small_pairs(tmp_path_factory.mktemp("pairs"), train=20)
    os.symlink(pairs.directory, folder / "data" / "pairs")
    short, run = TrainingConfig(max_steps=4), str(folder / "runs" / "first")
    train(corpus.directory, run, MODEL, short, verbose=False, profile_batch=(3, 4))
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_text("the cat sat on the mat\nthe cat sat\n" * 9)
    (folder / "glove.txt").write_text("the 1 2 3\ncat 4 5 6\n")
    (folder / "test.nbest").write_text("u1 -10 -3 the cat\nu1 -11 -2 a cat\n")
    if all(map(importlib.util.find_spec, EXTRAS.values())):
        import tokenizers

        (folder / "data" / "pieces").mkdir()
        path = folder / "data" / "pieces" / "tokenizer.model"
        train_sentencepiece([["the cat sat"] * 9], print, path, "bpe", 280, 1)
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, "?"))
        words.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, folder, monkeypatch, restored_keras):
    for package in EXTRAS.values() if name in EXTRAS else ():
        pytest.importorskip(package)
    monkeypatch.chdir(folder)
    keras.utils.set_random_seed(1)
    exec(compile(EXAMPLES[name], name, "exec"), {"keras": keras, "tfsoftmax": tfsoftmax})


def test_every_public_class_has_an_example_of_a_few_lines():
    classes = [
        name for name, value in PUBLIC.items()
        if inspect.isclass(value) and name not in WITHOUT and name.partition(".")[0] != "ops"
        and not typing.is_typeddict(value)  # which is a hint
    ]
    assert len(classes) > 60
    lengths = {name: len(EXAMPLES.get(name, "").splitlines()) for name in classes}
    assert {name: lines for name, lines in lengths.items() if not 2 <= lines <= 7} == {}

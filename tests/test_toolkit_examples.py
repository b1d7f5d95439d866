"""The examples in the docstrings of public classes, run as a user would paste them."""

import importlib
import inspect
import os
import pkgutil
import re
import textwrap

import keras
import pytest
from runs_helper import MODEL

import tfsoftmax
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.lm.training import train

PACKAGES = ("lm", "corpora", "nbest", "profiling")


def public_classes():
    """{name: class} of the public classes in the modules of the toolkit."""
    found = {}
    for package in PACKAGES:
        folder = importlib.import_module(f"tfsoftmax.{package}")
        for module in pkgutil.iter_modules(folder.__path__, folder.__name__ + "."):
            for name, value in vars(importlib.import_module(module.name)).items():
                own = inspect.isclass(value) and value.__module__ == module.name
                if own and not name.startswith("_"):
                    found[f"{module.name}.{name}"] = value
    return found


# Classes that users meet only inside others, and builders that read downloads.
PARTS = {
    "lm.trainer.Progress", "lm.trainer.Trainer",
    "profiling.traced_step.Execution", "corpora.builders.Ptb", "corpora.builders.Text8",
    "corpora.builders.Wikitext2", "corpora.builders.Wikitext103",
}
CLASSES = {
    name.removeprefix("tfsoftmax."): value for name, value in public_classes().items()
    if name.removeprefix("tfsoftmax.") not in PARTS
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """A folder with what the examples read."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "data").mkdir()
    os.symlink(corpus.directory, folder / "data" / "docstrings")
    short, run = TrainingConfig(max_steps=4), str(folder / "runs" / "first")
    train(corpus.directory, run, MODEL, short, verbose=False, profile_batch=(3, 4))
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_text("the cat sat on the mat\nthe cat sat\n" * 9)
    (folder / "glove.txt").write_text("the 1 2 3\ncat 4 5 6\n")
    (folder / "test.nbest").write_text("u1 -10 -3 the cat\nu1 -11 -2 a cat\n")
    return folder


@pytest.mark.parametrize("name", CLASSES)
def test_the_example_in_the_docstring_runs(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = inspect.getdoc(CLASSES[name])
    match = re.search(r"^Example:\n((?:    .*\n?)+)", text, re.MULTILINE)
    assert match, "no example"
    example = textwrap.dedent(match[1])
    assert 3 <= len(example.splitlines()) <= 7
    exec(compile(example, name, "exec"), {"keras": keras, "tfsoftmax": tfsoftmax})

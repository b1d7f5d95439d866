import dataclasses
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from experiments.framework import catalogue
from experiments.framework.definition import Run
from tfsoftmax.lm.config import ModelConfig, TrainingConfig

ROOT = Path(__file__).resolve().parent.parent.parent


def command(*arguments, options=()):
    words = [sys.executable, *options, "-m", "experiments.run", *arguments]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)


def test_a_run_is_what_train_makes_of_its_flags():
    run = Run("a", preset="text8", model={"hidden_units": 64, "head_options": {"soft_cap": 30}},
              training={"epochs": 2})
    model, training = run.configs()
    assert model == ModelConfig(hidden_units=64, head_options={"soft_cap": 30})
    assert training == TrainingConfig(epochs=2)
    assert run.flags() == [
        "--preset=text8", "--hidden_units=64", '--head_options={"soft_cap": 30}', "--epochs=2",
    ]


def test_a_run_is_frozen():
    run = Run("a", model={"hidden_units": 8})
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.name = "b"
    with pytest.raises(TypeError):
        run.model["hidden_units"] = 9


@pytest.mark.parametrize("arguments, message", [
    ({"model": {"hiden": 8}}, "Run 'a': `model` must have names among head, .*Received: 'hiden'"),
    ({"training": {"hidden_units": 8}},
     "Run 'a': `training` must have names among .*Received: 'hidden_units'"),
    ({"paper": {"ppl": 8}}, "Run 'a': `paper` must have names among perplexity, .*Received: 'ppl'"),
    ({"model": {"hidden_units": 0}},
     "Run 'a': `hidden_units` must be at least 1. Received: hidden_units=0"),
    ({"preset": "text9"}, "Run 'a': `preset` must be one of .*text8.* Received: 'text9'"),
])
def test_a_bad_name_or_value_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Run("a", **arguments)


def test_the_name_of_a_run_is_that_of_a_folder():
    with pytest.raises(ValueError, match="`name` must be .*Received: 'a/b'"):
        Run("a/b")


def test_runs_of_one_name_are_an_error(monkeypatch):
    twice = types.SimpleNamespace(RUNS=[Run("a"), Run("a")])
    monkeypatch.setitem(catalogue.EXPERIMENTS, "twice", twice)
    with pytest.raises(ValueError, match="`RUNS` of twice must have distinct names. Received: 'a'"):
        catalogue.load("twice")


def test_every_module_with_runs_is_in_the_catalogue():
    modules = (ROOT / "experiments").rglob("*.py")
    with_runs = {path.stem for path in modules if "\nRUNS = " in path.read_text(encoding="utf-8")}
    assert with_runs == set(catalogue.EXPERIMENTS)


def test_every_experiment_loads():
    for name in catalogue.EXPERIMENTS:
        module = catalogue.load(name)
        assert module.RUNS and module.__name__ == f"experiments.tables.{name}"


def test_the_listing_has_the_first_line_of_each_docstring():
    listed = catalogue.listing()
    assert listed["methods"].startswith("Full, adaptive and ")
    assert all(line.endswith(".") for line in listed.values())


def test_without_name_and_in_help_the_experiments_are_listed():
    listed = command()
    assert listed.returncode == 0
    assert "methods           Full, adaptive and " in listed.stdout
    helped = command("--help", options=["-X", "importtime"])
    assert "methods           Full, adaptive and " in helped.stdout and "--only" in helped.stdout
    assert "absl.flags" in helped.stderr
    assert "tensorflow" not in helped.stderr  # its import takes seconds


def test_the_list_leads_from_the_table_of_a_paper_to_its_experiment():
    lines = command("--list").stdout.splitlines()
    names = [line.split()[0] for line in lines if line[:1].isalpha()]
    assert names[:-1] == list(catalogue.EXPERIMENTS)
    of_table = next(i for i, line in enumerate(lines) if "Müller 2017" in line and "5.2a" in line)
    assert lines[of_table - 1].startswith("methods ")


def test_mistakes_end_in_one_sentence(tmp_path):
    unknown = command("method")
    assert unknown.returncode == 1
    assert re.match("error: NAME must be one of .*methods", unknown.stderr)
    assert "error: `data` must name" in command("methods").stderr
    empty = command("methods", "--report", f"--runs={tmp_path}", f"--results={tmp_path}")
    assert "error: `runs` must hold runs of methods: full-dropout0.25-seed1" in empty.stderr
    assert not list(tmp_path.iterdir())


def test_runs_on_a_public_corpus_have_a_report_of_their_own(tmp_path):
    kept = ROOT / "experiments" / "results" / "ptb" / "jiang"
    (tmp_path / "ptb" / "jiang").mkdir(parents=True)
    (tmp_path / "ptb" / "jiang" / "results.json").write_bytes((kept / "results.json").read_bytes())
    done = command("jiang", "--report", "--corpus=ptb", f"--results={tmp_path}",
                   f"--runs={tmp_path / 'runs'}")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "ptb" / "jiang" / "README.md").read_text(encoding="utf-8")
    assert page == (kept / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# jiang, ptb\n") and "--corpus=ptb --report" in page
    assert not (tmp_path / "jiang").exists()


@pytest.mark.parametrize("name, given, folder", [
    ("ptb", None, "ptb"), ("text", None, ""), ("ptb", "", ""), ("text", "news", "news"),
])
def test_the_folder_of_a_corpus_is_its_name_if_it_is_public(name, given, folder):
    script = (
        "from experiments import run\n"
        "import types\n"
        f"values = types.SimpleNamespace(corpus={given!r}, data='d')\n"
        "run.flags = types.SimpleNamespace(FLAGS=values)\n"
        f"run.read_manifest = lambda data: {{'name': {name!r}}}\n"
        f"assert run.corpus_folder() == {folder!r}"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)

"""Every page of results names the commands that make it, and these commands start."""

import functools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.benchmarks import report as benchmarks
from experiments.benchmarks import rows as of_rows
from experiments.benchmarks.suites import SUITES
from experiments.framework import catalogue, kept, pictures, report

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results"
PAGES = sorted(RESULTS.rglob("*.md"))
KEPT = sorted(RESULTS.rglob(report.RESULTS))
SPEED = sorted(path.parent for path in RESULTS.rglob("rows.jsonl"))
GUIDES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *ROOT.glob("experiments/*.md"),
          *ROOT.glob("experiments/benchmarks/*.md")]
# A command stands between backticks, or on a line of its own, which a backslash continues.
COMMAND = re.compile(r"(?:^ *|`)((?:python -m|tfsoftmax|make) (?:\\\n|[^`\n])+)", re.MULTILINE)


def commands_of(path, start=""):
    """The commands of a page that begin so, as lists of words, without what a pipe leads to."""
    found = COMMAND.findall(path.read_text(encoding="utf-8"))
    return [shlex.split(command.partition(" | ")[0].replace("\\\n", " "), comments=True)
            for command in found if command.startswith(start)]


@functools.cache
def help_of(*program):
    """What a program prints for --help; it must end with success."""
    command = [sys.executable, "-m", *program, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(command):
    """Fails unless the program of a command starts, and knows its words and flags."""
    if command[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{command[1]}:", makefile, re.MULTILINE)
        return
    program, rest = command[2:3], command[3:]
    if command[0] == "tfsoftmax":
        program, rest = ["tfsoftmax_command", command[1]], command[2:]
    elif rest and not rest[0].startswith("-"):
        known = {"experiments.run": catalogue.NAMES,
                 "experiments.benchmarks.run": [*SUITES, "speed", "all"]}.get(program[0])
        words = [word for word in rest if not word.startswith("-")]
        assert known is None or set(words) <= {*known}, words
    text = help_of(*program)
    for flag in (word.partition("=")[0] for word in rest if word.startswith("--")):
        assert re.search(rf"{flag}\b", text) or re.search(rf"--\[no\]{flag[2:]}\b", text), flag


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_the_commands_of_a_page_start(path):
    commands = commands_of(path)
    assert commands or path == RESULTS / "README.md"  # which only lists the others
    for command in commands:
        check(command)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_guide_that_run_experiments_start(path):
    for command in commands_of(path, "python -m experiments."):
        check(command)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_a_page_says_first_if_its_runs_are_not_kept(name):
    page, results = RESULTS / name / "README.md", RESULTS / name / report.RESULTS
    if not page.exists():
        return
    rows = json.loads(results.read_text(encoding="utf-8")) if results.exists() else []
    first = page.read_text(encoding="utf-8").split("\n\n")[1]
    assert (first == report.not_kept(name)) == (not any(row.get("config") for row in rows))


@pytest.mark.parametrize("folder", SPEED, ids=lambda folder: str(folder.relative_to(RESULTS)))
def test_a_page_of_speed_is_what_its_rows_make(folder, tmp_path, monkeypatch):
    copy = Path(*folder.relative_to(ROOT).parts)  # the page names its folder as it is given
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pictures, "shown", lambda draw, *shown: pictures.shows(*shown))
    copy.mkdir(parents=True)
    text = benchmarks.write(copy, of_rows.read(folder / "rows.jsonl"))
    assert text == (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kept_file", KEPT, ids=lambda path: str(path.parent.relative_to(RESULTS)))
def test_a_page_of_runs_is_what_the_kept_results_make(kept_file, tmp_path, monkeypatch):
    corpus, name = ("", *kept_file.relative_to(RESULTS).parts[:-1])[-2:]
    experiment = catalogue.load(name)
    monkeypatch.setattr(pictures, "shown", lambda draw, *shown: pictures.shows(*shown))
    outcomes = kept.outcomes(experiment.RUNS, tmp_path, kept_file)
    page, panels = tmp_path / "README.md", getattr(experiment, "PANELS", ())
    page.write_text(before := kept_file.with_name("README.md").read_text("utf-8"), "utf-8")
    report.write(name, experiment.__doc__, outcomes, tmp_path, panels, corpus)
    assert page.read_text("utf-8") == before

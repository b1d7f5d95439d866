"""The command line: fast help, launchers, and mistakes that are answered in one sentence."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tokenize

import pytest

import tfsoftmax
from runs_helper import command, error_of, tool
from tfsoftmax.commands.cutoffs import CutoffsOptions
from tfsoftmax.commands.options import attribute_helps
from tfsoftmax.commands.program import COMMANDS
from tfsoftmax.commands.tfprof import ProfileOptions
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.lm.head_options import HEADS
from tfsoftmax.pairs.config import PairsConfig, Seq2SeqConfig

TOOLS = pathlib.Path(__file__).parent.parent / "tools"
SLOW_TO_IMPORT = ("tensorflow", "numpy", "keras", "matplotlib")


def assert_nothing_slow_was_imported(result):
    assert "absl.flags" in result.stderr
    assert not [name for name in SLOW_TO_IMPORT if f" {name}\n" in result.stderr]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_fits_a_terminal_and_waits_for_no_import_of_tensorflow(name):
    result = tool(name, "--help", interpreter=["-X", "importtime"])
    assert f"    tfsoftmax {name}" in result.stdout
    examples = re.findall(r"^    .*\btfsoftmax \w+ --", result.stdout, re.MULTILINE)
    assert len(examples) >= 2 or name == "heads"  # which has no flags
    for text in re.findall(r"^  --(.*(?:\n {6}.*)*)", result.stdout, re.MULTILINE):
        flag, _, help_text = text.partition("  ")
        ends = help_text[-1] == "." or ", one of\n" in help_text
        assert help_text[0].isupper() and ends, flag
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []
    assert_nothing_slow_was_imported(result)


def test_the_list_of_commands_says_what_each_does():
    result = tool("--help", interpreter=["-X", "importtime"])
    assert_nothing_slow_was_imported(result)
    listed = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line[:2] == "  "]
    described = {name: text for name, text in listed if name in COMMANDS}
    assert list(described) == list(COMMANDS)
    for text in described.values():
        assert text[0].isupper() and text.split()[0].endswith("s") and text.endswith(".")
        assert len(text) <= 70
    assert tool().stdout == result.stdout


def test_the_help_of_training_fits_a_terminal_and_begins_with_what_is_required():
    lines = tool("train", "--help").stdout.splitlines()
    assert len(lines) <= 110
    assert lines[0] == "Usage: tfsoftmax train --data=DATA --run=RUN [--flag=value ...]"
    titles = [line for line in lines if re.fullmatch(r"\w.*:", line)]
    assert titles[0] == "Corpus and run:" and titles[-1] == "Devices:"


def test_every_command_has_a_launcher():
    assert sorted(path.stem for path in TOOLS.glob("*.py")) == sorted(COMMANDS)
    for name in COMMANDS:
        path = TOOLS / f"{name}.py"
        assert os.access(path, os.X_OK) and path.read_text().startswith("#!/usr/bin/env python3\n")
        with open(path, encoding="utf-8") as file:
            lines = {t.start[0] for t in tokenize.generate_tokens(file.readline)
                     if t.type == tokenize.NAME}
        assert len(lines) == 2  # an import and a call
    result = subprocess.run(
        [sys.executable, TOOLS / "cutoffs.py", "--help"], capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONPATH": str(TOOLS.parent)},
    )
    assert result.stdout == tool("cutoffs", "--help").stdout


@pytest.mark.parametrize("config", [
    PairsConfig, Seq2SeqConfig, TrainingConfig, CutoffsOptions, ProfileOptions,
])
def test_the_docstring_of_a_configuration_explains_every_field(config):
    assert list(attribute_helps(config)) == [field.name for field in dataclasses.fields(config)]
    assert getattr(config, "CHOICES", {}).keys() <= attribute_helps(config).keys()


def test_every_head_is_in_the_help_and_has_a_line():
    assert ", ".join(HEADS) in " ".join(tool("train", "--help").stdout.split())
    assert [line.split()[0] for line in tool("heads").stdout.splitlines()] == list(HEADS)


def test_the_version_is_that_of_the_package():
    assert tool("--version").stdout == f"tfsoftmax {tfsoftmax.__version__}\n"


@pytest.mark.parametrize("name", ["show-clusters", "memory-timeline"])
def test_names_of_commands_may_have_dashes(name):
    assert tool(name, "--help").stdout == tool(name.replace("-", "_"), "--help").stdout


@pytest.mark.parametrize("name, near", [("tarin", "train"), ("show-cluster", "show_clusters")])
def test_a_wrong_name_suggests_the_nearest_one(name, near):
    assert f"Did you mean {near!r}? Received: {name!r}" in error_of(name)
    assert "Did you mean" not in tool("xyzzy", check=False).stderr


@pytest.mark.parametrize("arguments, message", [
    (["train", "--data=nowhere", "--run={tmp}/run"], "nowhere"),
    (["train", "--data=x", "--run=y", "--dropout=1"], "`dropout` must lie in [0, 1)"),
    (["train", "--data=x", "--run=y", "--head_options=[]"], "must be a JSON object"),
    (["train", "--data=x", "--run=y", "--preset=transformer", "--cell=lstm", "--context=9"],
     "`context` must be given with --cell=transformer only. Received: context=9, cell='lstm'"),
    (["train", "--data=x", "--run=y", "--preset=shen", "--reassign_steps=9", "--head=full"],
     "`reassign_steps` must be given with --head=self_organised only"),
    (["train", "--data=x", "--run=y", "--cell=transformer", "--backend=cell"],
     "`backend` must be given with --cell=lstm or gru or rnn only. Received: backend='cell'"),
    (["train", "--data=x", "--run=y", "--weight_decay_on=recurrent"],
     "`weight_decay_on` must be given with --weight_decay above 0 only"),
    (["train", "--data=x", "--run=y", "--clip=variable", "--clip_norm=0"],
     "`clip` must be given with --clip_norm above 0 only. Received: clip='variable'"),
    (["train", "--data=x", "--run=y", "--decay_at=validation", "--schedule=linear"],
     "`decay_at` must be given with --schedule=validation only"),
    (["prepare", "--out={tmp}/out", "--manual_dir={tmp}"],
     "`manual_dir` must be given with corpus=text8, ptb, "),
    (["prepare", "--corpus=text", "--out={tmp}/out", "--train={tmp}/a", "--train={tmp}/b"],
     "/a'"),  # both are taken
    (["tfprof", "--out={tmp}/no/profile.json"], "`out` cannot be used: No such file"),
    (["cluster", "--data=x", "--out=y", "--passes=0", "--speed_penalty=0.1"],
     "`speed_penalty` must be given with --passes above 0 only"),
    (["cluster", "--method=soul", "--run=x", "--out=y", "--classes=1"],
     "`classes` must be at least 2 for --method=soul"),
    (["evaluate", "--run={tmp}/nothing"], "`run` must be the directory of a training run"),
    (["prepare", "--corpus=text", "--out={tmp}/out", "--train={tmp}/no.txt"], "no.txt"),
    (["score", "--run=x", "--input={tmp}/no.txt"], "`input` cannot be used: No such file"),
    (["prepare", "--out={tmp}/out", "stray"], "all arguments must be flags"),
    (["prepare", "--seed=one"], "`seed` must be a whole number. Received: seed='one'"),
    (["score", "--run=x", "--oov=a\x1bb"], "`oov` must be one of unk, skip, spread. Rec"),
    (["score"], "`run` must be given. Received: none"),
    (["export", "--run=x", "--out=/dev/null/x"], "`out` cannot be used: Not a directory."),
    (["train", "--epoch=3"], "`epoch` is not a flag of this command. Did you mean 'epochs'?"),
    (["train", "--data=x", "--run=y", f"--layers={10**30}"],
     "`layers` must lie in [-2**63, 2**63). Received"),
    (["generate", "--run=x", "--temperature=1e39"], "`temperature` must be a finite"),
    (["memory_timeline", "--run=" + 99_999 * "["], "error: `run` "),  # as Python says it
    (["cutoffs", "--projection_factor=inf"], "`projection_factor` must be a finite number of"),
    (["prepare", "--out=\udcff"], "`out` must be UTF-8. Received: out="),
    (["cluster", "--data=none", "--out={tmp}/out"], "`data`: 'none' must be a corpus made by"),
    (["score", "--run=x", "--input="], "`input` cannot be used: No such file"),
    (["summarise", "--run=x", "--attention="], "`attention` cannot be used: Is a directory. "),
    (["prepare", "--corpus=hf:", "--out={tmp}/out"], "`corpus` must be one of docstrings, "),
    (["prepare", "--corpus=hf::", "--out={tmp}/out"], "`corpus` must be one of docstrings, "),
    (["prepare", "--corpus=text", "--out={tmp}/out", "--train=" + 99_999 * "["],
     "`train` must name existing files"),
    (["tfprof", "--vocab_size=9", "--plot=x.png", "--compare=" + 500 * "x"],
     "`compare` cannot be used: File name too long. Received: compare='xxx"),
])
def test_mistakes_end_in_one_sentence(arguments, message, tmp_path):
    assert message in error_of(*[a.format(tmp=tmp_path) for a in arguments], cwd=tmp_path)
    assert not (tmp_path / "out").exists() and not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [[], ["train", "--help"]])
def test_help_for_a_reader_that_has_gone_ends_without_a_traceback(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "tfsoftmax_command", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 141 and done.stderr == ""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["heads"]])
def test_a_closed_standard_output_is_no_error(arguments):
    line = ["sh", "-c", '"$@" >&-', "sh", *command(*arguments)]
    done = subprocess.run(line, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [["score", "--help"], ["--version"]])
def test_a_full_disk_under_standard_output_is_one_sentence(arguments):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            command(*arguments), stdout=full, stderr=subprocess.PIPE, check=False
        )
    message = b"error: standard output, or a file that is written, cannot be used: No space left on"
    assert done.stderr == message + b" device\n" and done.returncode == 1


def test_python_finds_no_garbage_among_what_tensorflow_makes():
    code = (
        "import atexit, gc\n"
        "from tfsoftmax.commands import program\n"
        "before = []\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > before[0]))\n"
        "program.load_tensorflow()\n"
        "before.append(gc.get_freeze_count())\n"
        "kept = [[] for _ in range(1000)]\n"
        "print(before[0] > 1000, gc.isenabled())\n"
    )
    code = "import tfsoftmax_command\n" + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3


def test_loading_tensorflow_leaves_matplotlib_to_be_imported_later():
    code = (
        "import sys, tfsoftmax_command\n"
        "from tfsoftmax.commands import program\n"
        "from tfsoftmax.support.extras import imported\n"
        "program.load_tensorflow()\n"
        "print('matplotlib' in sys.modules)\n"
        "print(imported('matplotlib', 'a picture').__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "matplotlib"]


def test_an_error_names_the_flag_of_the_file_and_not_one_with_an_ordinary_word(tmp_path):
    lines = tmp_path / "bad.jsonl"
    lines.write_text('{"body": "x"}\n')
    out = f"--out={tmp_path / 'd'}"
    said = tool("prepare", "--corpus=text", f"--train={lines}", out, check=False).stderr
    assert said.startswith(f"error: `train`: {lines}, line 1: ")


def test_an_error_names_what_was_to_be_written_and_no_temporary_folder():
    code = (
        "import tfsoftmax_command\n"
        "from absl import flags\n"
        "from tfsoftmax.commands import program\n"
        "def main():\n"
        "    raise RuntimeError('/a/.e.tfsoftmax.partial/data; No space left on device')\n"
        "flags.DEFINE_string('out', None, '')\n"
        "program.run(main, 'Writes.', ['x', '--out=/a/e'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "error: `out`: /a/e/data; No space left on device\n"


@pytest.mark.parametrize("line", [
    "tfprof --out", "tfprof --plot", "cutoffs --plot", "show_clusters --run=x --out",
    "cluster --data=x --out", "summarise --run=x --attention", "memory_timeline --run=x --plot",
])
def test_files_are_replaced_only_if_that_is_asked_for(tmp_path, line):
    """What comes next, an error about the run in most cases, is found with --overwrite."""
    if not line.endswith("out"):
        pytest.importorskip("matplotlib")
    path = tmp_path / "mine.png"
    path.write_text("mine")
    name, *flags, flag = line.split()
    done = error_of(name, *flags, f"{flag}={path}")
    message = f"error: `{flag[2:]}` must not replace a file, unless --overwrite is given. Received"
    assert done == f"{message}: {str(path)!r}, which exists\n"
    assert path.read_text() == "mine"
    bad = ["--vocab_size=1"] if name in ("tfprof", "cutoffs") else []
    done = error_of(name, *flags, f"{flag}={path}", "--overwrite", *bad)
    assert "must not replace" not in done and path.read_text() == "mine"


@pytest.mark.parametrize("name", ["cutoffs", "tfprof"])
def test_a_picture_that_cannot_be_written_is_refused_at_once(tmp_path, name):
    pytest.importorskip("matplotlib")
    for path, message in ((tmp_path / "no" / "x.png", "`plot` cannot be used: No such file"),
                          (tmp_path / "x.foo", "`plot` must end in one of ")):
        assert message in tool(name, f"--plot={path}", check=False).stderr

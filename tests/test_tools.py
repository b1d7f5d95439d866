"""The command line: fast help, and mistakes answered in one sentence."""

import pytest
from runs_helper import tool

TOOLS = [
    "prepare", "train", "evaluate", "generate", "score", "rescore", "export", "cutoffs", "tfprof",
    "memory_timeline",
]


@pytest.mark.parametrize("name", TOOLS)
def test_help_teaches_and_waits_for_no_import_of_tensorflow(name):
    result = tool(name, "--help", interpreter=["-X", "importtime"])
    assert f"tfsoftmax {name}" in result.stdout
    assert "absl.flags" in result.stderr and "tensorflow" not in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["train", "--data=nowhere", "--run={tmp}/run"], "nowhere"),
        (["train", "--data=x", "--run=y", "--dropout=1"], "`dropout` must lie in [0, 1)"),
        (["train", "--data=x", "--run=y", "--head_options=[]"], "must be a JSON object"),
        (["evaluate", "--run={tmp}/nothing"], "`run` must be the directory of a training run"),
        (["prepare", "--corpus=text", "--out={tmp}/out", "--train={tmp}/no.txt"], "no.txt"),
        (["score", "--run=x", "--input={tmp}/no.txt"], "`input` cannot be used: No such file"),
        (["prepare", "--out={tmp}/out", "stray"], "all arguments are flags"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments, message, tmp_path):
    result = tool(*[a.format(tmp=tmp_path) for a in arguments], check=False, cwd=tmp_path)
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "run").exists()

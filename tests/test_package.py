"""The package as it is installed: built, put into a new environment, used outside the checkout."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv

import pytest

pytest.importorskip("setuptools", "77", reason="setuptools reads our license field from 77 on")

ROOT = pathlib.Path(__file__).parent.parent
ANYWHERE = shutil.ignore_patterns(".git", ".venv*", "*.egg-info", "__pycache__", ".*_cache")
AT_THE_TOP = {"data", "runs", "build", "dist", "site"}


def not_in_a_checkout(folder, names):
    """What git ignores of the names in a folder."""
    top = AT_THE_TOP & set(names) if pathlib.Path(folder) == ROOT else set()
    return ANYWHERE(folder, names) | top


LOAD = """
import keras, tfsoftmax
from tfsoftmax.runs import runs

model, vocabulary, _ = runs.load("run", streams=1, time_steps=3)
words = [vocabulary.encode("the a k".split())]
log_probs = keras.ops.log_softmax(model.predict(keras.ops.array(words), verbose=0))
print(tfsoftmax.__file__, float(keras.ops.sum(keras.ops.exp(log_probs[0, 0]))))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("package")


@pytest.fixture(scope="module")
def sdist(folder):
    """The unpacked source distribution, built from a copy so that the checkout stays clean."""
    checkout = shutil.copytree(ROOT, folder / "checkout", ignore=not_in_a_checkout)
    archive = build("sdist", checkout, folder)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture
def environment(folder, sdist):
    """A new environment with the wheel in it; the dependencies are those of the running Python."""
    wheel = build("wheel", sdist, folder)
    place = folder / "environment"
    venv.create(place)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    site_packages = sysconfig.get_path("purelib", "venv", {"base": str(place)})
    ours = "\n".join(p for p in sys.path if p.endswith("site-packages"))
    pathlib.Path(site_packages, "dependencies.pth").write_text(ours, encoding="utf-8")
    return place


def build(kind, source, out):
    """Builds a distribution as an installer does, and returns its path."""
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(out)!r}))"
    return out / run(sys.executable, "-c", code, cwd=source).split()[-1]


def run(*command, cwd=None):
    """Runs a command that cannot see the checkout, and returns what it prints."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [str(part) for part in command]
    result = subprocess.run(
        command, cwd=cwd, env=variables, check=False, text=True, capture_output=True
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
    return result.stdout


def test_what_is_installed_is_whole_and_trains_a_model_outside_the_checkout(environment, tmp_path):
    """One test, since each process that runs tests would build the environment anew."""
    site_packages = next(environment.glob("lib/*/site-packages"))
    for name in ("py.typed", "pairs/irregular_words.txt"):
        assert (site_packages / "tfsoftmax" / name).exists()
    assert list(site_packages.glob("tfsoftmax-*.dist-info/**/LICENSE"))
    assert {p.name for p in site_packages.glob("*") if p.name != "dependencies.pth"} == {
        "tfsoftmax", "tfsoftmax_command.py", next(site_packages.glob("*.dist-info")).name,
        "__pycache__",
    }

    tfsoftmax = environment / "bin" / "tfsoftmax"
    words = zip("abcdefgh" * 20, "klmno" * 32, "xyz" * 54)
    text = "".join(f"the {a} {b} the {c}\n" for a, b, c in words)
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text(text, encoding="utf-8")

    help_text = run(tfsoftmax, "--help")
    assert all(name in help_text for name in ("prepare", "train", "evaluate", "export"))
    texts = [f"--{split}={split}.txt" for split in ("train", "valid", "test")]
    run(tfsoftmax, "prepare", "--corpus=text", *texts, "--out=data", "--streams=4",
        "--time_steps=5", cwd=tmp_path)
    run(tfsoftmax, "train", "--data=data", "--run=run", "--hidden_units=8", "--embedding_units=8",
        "--head=adaptive", '--head_options={"cutoffs": [6]}', "--max_steps=4", cwd=tmp_path)

    python = environment / "bin" / "python"
    file, total = run(python, "-c", LOAD, cwd=tmp_path).split()
    assert pathlib.Path(file).is_relative_to(environment)
    assert float(total) == pytest.approx(1, abs=1e-5)


def test_the_sdist_holds_the_whole_project_and_its_tests_run(sdist):
    expected = {
        "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "docs",
        "experiments", "mkdocs.yml", "pyproject.toml", "tests", "tfsoftmax",
        "tfsoftmax_command.py",
    }
    assert expected <= {p.name for p in sdist.iterdir()}
    quick = ["tests/test_floors.py", "tests/test_head_contract.py"]
    only = ["-k", "floors or (full and log_prob)", "-p", "no:cacheprovider"]
    run(sys.executable, "-m", "pytest", *only, *quick, cwd=sdist)

"""tools/cluster.py on a small corpus: its file feeds the heads."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tfsoftmax.partitions import classes, files, trees

ROOT = Path(__file__).parent.parent


def cluster(*arguments):
    command = [sys.executable, str(ROOT / "tools" / "cluster.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_paths_of_every_word_of_the_corpus(corpus, tmp_path):
    out, words = tmp_path / "paths", corpus.vocabulary.words
    done = cluster(f"--data={corpus.directory}", f"--out={out}", "--classes=7", "--words=3")
    assert done.returncode == 0, done.stderr
    assert "average mutual information" in done.stdout
    assert len(done.stdout.splitlines()) == 3 + 7
    assert len(set(files.read_codes(out, words))) == 7
    assert len(out.read_text().splitlines()) == len(words)
    assert classes.build(out, len(words), words=words).max() == 6
    tree = trees.binarised(trees.build(out, len(words), words=words), corpus.vocabulary.counts)
    assert tree.is_binary and np.all(tree.depths > 0)


def test_the_class_of_one_word(corpus, tmp_path):
    word = corpus.vocabulary.words[5]
    done = cluster(f"--data={corpus.directory}", f"--out={tmp_path / 'p'}", "--classes=4",
                   f"--words_of={word}")
    assert word in done.stdout.splitlines()[-1].split("\t")[1].split(" ")


@pytest.mark.parametrize("flag, message", [
    ("--classes=0", "`classes` must be positive"), ("--words_of=xyzzy", "`words_of` must be a word"),
])
def test_mistakes_end_in_a_sentence(corpus, tmp_path, flag, message):
    done = cluster(f"--data={corpus.directory}", f"--out={tmp_path / 'p'}", flag)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {message}")

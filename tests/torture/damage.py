"""Damaged files: each file that a tool wrote, or reads, is flipped, cut, emptied or removed."""

import dataclasses
import json
import pathlib
import random
import re
import shutil
import tempfile
import warnings

import numpy as np

from runs_helper import CONFIG, MODEL, small_corpus
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.nbest import lists
from tfsoftmax.partitions import code_files, tree_builders
from tfsoftmax.runs import runs, training
from tfsoftmax.support.vocabulary import Vocabulary

from .cases import Case

TIMES = 12  # how often each kind of damage is done to a file, at other places
OWN = ("corpus", "run")  # what our tools wrote; the rest are texts that people write


def make_world(folder):
    """A corpus, a run of two steps with a file of classes, and texts that tools read."""
    corpus = small_corpus(folder)
    shutil.move(corpus.directory, folder / "corpus")
    words = corpus.vocabulary.words
    (folder / "codes.txt").write_text("".join(f"{i % 7}\t{w}\n" for i, w in enumerate(words)))
    leaves = [list(words[i : i + 5]) for i in range(0, len(words), 5)]
    (folder / "tree.json").write_text(json.dumps(leaves))
    (folder / "list.nbest").write_text(
        "".join(f"u{i} -{j}.5 -{i}.25 w{i} w{j}\n" for i in range(5) for j in range(3))
    )
    corpus.vocabulary.save(folder / "words.txt")
    model = dataclasses.replace(
        MODEL, head="class", head_options={"classes": str(folder / "codes.txt")}
    )
    config = dataclasses.replace(CONFIG, max_steps=2)
    training.train(str(folder / "corpus"), str(folder / "run"), model, config, verbose=False)


def read_corpus(folder):
    corpus = Corpus.load(folder / "corpus")
    arrays = [corpus.vocabulary.words, corpus.vocabulary.counts]
    for name in ("train", "valid", "test"):
        for file in corpus.split(name).files:
            file.verify()
        arrays += [np.stack(each) for each in zip(*batches(corpus, name).as_numpy_iterator())]
    return arrays


def read_run(folder):
    model, vocabulary, config = runs.load(str(folder / "run"), 4, 6)
    runs.Run(str(folder / "run")).metrics()
    step = config["progress"]["step"]
    return [*model.get_weights(), vocabulary.words, step, json.dumps(config["model"])]


def read_texts(folder):
    words = Vocabulary.load(folder / "words.txt").words
    lists.read(folder / "list.nbest")
    code_files.read_codes(folder / "codes.txt", words)
    tree_builders.build(str(folder / "tree.json"), len(words), words=words)
    return None


READERS = {"corpus": read_corpus, "run": read_run}


def damages(data, rng):
    """(name, what the file holds then, or None for no file, or a folder)."""
    place = rng.randrange(max(1, len(data)))
    flipped = bytearray(data)
    if data:
        flipped[place] ^= 1 << rng.randrange(8)
    yield "flipped bit", bytes(flipped)
    yield "cut off", data[:place]
    yield "more at the end", data + bytes(rng.randrange(256) for _ in range(9))
    yield "zeros in the middle", data[:place] + bytes(8) + data[place + 8 :]


WHOLE = {"emptied": b"", "removed": None, "a folder": "folder", "other content": b"{}\n",
         "null": b"null", "a list": b"[1]", "deep": b"[" * 100_000, "not UTF-8": b"\xff\xfe\xff",
         "a byte-order mark": "mark"}


class Damage:
    """A world, and the cases of damage to its files."""

    def __init__(self, seed):
        self.seed = seed
        self._place = tempfile.TemporaryDirectory()
        self.world = pathlib.Path(self._place.name) / "world"
        self.world.mkdir()
        make_world(self.world)
        self.sound = {name: reader(self.world) for name, reader in READERS.items()}

    def cases(self):
        for path in sorted(p for p in self.world.rglob("*") if p.is_file()):
            name = path.relative_to(self.world)
            if name.parts[0] in ("train.txt", "valid.txt", "test.txt") or "events" in name.name:
                continue  # texts that were prepared already, and TensorBoard's files
            data = path.read_bytes()
            rng = random.Random(f"{self.seed} {name}")
            for time in range(TIMES):
                for kind, content in damages(data, rng):
                    yield self._case(name, f"{kind} {time}", content)
            for kind, content in WHOLE.items():
                content = b"\xef\xbb\xbf" + data if content == "mark" else content
                yield self._case(name, kind, content)

    def _case(self, name, kind, content):
        owner = name.parts[0] if name.parts[0] in OWN else "texts"

        def run():
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder) / "world"
                shutil.copytree(self.world, copy)
                target = copy / name
                target.unlink()
                if content == "folder":
                    target.mkdir()
                elif content is not None:
                    target.write_bytes(content)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = READERS.get(owner, read_texts)(copy)
                same = found is None or all(map(np.array_equal, found, self.sound[owner]))
                return None if same else "silent: another result without a word"

        names = name.parts[-2:] if owner in OWN else ("codes.txt", "tree.json", "words.txt")
        pattern = "|".join(["`run`|`corpus`|`data`", *map(re.escape, names), re.escape(name.name)])
        return Case(f"{name}: {kind}", f"damage to {owner}", run, pattern)

"""Bad flags: every flag of every command of `tfsoftmax`, with values that are wrong for it."""

import dataclasses
import importlib
import json
import os
import pathlib
import resource
import shutil
import tempfile

from absl import flags

from command_server import in_child
from tfsoftmax.commands import options, program
from tfsoftmax.partitions.cost_model import MachineCosts

from .cases import Case, failure

LIMIT_SECONDS, LIMIT_BYTES = 60, 24 << 30
# Of these values every one is a good name for what a command writes.
NAMES = ("missing", "JSON", "a list", "a key twice", "null", "control characters")
NUMBERS = ["word", "nan", "inf", "-inf", "1e39", "-1", "0", str(10**30), "", "1.5"]
TEXTS = {
    "empty": "", "missing": "no/such/file", "a folder": "folder", "a file": "file",
    "JSON": '{"a": ',
    "a list": "[1]", "a key twice": '{"a": 1, "a": 2}', "deep": "[" * 99_999, "null": "null",
    "control characters": "a\x1b[31m\x07b", "not UTF-8": "\udcff\udcfe", "long": "x" * 5000,
    "below a file": "file/name",
}
CHOICES = ["", "unknown", "0", "a\x1b[31m\x07b", "\udcff\udcfe", "x" * 5000]
BOOLEANS = ["maybe", "2", "", "nan", "None"]
LISTS = [",", "1,,2", "1,1", "-1", "nan", "1e39", "word", "2,1", str(10**30)]
# What makes each command work, on the files of `make_world`.
SMALL = {"embedding_units": 5, "hidden_units": 5}
COSTS = [field.name for field in dataclasses.fields(MachineCosts)]
SOUND = {
    "prepare": {"corpus": "text", "train": "train.txt", "valid": "valid.txt", "test": "test.txt",
                "streams": 4, "time_steps": 6, "out": "new"},
    "train": {"data": "corpus", "run": "new", "max_steps": 1, "epochs": 1,
              "learning_rate": 0.1, **SMALL},
    "evaluate": {"run": "run", "split": "valid"},
    "generate": {"run": "run", "prompt": "w1 w2", "count": 1, "max_words": 3},
    "prepare_pairs": {"corpus": "text", "train": "pairs.tsv", "valid": "pairs.tsv", "out": "new",
                      "batch_size": 2},
    "train_pairs": {"data": "pairs", "run": "new", "max_steps": 1, "epochs": 1,
                    "learning_rate": 0.1, **SMALL},
    "evaluate_pairs": {"run": "pairs_run", "split": "valid", "summaries": 2},
    "export_pairs": {"run": "pairs_run", "out": "new"},
    "show_clusters_pairs": {"run": "organised_pairs"},
    "summarise": {"run": "pairs_run", "input": "short.txt", "beam": 2},
    "score": {"run": "run", "input": "short.txt"},
    "rescore": {"run": "run", "nbest": "list.nbest", "reference": "list.ref"},
    "export": {"run": "run", "out": "new"},
    "cutoffs": {"vocab_size": 1000, "constants": json.dumps(dict.fromkeys(COSTS, 1e-6))},
    "cluster": {"data": "corpus", "classes": 5, "passes": 1, "out": "new"},
    "show_clusters": {"run": "organised", "words_of": "w1"},
    "tfprof": {"vocab_size": 50, "streams": 2, "time_steps": 3, **SMALL},
    "memory_timeline": {"run": "organised"},
    "heads": {},
    "advise": {"vocab_size": 120, "units": 4, "positions": 6, "only": "full,sampled"},
}
SERVING = {"demo"}  # these commands go on until they are stopped
# What a flag needs beside it, or excludes (None).
BESIDE = {
    ("prepare", "manual_dir"): {"corpus": "ptb", "train": None, "valid": None, "test": None},
    ("cluster", "vectors"): {"method": "kmeans", "run": "run", "passes": None},
    ("cluster", "seed"): {"method": "kmeans", "run": "run", "passes": None},
    ("cluster", "run"): {"method": "kmeans", "passes": None},
    ("cluster", "method"): {"run": "run", "passes": None, "classes": None, "out": "new.json"},
    ("cluster", "balanced"): {"method": "splits", "run": "run", "passes": None, "classes": None},
    ("cluster", "shortlist"): {"method": "soul", "run": "run", "passes": None, "out": "new.json"},
    **{(train, name): beside for train in ("train", "train_pairs") for name, beside in {
        "momentum": {"optimizer": "sgd"},
        "weight_decay": {"optimizer": "adamw"},
        "reassign_steps": {"head": "self_organised"},
    }.items()},
    **{("train", name): {"cell": "transformer"} for name in ("attention_heads", "context")},
    ("generate", "length_power"): {"beam": 2},
    ("generate", "prompts"): {"prompt": None, "prompts": "short.txt"},
    ("rescore", "tune"): {"tune": "list.nbest", "tune_reference": "list.ref"},
    ("rescore", "tune_reference"): {"tune": "list.nbest", "tune_reference": "list.ref"},
    ("rescore", "against"): {"against": "list.ref"},
    ("rescore", "words"): {"words": "symbols.txt"},
    ("rescore", "utt2spk"): {"state": "speaker"},
    ("score", "unseen_words"): {"oov": "spread"},
    ("tfprof", "run"): {
        "run": "run", **dict.fromkeys(["vocab_size", "streams", "time_steps", *SMALL])
    },
    ("tfprof", "compare"): {"compare": "profile.json", "plot": "new.png"},
    ("memory_timeline", "trace"): {"run": None},
    ("evaluate", "data"): {"data": "corpus"},
    ("evaluate_pairs", "data"): {"data": "pairs"},
    ("cutoffs", "data"): {"data": "corpus"},
    ("advise", "data"): {"data": "corpus", "vocab_size": None},
    ("advise", "counts"): {"counts": "counts.txt", "vocab_size": None},
}


def flags_of(command):
    """The flags that a command defines itself."""
    before = set(flags.FLAGS)
    options.define(*options.groups_of(program._module(command).main))
    found = [flags.FLAGS[name] for name in flags.FLAGS if name not in before]
    for flag in found:
        delattr(flags.FLAGS, flag.name)
    return found


def make_world(folder):
    """The corpus, the runs and the texts that the sound flags name."""
    import pairs_helper
    from runs_helper import CONFIG, MODEL
    from tfsoftmax.pairs.task import PAIRS
    from tfsoftmax.runs import training

    from . import damage

    damage.make_world(folder)
    model = dataclasses.replace(MODEL, head="self_organised")
    training.train(
        str(folder / "corpus"), str(folder / "organised"), model,
        dataclasses.replace(CONFIG, max_steps=3), verbose=False, profile_batch=(1, 2),
    )
    (folder / "texts").mkdir()
    shutil.move(pairs_helper.small_pairs(folder / "texts", train=60).directory, folder / "pairs")
    for run, head in (("pairs_run", "full"), ("organised_pairs", "self_organised")):
        training.train(
            str(folder / "pairs"), str(folder / run),
            dataclasses.replace(pairs_helper.MODEL, head=head),
            dataclasses.replace(pairs_helper.CONFIG, max_steps=2), verbose=False, task=PAIRS,
        )
    (folder / "pairs.tsv").write_text("w1 w2\tw2\nw3 w1\tw1 w3\n" * 5)
    (folder / "counts.txt").write_text("9\n5\n3\n" * 40)
    (folder / "list.ref").write_text("".join(f"u{i} w{i} w1\n" for i in range(5)))
    (folder / "short.txt").write_text("w1 w2\nw3\n")
    (folder / "symbols.txt").write_text("".join(f"w{i} {i}\n" for i in range(60)))


class Flags:
    """A world, and the cases of flags on it."""

    def __init__(self, seed):
        self._place = tempfile.TemporaryDirectory()
        self.world = pathlib.Path(self._place.name) / "world"
        self.world.mkdir()
        _import_all()
        status, _, said = in_child(lambda: make_world(self.world), self.world)
        if status:
            raise RuntimeError(said)

    def cases(self):
        for command in program.COMMANDS:
            if command in SERVING:
                continue
            found = flags_of(command)
            yield self._case(command, "", {}, [])
            for flag in found:
                for value in wrong_values(command, flag):
                    yield self._case(command, flag.name, {flag.name: value}, [flag])
                yield self._case(command, flag.name + "x", {flag.name + "x": "1"}, [])

    def _case(self, command, name, given, found):
        chosen = {**SOUND[command], **BESIDE.get((command, name), {})}
        sound = chosen.get(name)
        chosen.update(given)

        def run():
            with tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                for path in self.world.iterdir():
                    os.symlink(path, folder / path.name)
                (folder / "folder").mkdir()
                (folder / "file").write_text("a b c\n")
                arguments = [f"--{n}={v}" for n, v in chosen.items() if v is not None]
                status, _, said = in_child(
                    lambda: _limited([command, *arguments]), folder, seconds=LIMIT_SECONDS
                )
                return self._verdict(status, said, found, given, sound, folder)

        subject = rf"`{name}`|--{name}\b" if name else "."
        value = next(iter(given.values()), "")
        shown = value if len(value) < 60 else value[:60] + "…"
        return Case(f"{command} --{name}={shown!r}", "flags", run, subject)

    def _verdict(self, status, said, found, given, sound, folder):
        if failed := failure(status, said):
            return failed
        if status:
            last = [line for line in said.splitlines() if "error: " in line or "FATAL" in line]
            raise ValueError(last[-1] if last else said)
        for flag in found:
            (value,) = given.values()
            if is_wrong(flag, value, sound, folder):
                return f"silent: {flag.name}={value!r} was taken"
        return None


def wrong_values(command, flag):
    """What to try for a flag, by its type."""
    kind = flag.flag_type()
    values = {"bool": BOOLEANS, "int": NUMBERS, "float": NUMBERS, "string enum": CHOICES}.get(kind)
    if values is None:
        chosen = TEXTS
        if flag.name in ("out", "plot") or SOUND[command].get(flag.name) == "new":
            chosen = {name: text for name, text in TEXTS.items() if name not in NAMES[1:]}
        values = [*chosen.values(), *LISTS * ("list" in kind)]
    return values


def is_wrong(flag, value, sound, folder):
    """Whether a command that took a value has to have noticed that it is wrong."""
    kind = flag.flag_type()
    if kind in ("int", "float"):
        try:
            number = (int if kind == "int" else float)(value)
        except ValueError:
            return True
        return not abs(number) < 3.4e38
    if kind == "bool":
        return True
    if kind == "string enum":
        return value not in flag.parser.enum_values
    is_read = isinstance(sound, str) and sound != "new" and (folder / sound).exists()
    return is_read and bool(value) and not (folder / value).exists()


def _limited(arguments):
    """Runs a command that may not take all memory, and which need not trace a function first."""
    import tensorflow as tf

    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    tf.config.run_functions_eagerly(not arguments[0].startswith("export"))
    program.main(arguments)


def _import_all():
    """Imports what the commands import, so that children need not."""
    for name in ("corpora.prepare", "runs.training", "lm.generation", "lm.scoring", "lm.sentences",
                 "lm.export", "pairs.summaries", "pairs.export", "pairs.rouge",
                 "lm.evaluation", "nbest.rescoring", "nbest.word_errors",
                 "partitions.brown", "partitions.kmeans", "partitions.splits",
                 "lm.word_vectors", "partitions.cutoffs", "profiling.profile",
                 "profiling.memory_timeline", "heads.reassign", "corpora.pipeline"):
        importlib.import_module(f"tfsoftmax.{name}")

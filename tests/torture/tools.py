"""The tools to which faults happen: how each is called, and what it makes."""

import dataclasses
import json
import random
import re
from collections.abc import Callable

SMALL = ("--embedding_units=5", "--hidden_units=7", "--epochs=1", "--pseudo_epochs=2",
         "--log_steps=2", "--learning_rate=0.5", "--clip_norm=5", "--checkpoint_steps=2",
         "--max_steps=4", "--head=class")


@dataclasses.dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        after: the tool whose folder it starts from, or None for one with texts only.
        line: returns its command line for a folder.
        out: the folder in which it makes something, and the name of that.
        reads: the folders that it reads.
        result: returns what it has made, from the folder.
        stdout: the file for what it prints, if that counts.
    """

    after: str | None
    line: Callable
    out: tuple[str, str]
    reads: tuple[str, ...]
    result: Callable
    stdout: str | None = None

    def made(self, folder):
        return folder / self.out[0] / self.out[1]


def start_world(folder):
    """Makes texts, n-best lists, and the folders in which the tools write."""
    rng = random.Random(0)
    for name in ("texts", "data", "trees", "runs", "exports", "scores", "printed"):
        (folder / name).mkdir(parents=True)
    for name, count in (("train", 60), ("valid", 8), ("test", 8)):
        lines = [" ".join(f"w{rng.randrange(30)}" for _ in range(6)) for _ in range(count)]
        (folder / "texts" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (folder / "texts" / "list.nbest").write_text(
        "".join(f"u{i} -{j}.5 -{i}.25 w{i} w{j}\n" for i in range(5) for j in range(3))
    )


def names(folder):
    """The names of all files and folders; TensorBoard's have the time in theirs."""
    found = (str(p.relative_to(folder)) for p in folder.rglob("*"))
    return sorted({without_chance(name) for name in found})


def without_chance(name):
    """A path without what is another in each process."""
    return re.sub(r"events\.out\.tfevents\..*|\b[0-9a-f]{16}\b|(?<=tempstate)\d+", "*", name)


def _prepare(folder):
    texts = [f"--{name}={folder}/texts/{name}.txt" for name in ("train", "valid", "test")]
    return ["prepare", "--corpus=text", *texts, f"--out={folder}/data/corpus", "--streams=4",
            "--time_steps=6"]


def _train(folder):
    classes = json.dumps({"classes": f"{folder}/trees/codes.txt"})
    return ["train", f"--data={folder}/data/corpus", f"--run={folder}/runs/run", *SMALL,
            f"--head_options={classes}"]


def _files(*tops):
    def result(folder):
        found = sorted(p for top in tops for p in (folder / top).rglob("*") if p.is_file())
        return [(str(p.relative_to(folder)), p.read_bytes()) for p in found]

    return result


def _tensors(prefix):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    wanted = sorted(
        name for name in reader.get_variable_to_shape_map()
        if "OBJECT_GRAPH" not in name and "save_counter" not in name
    )
    return [(name, reader.get_tensor(name).tobytes()) for name in wanted]


def _trained(folder):
    checkpoints = folder / "runs" / "run" / "checkpoints"
    pointers = json.loads((checkpoints / "pointers.json").read_text())
    lines = (folder / "runs" / "run" / "metrics.jsonl").read_text().splitlines()
    kept = ("event", "step", "nats_per_token", "learning_rate", "best_step")
    return [
        pointers["last"], pointers["best"],
        # Each start has a line of its own.
        [[values.get(key) for key in kept] for values in map(json.loads, lines)
         if values["event"] != "started"],
        *_tensors(checkpoints / pointers["last"] / "variables"),
        *_tensors(checkpoints / pointers["best"] / "variables"),
    ]


def _exported(folder):
    saved = folder / "exports" / "model"
    return [
        (saved / "saved_model.pb").stat().st_size > 0,
        (saved / "assets" / "vocabulary.txt").read_bytes(),
        *_tensors(saved / "variables" / "variables"),
    ]


TOOLS = {
    "prepare": Tool(None, _prepare, ("data", "corpus"), ("texts",), _files("data")),
    "cluster": Tool(
        "prepare",
        lambda f: ["cluster", f"--data={f}/data/corpus", f"--out={f}/trees/codes.txt",
                   "--classes=5", "--overwrite"],
        ("trees", "codes.txt"), ("data",), _files("trees"),
    ),
    "train": Tool("cluster", _train, ("runs", "run"), ("data", "trees"), _trained),
    "export": Tool(
        "train",
        lambda f: ["export", f"--run={f}/runs/run", f"--out={f}/exports/model"],
        ("exports", "model"), ("runs",), _exported,
    ),
    "rescore": Tool(
        "train",
        lambda f: ["rescore", f"--run={f}/runs/run", f"--nbest={f}/texts/list.nbest",
                   f"--out={f}/scores/rescored", "--overwrite"],
        ("scores", "rescored"), ("runs", "texts"), _files("scores", "printed"), "printed/hyp.txt",
    ),
    "score": Tool(
        "train",
        lambda f: ["score", f"--run={f}/runs/run", f"--input={f}/texts/test.txt"],
        ("runs", "run"), ("runs", "texts"),  # it writes nothing but what it prints
        _files("scores", "printed"), "printed/scored.txt",
    ),
}

"""What the report of an experiment keeps of its runs, for when their folders are gone.

results/NAME/results.json holds the configuration and the events of each run besides its measures.
A report therefore covers runs of several machines, and a clone makes it again without training. The
files that reports wrote before they kept events cannot be reported again.
"""

import json

from experiments.framework import seeds
from experiments.framework.definition import DATA
from experiments.framework.outcome import Outcome


def outcomes(runs, folder, path):
    """The outcome of each run: that of its folder, or the one kept of a run that finished before.

    Args:
        runs: list of `Run`.
        folder: `Path` of the directory in which each run has its own.
        path: `Path` of results.json, which may be missing.

    Returns:
        List of (`Run`, `Outcome`).
    """
    kept = {row["name"]: row for row in seeds.kept(path) if row.get("config")}
    found = []
    for run in runs:
        outcome = Outcome.read(run, folder / run.name)
        if outcome.state != "finished" and run.name in kept:
            config = kept[run.name]["config"]
            before = Outcome.of(run, config, kept[run.name]["events"])
            outcome = before if before.state == "finished" else outcome
        found.append((run, outcome))
    return found


def row(run, outcome):
    """The row of a run in results.json.

    It has no path: "{data}" stands for the folder of the corpus. Of the events that tell how fast
    the training went only the last is kept, which is the one that reports read.
    """
    own = {"name": run.name, "state": outcome.state, "paper": dict(run.paper), **outcome.measures()}
    if outcome.config is None or outcome.foreign:
        return own
    config = json.dumps(outcome.config)
    directory = json.dumps(outcome.config["corpus"]["directory"])[1:-1]
    speeds = [event for event in outcome.events if event["event"] == "train"]
    return {
        **own, "config": json.loads(config.replace(directory, DATA)),
        "events": [e for e in outcome.events if e["event"] != "train" or e is speeds[-1]],
    }

"""Reads what became of a run from its `config.json` and `metrics.jsonl`."""

import dataclasses
import functools
import itertools
import json
import os

from tfsoftmax.support.textio import records_of


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The records in the folder of a run.

    Args:
        config: the contents of `config.json`, or None if the run was never started.
        events: list of dicts, the lines of `metrics.jsonl`.
        foreign: whether the configuration differs from that of the definition.
    """

    config: dict | None
    events: list
    foreign: bool

    @classmethod
    def read(cls, run, directory):
        """Reads the folder of a `Run`."""
        try:
            config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls(None, [], False)
        return cls.of(run, config, records_of(directory / "metrics.jsonl"))

    @classmethod
    def of(cls, run, config, events):
        """The outcome of a `Run` with a configuration and events."""
        return cls(config, events, not _is_of(run, config))

    @functools.cached_property
    def training(self):
        """All events except the evaluations after training."""
        return [event for event in self.events if event["event"] != "test"]

    @property
    def finished(self):
        """The event that ended the training, or None."""
        last = self.training[-1] if self.training else {}
        return last if last.get("event") == "finished" else None

    @property
    def test(self):
        """The evaluation of the test split since the last training, or None."""
        after = itertools.takewhile(lambda e: e["event"] == "test", reversed(self.events))
        return next((event for event in after if event["split"] == "test"), None)

    @property
    def validations(self):
        """The validations with a perplexity; a perplexity of NaN is logged as null."""
        return [e for e in self.training if e["event"] == "valid" and e["perplexity"] is not None]

    @property
    def state(self):
        """One of "finished", "unfinished", "not started" and "of another definition"."""
        if self.config is None:
            return "not started"
        if self.foreign:
            return "of another definition"
        return "finished" if self.finished else "unfinished"

    def has_test_split(self):
        """Whether the corpus of the run has a test split."""
        return "test" in self.config["corpus"]["splits"]

    def is_of_corpus(self, directory):
        """Whether the run was trained on the corpus in a directory, judged by its path."""
        recorded = self.config["corpus"]["directory"]
        return os.path.realpath(recorded) == os.path.realpath(directory)

    def is_done(self, directory):
        """Whether the run as defined was trained to its end on the corpus in a directory."""
        return self.state == "finished" and self.is_of_corpus(directory)

    def measures(self):
        """What was measured so far, by the names in `definition.MEASURES`, and how long it took."""
        if self.foreign or not self.training:
            return {}
        last, finished, test = self.training[-1], self.finished or {}, self.test or {}
        speeds = [e["words_per_second"] for e in self.training if "words_per_second" in e]
        return {
            "perplexity": min((e["perplexity"] for e in self.validations), default=None),
            "test_perplexity": test.get("perplexity"),
            "words_per_second": speeds[-1] if speeds else None,
            "peak_memory_gib": finished.get("peak_memory_gib"),
            **{name: last.get(name) for name in ("step", "epoch", "seconds")},
        }


def _is_of(run, config):
    """Whether `config.json` agrees with the definition of a run.

    Where the definition says "auto", `config.json` holds what was decided on the machine.
    """
    model, training = run.of_corpus(config["corpus"]["directory"]).configs()
    try:
        recorded = type(model)(**config["model"])
        options = recorded.head_options
        asked = {k: v for k, v in model.head_options.items() if v == "auto" and k in options}
        recorded = dataclasses.replace(recorded, head_options={**options, **asked})
        return recorded == model and type(training)(**config["training"]) == training
    except (TypeError, ValueError):  # a field or a value that no longer exists
        return False

"""What became of a run: read from its `config.json` and `metrics.jsonl`, and nothing else."""

import dataclasses
import functools
import itertools
import json
import os

from tfsoftmax.lm.config import with_todays_names


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The records that a run's folder holds; none if the run was never started.

    Args:
        config: contents of `config.json`, or None.
        events: lines of `metrics.jsonl`.
        foreign: whether the configuration is not that of the definition.
    """

    config: dict | None
    events: list
    foreign: bool

    @classmethod
    def read(cls, run, directory):
        """Reads the folder of a `Run`; a last line that a kill cut short is left out."""
        try:
            config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
            config = with_todays_names(config)
        except FileNotFoundError:
            return cls(None, [], False)
        path = directory / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(True) if path.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return cls(config, events, not _is_of(run, config))

    @functools.cached_property
    def training(self):
        """All events but the evaluations after training."""
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
        """The validations that have a perplexity; NaN is logged as null."""
        return [e for e in self.training if e["event"] == "valid" and e["perplexity"] is not None]

    def curve(self):
        """Validations as (step, seconds of training, perplexity)."""
        points = [] if self.foreign else self.validations
        return [(e["step"], e["seconds"], e["perplexity"]) for e in points]

    @property
    def state(self):
        """finished, unfinished, not started, or of another definition."""
        if self.config is None:
            return "not started"
        if self.foreign:
            return "of another definition"
        return "finished" if self.finished else "unfinished"

    def has_test_split(self):
        return "test" in self.config["corpus"]["splits"]

    def is_of_corpus(self, directory):
        """Whether the run was trained on the corpus in a directory, as far as its path says."""
        recorded = self.config["corpus"]["directory"]
        return os.path.realpath(recorded) == os.path.realpath(directory)

    def measures(self):
        """What was measured so far, by the names in `definition.MEASURES`, and the length."""
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
    """Whether `config.json` says what the definition of a run says.

    What the definition leaves to the machine, "auto", `config.json` has as it was decided.
    """
    model, training = run.of_corpus(config["corpus"]["directory"]).configs()
    try:
        recorded = type(model)(**config["model"])
        options = recorded.head_options
        asked = {k: v for k, v in model.head_options.items() if v == "auto" and k in options}
        recorded = dataclasses.replace(recorded, head_options={**options, **asked})
        return recorded == model and type(training)(**config["training"]) == training
    except (TypeError, ValueError):  # a field that there is no more, or a value of it
        return False

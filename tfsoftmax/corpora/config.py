"""Settings of `prepare`; the command-line flags derive from them. Loads nothing."""

import dataclasses

from tfsoftmax.corpora.catalogue import DATASETS, MIN_COUNTS


def _field(default, text):
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class PrepareConfig:
    """What to prepare, and how. Invalid values raise ValueError."""

    corpus: str = _field(
        "docstrings",
        "docstrings (English of the installed Python packages), text (your own files), or "
        f"one to download: {', '.join(DATASETS)}",
    )
    out: str = _field("", "directory to make; appears whole or not at all")
    train: tuple = _field((), "text: training files or globs, plain, .gz, .xz or .bz2; "
                              "UTF-8, one sentence a line")
    valid: tuple = _field((), "text: validation files or globs")
    test: tuple = _field((), "text: test files or globs")
    min_count: int | None = _field(
        None, "words that occur less often become <unk>. By default 1, but "
              f"{', '.join(f'{n} for {name}' for name, n in MIN_COUNTS.items() if n > 1)}"
    )
    max_vocab: int | None = _field(
        None, "keep only so many words, the most frequent, <unk> and <eos> included"
    )
    streams: int = _field(128, "parallel streams of sentences, the batch size")
    time_steps: int = _field(20, "time steps in a batch")
    seed: int = _field(1, "of the shuffling; the same seed gives the same bytes")
    manual_dir: str | None = _field(
        None, "folder to look at before downloading a corpus; it may hold the archive or its "
              "unpacked files"
    )
    overwrite: bool = _field(False, "replace a corpus prepared before with other settings")

    def __post_init__(self):
        for name in ("train", "valid", "test"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        lowest = {"min_count": 1, "max_vocab": 3, "streams": 1, "time_steps": 1, "seed": 0}
        for name, low in lowest.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise ValueError(f"`{name}` must be at least {low}. Received: {name}={value}")
        if not self.out:
            raise ValueError(f"`out` must name a directory. Received: out={self.out!r}")

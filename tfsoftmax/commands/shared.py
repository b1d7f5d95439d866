"""What several commands share: groups of options, and what becomes of them."""

import dataclasses
import os
import sys

from tfsoftmax.commands.options import given
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.sharding.local_workers import become_workers
from tfsoftmax.support.arguments import check_at_least, expect, refusal
from tfsoftmax.support.conditions import needs

WIDEST_BEAM = 1000
WORKERS_OF_CORE = 16  # processes that may share a CPU core, each of them a TensorFlow


@dataclasses.dataclass(frozen=True)
class Devices:
    """Devices.

    Attributes:
        strategy: Devices that share the streams: one (none), all of this machine (mirrored), or a
            cluster (multiworker) that TF_CONFIG or Slurm describes. auto uses the cluster of
            TF_CONFIG, or the largest number of GPUs that divides the streams.
        workers: Number of processes to start on this machine, as a cluster.
    """

    CHOICES = {"strategy": ("auto", "none", "mirrored", "multiworker")}

    strategy: str = "auto"
    workers: int = 1


@dataclasses.dataclass(frozen=True)
class Processes:
    """Devices.

    Attributes:
        strategy: What shares the sentences: one device (none), all devices of this machine
            (mirrored), or the processes of a cluster (multiworker) that TF_CONFIG or Slurm
            describes.
        workers: Number of processes to start on this machine, as a cluster.
    """

    CHOICES = {"strategy": ("none", "mirrored", "multiworker")}

    strategy: str = "none"
    workers: int = 1


@dataclasses.dataclass(frozen=True)
class Scoring:
    """How sentences are scored.

    Attributes:
        lowercase: Turn all words into lower case first.
        oov: Score of a word outside the vocabulary: unk, P(<unk>); skip, none; spread, P(<unk>) /
            unseen_words.
        unseen_words: Number of words that share <unk>.
        normalisation: With constant, the scores of a self-normalised head are taken as
            log-probabilities.
    """

    CHOICES = {"oov": ("unk", "skip", "spread"), "normalisation": ("exact", "constant")}
    NEEDS = {"unseen_words": needs("oov", "spread")}

    lowercase: bool = False
    oov: str = "unk"
    unseen_words: int | None = None
    normalisation: str = "exact"


def corpus_of(run, data: str | None):
    """The corpus in a folder, by default the one that the run was trained on.

    Raises:
        FileNotFoundError: it is no longer where it was.
        ValueError: it is of another kind, or has another vocabulary or tokenizer than the run.
    """
    from tfsoftmax.corpora.text import fingerprint

    words, trained_on = run.vocabulary(), run.config()["corpus"].get("directory", "")
    expect(data or os.path.isdir(trained_on), "data", "say where the corpus is, since it is no "
           "longer in the folder on which the run was trained",
           received=f"no folder {trained_on!r}", error=FileNotFoundError)
    corpus = run.task.corpus.load(data or trained_on)
    expect(corpus.vocabulary.sha256 == words.sha256, "data",
           f"have the vocabulary that the run was trained with, which has {len(words):,} words",
           received=f"{corpus.directory!r}, with {len(corpus.vocabulary):,} words")
    paths = run.tokenizer_path(), corpus.tokenizer
    ours, given = (path and fingerprint(path)["sha256"] for path in paths)
    expect(ours == given, "data",
           f"have the tokenizer that the run was trained with, of SHA-256 {ours}",
           received=f"{corpus.directory!r}, with {given}")
    return corpus


def fork_workers(options: "Devices | Processes") -> None:
    """With --workers=N, forks the process; then this function returns in its N children only.

    It has to be called before TensorFlow is imported, and before files are opened.
    """
    count = options.workers
    check_at_least(1, workers=count)
    expect(count <= 1 or not given("strategy") or options.strategy in ("auto", "multiworker"),
           "workers", "be 1 without --strategy=multiworker",
           received={"workers": count, "strategy": options.strategy})
    most = WORKERS_OF_CORE * (os.cpu_count() or 1)
    expect(count <= most, "workers",
           f"be at most {most}, {WORKERS_OF_CORE} for each CPU core of this machine", count)
    cluster = os.environ.get("TF_CONFIG", "")
    expect(count <= 1 or not cluster, "workers",
           "be 1 where TF_CONFIG in the environment describes the cluster: --workers=N is a "
           "cluster of its own, on this machine",
           received=f"workers={count}, TF_CONFIG={cluster[:200]}")
    if count > 1:
        become_workers(count)


def started_workers(options: "Devices | Processes", streams: int | None = None):
    """Imports TensorFlow, and makes the `Workers` that the flags ask for, after `fork_workers`.

    Only the first worker prints to standard output.

    Args:
        options: the flags.
        streams: the number of streams of the corpus, if devices share them.
    """
    load_tensorflow()
    from tfsoftmax.sharding.cluster import start_workers

    count = options.workers
    strategy = "multiworker" if count > 1 else options.strategy
    workers = start_workers(strategy, count, streams)
    if not workers.first:
        sys.stdout = open(os.devnull, "w")
    return workers


def check_beam(beam: int | None) -> None:
    """Raises ValueError if a beam is given and too wide."""
    expect((beam or 0) <= WIDEST_BEAM, "beam", f"be at most {WIDEST_BEAM}", beam)


def checked_word_of(word: str | None, vocabulary) -> int | None:
    """The id of the word that --words_of gives, or None without it."""
    if word is not None and word not in vocabulary:
        raise refusal("words_of", "be a word of the vocabulary", received=f"{word!r}")
    return None if word is None else int(vocabulary.encode([word])[0])


def counts_of(config):
    """The counts of words, and a description: of the corpus `data`, or of `vocab_size` by Zipf."""
    if not config.data:
        from tfsoftmax.partitions.cost_model import zipf

        check_at_least(2, vocab_size=config.vocab_size)
        expect(0 <= config.exponent <= 10, "exponent", "lie in [0, 10]", config.exponent)
        what = f"{config.vocab_size:,} words by Zipf's law of exponent {config.exponent:g}"
        return zipf(config.vocab_size, config.exponent), what
    from tfsoftmax.corpora.manifest import read_manifest
    from tfsoftmax.corpora.records import vocabulary_of

    manifest = read_manifest(config.data)
    counts = vocabulary_of(config.data, manifest["vocabulary"]).counts
    return counts, f"{manifest['name']}: {len(counts):,} words"

"""Publishes a prepared corpus: its folder appears whole, or stays as it was."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora.config import CorpusConfig
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.sources import Source
from tfsoftmax.support.arguments import expect, refusal
from tfsoftmax.support.progress import Progress
from tfsoftmax.support.replacing import alone, whole_or_nothing


def published(
    kind: type[Corpus], config: CorpusConfig, make_source: Callable[[CorpusConfig], Source],
    settings_of: Callable[[CorpusConfig, Source], dict], write: Callable, progress: bool = True,
    begin: Callable[[], None] = lambda: None,
) -> Corpus:
    """Prepares a corpus, unless it is already there, intact and with the same settings.

    Args:
        kind: the class of the corpus.
        config: its settings.
        make_source: makes the source of the texts.
        settings_of: the settings that the manifest keeps, for which an existing corpus is kept.
        write: called with the folder to write, one for scratch files, the source, the settings, the
            configuration and a `Progress`; writes the files and the manifest.
        progress: whether to report progress on the standard error stream.
        begin: called before the work, unless the corpus is already there.

    Returns:
        The corpus in `config.out`.

    Raises:
        ValueError: settings or input are wrong, `out` holds something else, or another process is
            preparing it.
        FileNotFoundError: there is no such input.
        ConnectionError: the corpus must be downloaded, and its host does not answer.
        OSError: for example, the disk is full.
        RuntimeError: the records do not hold exactly the tokens that were counted, or an input
            file changed in the meantime.
    """
    progress = Progress(progress)
    out = os.path.realpath(config.out)
    _check_replaceable(out, config.overwrite)
    source = make_source(config)
    settings = {"task": kind.TASK, **settings_of(config, source), "inputs": source.inputs}
    with alone(out):
        if _is_prepared(kind, out, config.corpus, settings, config.overwrite):
            progress.say(f"{config.out} already holds this corpus, and it is intact.")
            return kind.load(config.out)
        expect(not os.path.ismount(out), "out",
               "not be a mount point, which cannot be replaced as a whole; name a folder in it",
               out)
        expect(os.path.commonpath([out, os.getcwd()]) != out, "out", "not be the working directory "
               "or lie above it, because it is replaced as a whole; name a folder in it", out)
        begin()
        with _disk_full_explained(config.out), whole_or_nothing(out, replace=True) as partial:
            scratch = os.path.join(partial, "scratch")
            os.mkdir(scratch)
            write(partial, scratch, source, settings, config, progress)
            if make_source(config).inputs != source.inputs:
                raise RuntimeError(
                    "the input files must not change while they are read, but they did; nothing "
                    "was written or replaced"
                )
            shutil.rmtree(scratch)
        return kind.load(config.out)


def missing_split(corpus: Corpus) -> list[str]:
    """A note for those who want to train on a corpus that has no split for validation."""
    if "valid" in corpus.splits:
        return []
    return ["note: training also needs a split valid; give it as you gave train"]


def _check_replaceable(out, overwrite):
    """Raises ValueError unless `out` is absent or empty, or holds a corpus and nothing else."""
    if not os.path.lexists(out) or (os.path.isdir(out) and not os.listdir(out)):
        return
    expect(manifests.is_ours(out), "out",
           "be new, empty, or a corpus that `prepare` made. Nothing was changed",
           received=f"out={out!r}, which has no {manifests.MANIFEST} of such a corpus")
    foreign = sorted(set(os.listdir(out)) - manifests.files_of(out))
    expect(not overwrite or not foreign, "out",
           "hold nothing but a corpus, to be overwritten. Nothing was changed",
           received=f"out={out!r}, which also holds {', '.join(foreign[:5])}")


def _is_prepared(kind, out, name, settings, overwrite):
    """Whether `out` holds this corpus, intact and with these settings.

    Raises:
        ValueError: it holds a damaged corpus or one with other settings, which may not be
            overwritten.
    """
    if not os.path.isfile(os.path.join(out, manifests.MANIFEST)):
        return False
    try:
        manifest = manifests.read_manifest(out, kind)
        found = {"corpus": manifest["name"]} | manifest["settings"]
        differences = _differences(found, {"corpus": name} | settings)
        if not differences:
            for split in kind.load(out).splits.values():
                for file in split.all_files:
                    file.verify()
            return True
        problem = "; ".join(differences)
    except (ValueError, FileNotFoundError) as error:
        problem = f"it is damaged: {error}"
    if overwrite:
        return False
    raise refusal("out", "not hold another corpus; choose another directory, or set `overwrite`",
                  received=f"out={out!r}, where {problem}")


def _differences(found, wanted):
    different = [key for key in wanted if found.get(key) != wanted[key]]
    return [
        "the input files were different" if key == "inputs" else
        f"{key} is {found.get(key)!r}, not {wanted[key]!r}"
        for key in different
    ]


@contextlib.contextmanager
def _disk_full_explained(out):
    try:
        yield
    except Exception as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        if not full and os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise OSError(
            errno.ENOSPC,
            f"The disk is full: preparing {out} needs 8 to 12 bytes a word in the folder that "
            f"contains it. Nothing was written or replaced. Received: {error}",
        ) from error

"""Text to a directory of vocabulary, record files and manifest, whole or not at all."""

import contextlib
import errno
import os
import re
import shutil

from tfsoftmax.corpora import records
from tfsoftmax.corpora.catalogue import MIN_COUNTS
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.counting import build_vocabulary, count
from tfsoftmax.corpora.encoding import encode_split
from tfsoftmax.corpora.progress import Progress
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.sources import make_source

__all__ = ["PrepareConfig", "prepare", "summary"]


def prepare(config, progress=True):
    """Prepares a corpus, or finds it prepared with the same settings and intact.

    Two passes: count the words, then encode. Sentences are shuffled once and dealt to
    parallel streams with `<eos>` behind each; lines without a word are no sentences.

    Args:
        config: `PrepareConfig`.
        progress: whether to report on the standard error stream.

    Returns:
        The `Corpus` in `config.out`.

    Raises:
        ValueError: bad settings or input; `out` holds something else.
        FileNotFoundError: no such input.
        ConnectionError: the corpus must be downloaded and its host does not answer.
        OSError: for example a full disk.
        RuntimeError: the records do not hold exactly the tokens that were counted.

    Source: Müller 2017, section 4.2.
    """
    progress = Progress(progress)
    out = os.path.abspath(config.out)
    check_replaceable(out, config.overwrite)
    source = make_source(config)
    settings = _settings(config, source)
    if is_prepared(out, config.corpus, settings, config.overwrite):
        progress.say(f"{config.out} holds this corpus already, intact: nothing to do.")
        return Corpus.load(config.out)
    with _disk_full_explained(config.out), _whole_or_nothing(out) as partial:
        scratch = os.path.join(partial, "scratch")
        os.mkdir(scratch)
        _write_corpus(partial, scratch, source, settings, config, progress)
        shutil.rmtree(scratch)
    return Corpus.load(config.out)


def summary(corpus):
    """Returns a table of a corpus's splits as text, for a person to read."""
    lines = [
        f"{corpus.directory}: {corpus.name}, vocabulary {len(corpus.vocabulary):,}, "
        f"{corpus.streams} streams of {corpus.time_steps} steps",
        f"{'split':<6}{'sentences':>13}{'words':>15}{'tokens in = out':>17}"
        f"{'records':>10}{'OOV words':>12}{'OOV':>9}",
    ]
    for name, split in corpus.splits.items():
        lines.append(
            f"{name:<6}{split.sentences:>13,}{split.words:>15,}{split.tokens:>17,}"
            f"{split.records:>10,}{split.oov:>12,}{split.oov_rate:>9.3%}"
        )
    return "\n".join(lines)


def check_replaceable(out, overwrite):
    """Raises ValueError unless `out` is absent, empty, or a corpus of ours and nothing else."""
    if not os.path.lexists(out) or (os.path.isdir(out) and not os.listdir(out)):
        return
    if not records.is_ours(out):
        raise ValueError(
            "`out` must be new, empty, or a corpus prepared before; nothing was changed. "
            f"Received: out={out!r}, which has no {records.MANIFEST} of such a corpus"
        )
    foreign = [name for name in sorted(os.listdir(out)) if not records.is_our_file(name)]
    if overwrite and foreign:
        raise ValueError(
            "`out` must hold nothing but the corpus, if it is to be overwritten; nothing was "
            f"changed. Received: out={out!r}, which also holds {', '.join(foreign[:5])}"
        )


def is_prepared(out, name, settings, overwrite):
    """Whether `out` holds this very corpus, intact.

    Raises:
        ValueError: it holds a corpus of other settings, or a damaged one, and may not be
            overwritten.
    """
    if not os.path.isfile(os.path.join(out, records.MANIFEST)):
        return False
    try:
        manifest = records.read_manifest(out)
        found = {"corpus": manifest["name"]} | manifest["settings"]
        differences = _differences(found, {"corpus": name} | settings)
        if not differences:
            for split in Corpus.load(out).splits.values():
                for file in split.files:
                    file.verify()
            return True
        problem = "; ".join(differences)
    except (ValueError, FileNotFoundError) as error:
        problem = f"it is damaged: {error}"
    if overwrite:
        return False
    raise ValueError(
        f"`out` already holds a corpus; choose another directory or allow `overwrite`. "
        f"Received: out={out!r}, where {problem}"
    )


def _settings(config, source):
    min_count = MIN_COUNTS[config.corpus] if config.min_count is None else config.min_count
    return {
        "min_count": min_count,
        "max_vocab": config.max_vocab,
        "streams": config.streams,
        "time_steps": config.time_steps,
        "seed": config.seed,
        "inputs": source.inputs,
    }


def _differences(found, wanted):
    different = [key for key in wanted if found.get(key) != wanted[key]]
    return [
        "the input files were others" if key == "inputs" else
        f"{key} is {found.get(key)!r}, not {wanted[key]!r}"
        for key in different
    ]


def _write_corpus(directory, scratch, source, settings, config, progress):
    with progress.phase("reading") as report:
        blocks = source.open(scratch, report)
    tallies = {}
    for name in blocks:
        with progress.phase(f"counting {name}") as report:
            tallies[name] = count(blocks[name], name, name == "train", report)
    _check_shape(config, tallies["train"])
    vocabulary = build_vocabulary(tallies["train"], settings["min_count"], config.max_vocab)
    vocabulary.save(os.path.join(directory, records.VOCABULARY))
    splits = {}
    for name in blocks:
        with progress.phase(f"encoding {name}", tallies[name].words) as report:
            splits[name] = encode_split(
                blocks[name], name, tallies[name], vocabulary, config, directory, scratch, report
            )
    records.write_manifest(directory, config.corpus, settings, vocabulary, splits)


def _check_shape(config, tally):
    """Refuses records far larger than the corpus, which would be padding."""
    for name, most in (("streams", tally.sentences), ("time_steps", tally.words + tally.sentences)):
        value, most = getattr(config, name), max(most, 1000)
        if value > most:
            raise ValueError(
                f"`{name}` must be at most {most} for a training split of {tally.sentences} "
                f"sentences. Received: {name}={value}"
            )


@contextlib.contextmanager
def _whole_or_nothing(out):
    """Yields a directory beside `out` that takes its place at the end, or is removed."""
    parent, name = os.path.split(out)
    os.makedirs(parent, exist_ok=True)
    partial = os.path.join(parent, f".{name}.{os.getpid()}.partial")
    replaced = os.path.join(parent, f".{name}.{os.getpid()}.replaced")
    _clear_up(out, parent, name)
    os.mkdir(partial)
    try:
        yield partial
        if os.path.isdir(out) and os.listdir(out):
            os.rename(out, replaced)
        os.rename(partial, out)
    except BaseException:
        if os.path.isdir(replaced) and not os.path.exists(out):
            os.rename(replaced, out)
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def _clear_up(out, parent, name):
    """Removes, or puts back, what a process that was killed left beside `out`."""
    for entry in os.listdir(parent):
        match = re.fullmatch(rf"\.{re.escape(name)}\.(\d+)\.(partial|replaced)", entry)
        if not match or (int(match[1]) != os.getpid() and _is_alive(int(match[1]))):
            continue
        if match[2] == "replaced" and not os.path.exists(out):
            os.rename(os.path.join(parent, entry), out)
        else:
            shutil.rmtree(os.path.join(parent, entry), ignore_errors=True)


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


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
            f"The disk is full: preparing {out} takes about 8 bytes a word beside it; nothing "
            f"was written, nothing replaced. Received: {error}",
        ) from error

"""Prepares a corpus: turns text into a directory of vocabulary, record files and manifest."""

import contextlib
import errno
import os
import shutil

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora.catalogue import MAX_PIECES, MAX_VOCABS, MIN_COUNTS, ORDERS
from tfsoftmax.corpora.config import PIECE_MODELS, TASKS, PrepareConfig
from tfsoftmax.corpora.counting import build_vocabulary, count, piece_vocabulary
from tfsoftmax.corpora.encoding import encode_split
from tfsoftmax.corpora.manifest import SHAPE
from tfsoftmax.corpora.pair_corpus import write_pairs
from tfsoftmax.corpora.piece_training import train_sentencepiece
from tfsoftmax.corpora.progress import Progress
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.sources import make_source
from tfsoftmax.corpora.text import fingerprint
from tfsoftmax.corpora.tokenizers import check_tokenizer, load_tokenizer
from tfsoftmax.corpora.unmarked import Unmarked
from tfsoftmax.support.replacing import alone, whole_or_nothing

__all__ = ["PrepareConfig", "prepare", "summary"]

PADDING = 10_000_000  # positions that a split may have beyond ten for each token


def prepare(config: PrepareConfig, progress: bool = True) -> Corpus:
    """Prepares a corpus, unless it is already there, intact and with the same settings.

    A first pass counts the words, a second one encodes them. Each line with a word is a sentence,
    and `<eos>` follows it. Sentences are shuffled once and dealt to parallel streams, or the
    streams are contiguous parts of the text (`order`). Pairs (`task`) are put into batches of
    similar lengths, which are shuffled once.

    Args:
        config: the settings.
        progress: whether to report progress on the standard error stream.

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

    Source: Müller 2017, section 4.2.
    """
    progress = Progress(progress)
    out = os.path.realpath(config.out)
    check_replaceable(out, config.overwrite)
    source = make_source(config)
    settings = _settings(config, source)
    with alone(out):
        if is_prepared(out, config.corpus, settings, config.overwrite):
            progress.say(f"{config.out} already holds this corpus, and it is intact.")
            return Corpus.load(config.out, TASKS)
        if os.path.ismount(out):
            raise ValueError(
                "`out` must not be a mount point, which cannot be replaced as a whole; name a "
                f"folder in it. Received: out={out!r}"
            )
        if os.path.commonpath([out, os.getcwd()]) == out:
            raise ValueError(
                "`out` must not be the working directory or lie above it, as it is replaced as a "
                f"whole; name a folder in it. Received: out={out!r}"
            )
        check_tokenizer(config.tokenizer, config.piece_model)
        with _disk_full_explained(config.out), whole_or_nothing(out, replace=True) as partial:
            scratch = os.path.join(partial, "scratch")
            os.mkdir(scratch)
            write = {"sentences": _write_sentences, "pairs": write_pairs}[config.task]
            write(partial, scratch, source, settings, config, progress)
            if make_source(config).inputs != source.inputs:
                raise RuntimeError(
                    "the input files must not change while they are read, but they did; nothing "
                    "was written or replaced"
                )
            shutil.rmtree(scratch)
        return Corpus.load(config.out, TASKS)


def summary(corpus: Corpus) -> str:
    """Describes a corpus and its splits in a table."""
    start = f"{corpus.directory}: {corpus.name}, vocabulary {len(corpus.vocabulary):,}, "
    if corpus.task == "pairs":
        lines = [start + f"batches of {corpus.batch_size} pairs", *_pair_table(corpus)]
        return "\n".join([*lines, *_missing_split(corpus)])
    lines = [
        f"{start}{corpus.streams} streams, {corpus.time_steps} time steps in a record, "
        + {"text": "in the order of the text", "shuffled": "shuffled"}[corpus.order],
        f"{'split':<6}{'sentences':>13}{'words':>15}{'tokens in = out':>17}"
        f"{'records':>10}{'OOV pieces' if corpus.tokenizer else 'OOV words':>12}{'OOV':>9}",
    ]
    for name, split in corpus.splits.items():
        lines.append(
            f"{name:<6}{split.sentences:>13,}{split.words:>15,}{split.tokens:>17,}"
            f"{split.records:>10,}{split.oov:>12,}{split.oov_rate:>9.3%}"
        )
    return "\n".join(
        [*lines, *_piece_lines(corpus), *_padding_lines(corpus), *_missing_split(corpus)]
    )


def _missing_split(corpus):
    if "valid" not in corpus.splits:
        yield "note: tfsoftmax train also needs a split valid; give it as you gave train"


def _padding_lines(corpus):
    """A warning if much of the training split's records is padding."""
    train = corpus.splits["train"]
    positions = train.records * corpus.streams * corpus.time_steps
    if positions > 2 * train.tokens:
        yield (
            f"warning: {1 - train.tokens / positions:.0%} of the records of train is padding, "
            "since streams differ in length: take fewer --streams or, for long lines, --order=text"
        )


def _piece_lines(corpus):
    """What the pieces of a corpus make of its text."""
    if corpus.tokenizer is None:
        return
    for name, split in corpus.splits.items():
        pieces = (split.tokens - split.sentences) / split.words
        yield (
            f"{name}: {pieces:.3f} pieces a word, {split.text_bytes / split.tokens:.2f} bytes a "
            + ("token; they restore every line" if split.is_restorable else
               f"token; they do not restore {split.changed_lines:,} of {split.sentences:,} lines")
        )


def _pair_table(corpus):
    yield (
        f"{'split':<9}{'pairs':>11}{'source words':>14}{'OOV':>9}{'target words':>14}{'OOV':>9}"
        f"{'records':>9}{'cut sources':>13}{'left out: empty':>17}{'long target':>13}"
    )
    for name, split in corpus.splits.items():
        more = split.pair_counts
        source_oov = more["source_oov"] / max(1, more["source_words"])
        yield (
            f"{name:<9}{split.sentences:>11,}{more['source_words']:>14,}{source_oov:>9.3%}"
            f"{split.words:>14,}{split.oov_rate:>9.3%}{split.records:>9,}"
            f"{more['cut_sources']:>13,}{more['empty_pairs']:>17,}{more['long_targets']:>13,}"
        )


def check_replaceable(out: str, overwrite: bool) -> None:
    """Raises ValueError unless `out` is absent or empty, or holds a corpus and nothing else."""
    if not os.path.lexists(out) or (os.path.isdir(out) and not os.listdir(out)):
        return
    if not manifests.is_ours(out):
        raise ValueError(
            "`out` must be new, empty, or a corpus that `prepare` made. Nothing was changed. "
            f"Received: out={out!r}, which has no {manifests.MANIFEST} of such a corpus"
        )
    foreign = [name for name in sorted(os.listdir(out)) if not manifests.is_our_file(name)]
    if overwrite and foreign:
        raise ValueError(
            "`out` must hold nothing but a corpus, to be overwritten. Nothing was changed. "
            f"Received: out={out!r}, which also holds {', '.join(foreign[:5])}"
        )


def is_prepared(out: str, name: str, settings: dict, overwrite: bool) -> bool:
    """Whether `out` holds this corpus, intact and with these settings.

    Raises:
        ValueError: it holds a damaged corpus or one with other settings, which may not be
            overwritten.
    """
    if not os.path.isfile(os.path.join(out, manifests.MANIFEST)):
        return False
    try:
        manifest = manifests.read_manifest(out)
        found = {"corpus": manifest["name"]} | manifest["settings"]
        differences = _differences(found, {"corpus": name} | settings)
        if not differences:
            for split in Corpus.load(out, TASKS).splits.values():
                for file in split.all_files:
                    file.verify()
            return True
        problem = "; ".join(differences)
    except (ValueError, FileNotFoundError) as error:
        problem = f"it is damaged: {error}"
    if overwrite:
        return False
    raise ValueError(
        "`out` already holds a corpus; choose another directory, or set `overwrite`. "
        f"Received: out={out!r}, where {problem}"
    )


def _settings(config, source):
    order = config.order or ORDERS[config.kind]
    trained = config.piece_model is not None
    most = MAX_PIECES if trained else MAX_VOCABS.get(config.kind)
    from_file = not trained and config.tokenizer != "words"
    if from_file and not os.path.isfile(config.tokenizer):
        raise ValueError(
            f"`tokenizer` must be words, {', '.join(PIECE_MODELS)} or a file. "
            f"Received: tokenizer={config.tokenizer!r}"
        )
    return {
        "task": config.task,
        "min_count": config.min_count or MIN_COUNTS[config.kind],
        "max_vocab": config.max_vocab or most,
        "tokenizer": fingerprint(config.tokenizer) if from_file else config.tokenizer,
        "field": config.field,
        "order": order,
        **{name: getattr(config, name) for name in SHAPE[config.task]},
        **({"vocabulary_from": config.vocabulary_from} if config.task == "pairs" else {}),
        "seed": config.seed if order == "shuffled" or trained else None,
        "inputs": source.inputs,
    }


def _differences(found, wanted):
    different = [key for key in wanted if found.get(key) != wanted[key]]
    return [
        "the input files were different" if key == "inputs" else
        f"{key} is {found.get(key)!r}, not {wanted[key]!r}"
        for key in different
    ]


def _write_sentences(directory, scratch, source, settings, config, progress):
    with progress.phase("reading") as report:
        blocks = {
            name: Unmarked(of_split, name, config.tokenizer == "words")
            for name, of_split in source.open(scratch, report).items()
        }
    file = _tokenizer_file(directory, blocks["train"], settings, config, progress)
    tokenizer, tallies = load_tokenizer(file and os.path.join(directory, file)), {}
    for name in blocks:
        with progress.phase(f"counting {name}") as report:
            tallies[name] = count(blocks[name], name, tokenizer, name == "train", report)
        for note in blocks[name].notes():
            progress.say(f"note: {note}")
    _check_shape(config, tallies["train"])
    if settings["order"] == "shuffled":
        for name, tally in tallies.items():
            _check_padding(config.streams, name, tally)
    vocabulary = (
        build_vocabulary(tallies["train"], settings["min_count"], config.max_vocab)
        if tokenizer.pieces is None else piece_vocabulary(tallies["train"], tokenizer)
    )
    vocabulary.save(os.path.join(directory, manifests.VOCABULARY))
    splits = {}
    for name in blocks:
        with progress.phase(f"encoding {name}", tallies[name].pieces) as report:
            splits[name] = encode_split(
                blocks[name], name, tallies[name], tokenizer, vocabulary, config,
                settings["order"], directory, scratch, report,
            )
    manifests.write_manifest(directory, config.corpus, settings, vocabulary, splits, file)


def _tokenizer_file(directory, blocks, settings, config, progress):
    """Writes the file of the tokenizer into the folder of the corpus, and returns its name.

    Words have none, and None is returned.
    """
    if config.tokenizer == "words":
        return None
    if config.piece_model is None:
        name = manifests.TOKENIZERS[config.tokenizer.endswith(".json")]
        shutil.copyfile(config.tokenizer, os.path.join(directory, name))
        return name
    name = manifests.TOKENIZERS[0]
    with progress.phase("training pieces", unit="lines") as report:
        train_sentencepiece(
            blocks, report, os.path.join(directory, name), config.piece_model,
            settings["max_vocab"] - 1, settings["seed"],  # <eos> is no piece of the model
        )
    return name


def _check_shape(config, tally):
    """Refuses records that are far larger than the corpus and would mostly be padding."""
    for name, most in (("streams", tally.sentences), ("time_steps", tally.tokens)):
        value, most = getattr(config, name), max(most, 1000)
        if value > most:
            raise ValueError(
                f"`{name}` must be at most {most} for a training split of {tally.sentences} "
                f"sentences. Received: {name}={value}"
            )


def _check_padding(streams, split, tally):
    """Refuses a sentence so long that the other streams would be padding for most of it."""
    positions = streams * tally.longest
    if positions > 10 * tally.tokens + PADDING:
        raise ValueError(
            f"`streams` must be fewer, or `order` be text, for a sentence of {tally.longest:,} "
            f"tokens, as all streams would be as long: {positions:,} positions for the "
            f"{tally.tokens:,} tokens of {split}. Received: streams={streams}"
        )


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

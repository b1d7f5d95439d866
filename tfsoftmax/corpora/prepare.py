"""Prepares a corpus of sentences: turns text into a folder of vocabulary, records and manifest."""

import os
import shutil

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora.catalogue import MAX_PIECES, MIN_COUNTS, ORDERS
from tfsoftmax.corpora.config import PIECE_MODELS, PrepareConfig
from tfsoftmax.corpora.counting import build_vocabulary, count, kept_vocabulary
from tfsoftmax.corpora.encoding import encode_split
from tfsoftmax.corpora.piece_training import train_sentencepiece
from tfsoftmax.corpora.publishing import missing_split, published
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.sources import make_source
from tfsoftmax.corpora.text import fingerprint
from tfsoftmax.corpora.tokenizers import check_tokenizer, load_tokenizer
from tfsoftmax.corpora.unmarked import Unmarked
from tfsoftmax.support.arguments import expect

__all__ = ["PrepareConfig", "prepare", "summary"]

PADDING = 10_000_000  # positions that a split may have beyond ten for each token


def prepare(config: PrepareConfig, progress: bool = True) -> Corpus:
    """Prepares a corpus, unless it is already there, intact and with the same settings.

    A first pass counts the words, a second one encodes them. Each line with a word is a sentence,
    and `<eos>` follows it. Sentences are shuffled once and dealt to parallel streams, or the
    streams are contiguous parts of the text (`order`).

    Args:
        config: the settings.
        progress: whether to report progress on the standard error stream.

    Returns:
        The corpus in `config.out`.

    Raises:
        ValueError, OSError, RuntimeError: as `publishing.published` says.

    Source: Müller 2017, section 4.2.
    """
    return published(
        Corpus, config, make_source, _settings, _write_sentences, progress,
        begin=lambda: check_tokenizer(config.tokenizer, config.piece_model),
    )


def summary(corpus: Corpus) -> str:
    """Describes a corpus and its splits in a table."""
    lines = [
        f"{corpus.directory}: {corpus.name}, vocabulary {len(corpus.vocabulary):,}, "
        f"{corpus.streams} streams, {corpus.time_steps} time steps in a record, "
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
        [*lines, *_piece_lines(corpus), *_padding_lines(corpus), *missing_split(corpus)]
    )


def _padding_lines(corpus):
    """A warning if much of the training split's records is padding."""
    train = corpus.splits["train"]
    positions = train.records * corpus.streams * corpus.time_steps
    if positions > 2 * train.tokens:
        yield (
            f"warning: {positions - train.tokens:,} of the {positions:,} positions of train are "
            "padding: take fewer --streams or --time_steps"
            + ", or --order=text for long lines" * (corpus.order == "shuffled")
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


def _settings(config, source):
    order = config.order or ORDERS[config.kind]
    trained = config.piece_model is not None
    from_file = not trained and config.tokenizer != "words"
    expect(not from_file or os.path.isfile(config.tokenizer), "tokenizer",
           f"be words, {', '.join(PIECE_MODELS)} or a file", config.tokenizer)
    return {
        "min_count": config.min_count or MIN_COUNTS[config.kind],
        "max_vocab": config.max_vocab or (MAX_PIECES if trained else None),
        "tokenizer": fingerprint(config.tokenizer) if from_file else config.tokenizer,
        "field": config.field,
        "order": order,
        **{name: getattr(config, name) for name in Corpus.SHAPE},
        "seed": config.seed if order == "shuffled" or trained else None,
    }


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
        if tokenizer.pieces is None else kept_vocabulary(tokenizer.pieces, tallies["train"])
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
        expect(value <= most, name,
               f"be at most {most} for a training split of {tally.sentences} sentences", value)


def _check_padding(streams, split, tally):
    """Refuses a sentence so long that the other streams would be padding for most of it."""
    positions = streams * tally.longest
    expect(positions <= 10 * tally.tokens + PADDING, "streams", "be fewer, or `order` must be "
           f"text: a sentence of {tally.longest:,} tokens would make all streams as long, "
           f"{positions:,} positions for the {tally.tokens:,} tokens of {split}", streams)

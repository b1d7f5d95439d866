"""The manifest of a prepared corpus: what its files are, and which settings made them."""

import dataclasses
import json
import os

from tfsoftmax.corpora.config import TASKS
from tfsoftmax.support import textio, whole_files
from tfsoftmax.vocabulary import Vocabulary

FORMAT, VERSION = "tfsoftmax corpus", 1
MANIFEST, VOCABULARY = "manifest.json", "vocabulary.txt"
TOKENIZERS = ("tokenizer.model", "tokenizer.json")  # the names of the file of a tokenizer
COUNTS = ("records", "sentences", "words", "tokens", "oov")  # of a split
# Further ones of a split of sentences, which corpora lack that were made before November 2026.
TEXT_COUNTS = ("text_bytes", "changed_lines")
# Further ones of a split of pairs: words of the sources, `<unk>` among them, sources that were cut,
# pairs that were left out because a side was empty or the target too long.
PAIR_COUNTS = ("source_words", "source_oov", "cut_sources", "empty_pairs", "long_targets")
# The settings of each task that decide how batches look. The first is the number of rows.
SHAPE = {
    "sentences": ("streams", "time_steps"), "pairs": ("batch_size", "max_source", "max_target"),
}
TEXTS = "-texts.tsv.gz"  # the end of the names of the files of pairs


def is_ours(directory: str) -> bool:
    """Whether a directory has the manifest of a prepared corpus, of any version."""
    try:
        return textio.read_json(os.path.join(directory, MANIFEST))["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        return False


def is_our_file(name: str) -> bool:
    """Whether a file of this name can belong to a prepared corpus."""
    return name in (MANIFEST, VOCABULARY, *TOKENIZERS) or name.endswith((".tfrecord", TEXTS))


def read_manifest(directory: str) -> dict:
    """Reads the manifest of a prepared corpus.

    Raises:
        FileNotFoundError: there is no manifest.
        ValueError: the file is not the manifest of a corpus, or is of another version.
    """
    path = os.path.join(directory, MANIFEST)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"{directory!r} must be a corpus made by `tfsoftmax prepare`. Received: no file {path}"
        )
    manifest = textio.read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{path}: must be the manifest of a {FORMAT}. Received: another JSON file")
    if manifest.get("version") != VERSION:
        raise ValueError(
            f"{path}: must be of version {VERSION}; prepare the corpus again. "
            f"Received: version {manifest.get('version')}"
        )
    _check_fields(path, manifest)
    return manifest


def write_manifest(
    directory: str, name: str, settings: dict, vocabulary: Vocabulary, splits: dict,
    tokenizer: str | None = None,
) -> None:
    """Writes the manifest of the corpus whose files are in `directory`.

    Args:
        directory: the folder of the corpus.
        name: the name of the corpus.
        settings: the settings that it was prepared with.
        vocabulary: its `Vocabulary`.
        splits: dictionary from the name of a split to its `records.Split`.
        tokenizer: the name of the file of the tokenizer, if there is one.
    """
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "settings": settings,
        "vocabulary": {"size": len(vocabulary), "sha256": vocabulary.sha256},
        **({"tokenizer": _file(directory, tokenizer)} if tokenizer else {}),
        "splits": {
            key: {
                "sentences": split.sentences,
                "words": split.words,
                "tokens": split.tokens,
                "oov": split.oov,
                "oov_rate": split.oov_rate,
                "records": split.records,
                "files": list(map(_described, split.files)),
                **{c: getattr(split, c) for c in TEXT_COUNTS if getattr(split, c) is not None},
                **split.pair_counts,
                **({"texts": _described(split.texts)} if split.texts else {}),
            }
            for key, split in splits.items()
        },
    }
    with whole_files.writing(os.path.join(directory, MANIFEST)) as file:
        json.dump(manifest, file, indent=2, ensure_ascii=False)
        file.write("\n")


def _file(directory, name):
    return {"path": name, "sha256": whole_files.sha256_of(os.path.join(directory, name))}


def _described(file):
    return dataclasses.asdict(file) | {"path": os.path.basename(file.path)}


def _check_fields(path, manifest):
    """Raises ValueError unless the manifest has all that `Corpus.load` reads, of its kind."""

    def checked(owner, name, kind, least=0):
        value = owner.get(name)
        if type(value) is not kind or (kind is int and value < least):
            wanted = f"a whole number of at least {least}" if kind is int else f"a {kind.__name__}"
            raise ValueError(
                f"{path}: `{name}` must be {wanted}; prepare the corpus again. "
                f"Received: {name}={repr(value)[:100]}"
            )
        return value

    checked(manifest, "name", str)
    checked(checked(manifest, "vocabulary", dict), "sha256", str)
    checked(manifest["vocabulary"], "size", int)
    settings = checked(manifest, "settings", dict)
    for name, values in (("task", TASKS), ("order", ("text", "shuffled"))):
        if checked(settings, name, str) not in values:
            raise ValueError(
                f"{path}: `{name}` must be {' or '.join(values)}; prepare the corpus again. "
                f"Received: {name}={settings[name][:100]!r}"
            )
    if "tokenizer" in manifest:
        tokenizer = checked(manifest, "tokenizer", dict)
        checked(tokenizer, "sha256", str)
        if checked(tokenizer, "path", str) not in TOKENIZERS:
            raise ValueError(
                f"{path}: `tokenizer` must be {' or '.join(TOKENIZERS)}; prepare the corpus again. "
                f"Received: path={tokenizer['path'][:100]!r}"
            )
    pairs = settings["task"] == "pairs"
    for name in SHAPE[settings["task"]]:
        checked(settings, name, int, 1)
    for name in checked(manifest, "splits", dict):
        split = checked(manifest["splits"], name, dict)
        for count in COUNTS + PAIR_COUNTS * pairs + tuple(c for c in TEXT_COUNTS if c in split):
            checked(split, count, int)
        files = dict(enumerate(checked(split, "files", list)))
        for index in files:
            checked(files, index, dict)
        for file in [*files.values(), *([checked(split, "texts", dict)] if pairs else [])]:
            checked(file, "sha256", str)
            for count in ("records", "bytes"):
                checked(file, count, int)
            if os.path.basename(checked(file, "path", str)) != file["path"]:
                raise ValueError(
                    f"{path}: `path` must be a name in the same folder. "
                    f"Received: path={file['path']!r}"
                )

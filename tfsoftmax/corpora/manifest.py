"""The manifest of a prepared corpus: what its files are, and which settings made them."""

import json
import os

from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import refusal
from tfsoftmax.vocabulary import Vocabulary

FORMAT, VERSION = "tfsoftmax corpus", 1
MANIFEST, VOCABULARY = "manifest.json", "vocabulary.txt"
TOKENIZERS = ("tokenizer.model", "tokenizer.json")  # the names of the file of a tokenizer


def is_ours(directory: str) -> bool:
    """Whether a directory has the manifest of a prepared corpus, of any version."""
    try:
        return textio.read_json(os.path.join(directory, MANIFEST))["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        return False


def files_of(directory: str) -> set[str]:
    """The names of the files that belong to a prepared corpus of any kind and version."""

    def paths(value):
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            for key, below in value.items():
                yield from [below] if key == "path" else paths(below)

    listed = paths(textio.read_json(os.path.join(directory, MANIFEST)))
    return {MANIFEST, VOCABULARY, *(name for name in listed if isinstance(name, str))}


def read_manifest(directory: str, kind: type | None = None) -> dict:
    """Reads the manifest of a prepared corpus.

    Args:
        directory: the folder of the corpus.
        kind: the class of the corpus, `records.Corpus` for example, for which all that it reads is
            checked; None for any, of which only the vocabulary is.

    Raises:
        FileNotFoundError: there is no manifest.
        ValueError: the file is not the manifest of a corpus, is of another version, or of a corpus
            of another kind.
    """
    path = os.path.join(directory, MANIFEST)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"{directory!r} must be a corpus made by `tfsoftmax prepare`. Received: no file {path}"
        )
    manifest = textio.read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise refusal(f"{path}:", f"be the manifest of a {FORMAT}", received="another JSON file")
    if manifest.get("version") != VERSION:
        raise refusal(
            f"{path}:", f"be of version {VERSION}; prepare the corpus again",
            received=f"version {manifest.get('version')}"
        )
    _check_fields(path, manifest, directory, kind)
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
            key: split.described() for key, split in splits.items()
        },
    }
    with whole_files.writing(os.path.join(directory, MANIFEST)) as file:
        json.dump(manifest, file, indent=2, ensure_ascii=False)
        file.write("\n")


def _file(directory, name):
    return {"path": name, "sha256": whole_files.sha256_of(os.path.join(directory, name))}


def _check_fields(path, manifest, directory, kind):
    """Raises ValueError unless the manifest has all that `Corpus.load` reads."""

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
    if kind is None:
        return
    settings = checked(manifest, "settings", dict)
    if checked(settings, "task", str) != kind.TASK:
        raise ValueError(
            f"{directory!r} must be a corpus of {kind.TASK}; `tfsoftmax --help` lists the commands "
            f"for others. Received: one of {settings['task'][:100]}"
        )
    for name, values in kind.CHOICES.items():
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
    for name in kind.SHAPE:
        checked(settings, name, int, 1)
    for name in checked(manifest, "splits", dict):
        split = checked(manifest["splits"], name, dict)
        for count in kind.SPLIT.counts():
            checked(split, count, int)
        files = dict(enumerate(checked(split, "files", list)))
        for index in files:
            checked(files, index, dict)
        for file in [*files.values(), *(checked(split, f, dict) for f in kind.SPLIT.OTHER_FILES)]:
            checked(file, "sha256", str)
            for count in ("records", "bytes"):
                checked(file, count, int)
            if os.path.basename(checked(file, "path", str)) != file["path"]:
                raise ValueError(
                    f"{path}: `path` must be a name in the same folder. "
                    f"Received: path={file['path']!r}"
                )

"""The manifest of a prepared corpus: what its files are, and which settings made them."""

import os

from tfsoftmax.support import manifests, textio, whole_files
from tfsoftmax.support.arguments import expect, refusal
from tfsoftmax.support.vocabulary import Vocabulary

FORMAT, VERSION = "tfsoftmax corpus", 1
MANIFEST, VOCABULARY = "manifest.json", "vocabulary.txt"
TOKENIZERS = ("tokenizer.model", "tokenizer.json")  # the names of the file of a tokenizer
_ANY_KIND = {"name": str, "settings": dict, "vocabulary": {"sha256": str, "size": manifests.COUNT}}
_HERE = ("be a name in the same folder",
         lambda path: type(path) is str and path == os.path.basename(path))
_RECORDS = {**manifests.FILE, "records": manifests.COUNT, "path": _HERE}
_TOKENIZER = {"sha256": str, "path": manifests.one_of(TOKENIZERS)}
_ADVICE = "; prepare the corpus again"


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
    expect(os.path.isfile(path), f"{directory!r}", "be a corpus made by `tfsoftmax prepare`",
           received=f"no file {path}", error=FileNotFoundError)
    manifest = manifests.read_object(path, {}, finite=True)
    if manifest.get("format") != FORMAT:
        raise refusal(f"{path}:", f"be the manifest of a {FORMAT}", received="another JSON file")
    expect(manifest.get("version") == VERSION, f"{path}:",
           f"be of version {VERSION}; prepare the corpus again",
           received=f"version {manifest.get('version')}")
    manifests.check_shape(manifest, _ANY_KIND, path, _ADVICE)
    if kind is not None:
        task = manifest["settings"].get("task")
        expect(task == kind.TASK, repr(directory),
               f"be a corpus of {kind.TASK}; `tfsoftmax --help` lists the commands for others",
               received=f"one of {task}")
        manifests.check_shape(manifest, _shape(kind), path, _ADVICE)
        if "tokenizer" in manifest:
            manifests.check_shape(manifest["tokenizer"], _TOKENIZER, path, _ADVICE, ("tokenizer",))
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
        splits: dictionary from the name of a split to its `splits.Split`.
        tokenizer: the name of the file of the tokenizer, if there is one.
    """
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "settings": settings,
        "vocabulary": {"size": len(vocabulary), "sha256": vocabulary.sha256},
        **({"tokenizer": _file(directory, tokenizer)} if tokenizer else {}),
        "splits": {key: split.described() for key, split in splits.items()},
    }
    manifests.write_object(os.path.join(directory, MANIFEST), manifest, indent=2)


def _file(directory, name):
    return {"path": name, "sha256": whole_files.sha256_of(os.path.join(directory, name))}


def _shape(kind):
    """What `Corpus.load` reads of the manifest of a kind of corpus."""
    counts = dict.fromkeys(kind.SPLIT.counts(), manifests.COUNT)
    others = dict.fromkeys(kind.SPLIT.OTHER_FILES, _RECORDS)
    settings = {name: manifests.one_of(values) for name, values in kind.CHOICES.items()}
    return {
        "settings": settings | dict.fromkeys(kind.SHAPE, manifests.at_least(1)),
        "splits": {...: {**counts, **others, "files": [_RECORDS]}},
    }

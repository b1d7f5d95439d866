"""The files that shape a run's model, of which the run keeps its own copies and the SHA-256."""

import os

from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.head_options import known_of
from tfsoftmax.support.manifests import check_file
from tfsoftmax.support.textio import plain_name
from tfsoftmax.support.whole_files import copy_whole, sha256_of

FILES = "files"  # the folder of the copies in that of the run
TOKENIZER = "tokenizer"


def paths_of_files(model_config: ModelConfig, config: TrainingConfig | None = None) -> dict:
    """The files that configurations name: {option: path}, the tree of the head for example."""
    choices = known_of(model_config.head).files
    options = model_config.head_options
    paths = {
        name: options[name] for name, others in choices.items()
        if isinstance(options.get(name), str) and options[name] not in others
    }
    if config is not None and config.pretrained:
        paths["pretrained"] = config.pretrained
    return paths


def keep_copies(
    directory: str, model_config: ModelConfig, config: TrainingConfig, described: dict | None,
    corpus: Corpus | None = None,
) -> dict:
    """Copies the files of a new run, and finds those of one that goes on.

    Pretrained vectors are not copied, because the first checkpoint holds them.

    Args:
        directory: the folder for the copies.
        model_config, config: the configuration that was asked for.
        described: the run's `config.json`; None if the run has not begun.
        corpus: the corpus, whose tokenizer is one of the files.

    Returns:
        {option: {"name", "sha256"}} of the files as they are now. A file that is gone counts as
        unchanged if the run has its copy.
    """
    kept = {} if described is None else described["files"]
    files = {}
    paths = paths_of_files(model_config, config)
    if corpus is not None and corpus.tokenizer is not None:
        paths[TOKENIZER] = corpus.tokenizer
    for option, path in paths.items():
        root, _ = os.path.splitext(plain_name(path))
        name = option + path[len(root) :]  # with all ends, such as .json.gz, which tell the form
        if described is None and os.path.isfile(path) and option != "pretrained":
            os.makedirs(directory, exist_ok=True)
            copy_whole(path, os.path.join(directory, name))
            files[option] = {"name": name, "sha256": sha256_of(os.path.join(directory, name))}
        elif os.path.isfile(path):
            files[option] = {"name": name, "sha256": sha256_of(path)}
        elif option in kept:
            files[option] = kept[option]
    return files


def with_copies(model_config: ModelConfig, directory: str, files: dict) -> ModelConfig:
    """The configuration with the run's own copies in place of the files that it names.

    Args:
        model_config: the configuration that was asked for.
        directory: the folder of the copies.
        files: what `keep_copies` returned when the run began.

    Raises:
        ValueError: a copy is missing or is not what the run began with.
    """
    options = {}
    for option in paths_of_files(model_config):
        if option in files:  # else the head says that there is no such file
            options[option] = checked_copy(directory, files[option])
    return model_config.with_head_options(options)


def checked_copy(directory: str, kept: dict) -> str:
    """The path of the copy of a file, {"name", "sha256"}; a ValueError if it is another file."""
    copy = os.path.join(directory, os.path.basename(kept["name"]))
    check_file(copy, kept)
    return copy

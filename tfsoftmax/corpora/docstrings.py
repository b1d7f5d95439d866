"""The corpus that every installation has: the docstrings of the installed Python packages."""

import ast
import inspect
import os
import sysconfig
import warnings
import zlib
from collections.abc import Iterable, Iterator

from tfsoftmax.corpora.processes import on_all_cores
from tfsoftmax.corpora.prose import sentences

_SKIPPED = frozenset({"__pycache__", "dist-packages", "site-packages", "test", "tests"})
_OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_TRAIN_PERCENT, _VALID_PERCENT = 94, 3
_BLOCK_LINES = 10_000
_LONG_CHARACTERS = 80


def open_docstrings(scratch, report, roots=None):
    """Reads the corpus into memory (about 15 MB of text).

    Sources are parsed with `ast`; nothing is imported or run. Besides docstrings, strings of
    several lines count, such as the language reference of `help`, descriptions of datasets, and
    the docstrings that numpy attaches to compiled functions. Tests are left out. A sentence that
    occurs several times is kept only once, where it first occurs. A hash of the string that
    contains it decides its split, so that the split does not depend on the other packages.

    Args:
        scratch: not used; `Source.open` has this argument.
        report: a function that is called with the number of words in each file.
        roots: directories to read; by default Python's own library and site-packages.

    Returns:
        Dictionary from split ("train", "valid", "test") to a list of blocks of sentences.

    Raises:
        ValueError: there are too few docstrings for all three splits.
    """
    splits = {"train": [], "valid": [], "test": []}
    seen = set()
    for texts in on_all_cores(_texts, list(python_files(roots or installed()))):
        words = 0
        for split, found in texts:
            lines = splits[split]
            for sentence in found:
                if sentence not in seen:
                    seen.add(sentence)
                    lines.append(sentence)
                    words += sentence.count(" ") + 1
        report(words)
    for name, lines in splits.items():
        if not lines:
            raise ValueError(
                f"`docstrings` needs packages with English docstrings for the {name} split. "
                f"Received: {len(seen)} sentences in all from {roots or installed()}"
            )
    return {
        name: [lines[i : i + _BLOCK_LINES] for i in range(0, len(lines), _BLOCK_LINES)]
        for name, lines in splits.items()
    }


def installed() -> list[str]:
    """The folders of Python's own library and of the installed packages."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys([paths["stdlib"], paths["purelib"], paths["platlib"]]))


def python_files(roots: Iterable[str]) -> Iterator[str]:
    """Yields the paths of source files in a fixed order, without those of tests."""
    for root in roots:
        for directory, subdirectories, files in os.walk(root):
            subdirectories[:] = sorted(set(subdirectories) - _SKIPPED)
            for name in sorted(files):
                if name.endswith(".py"):
                    yield os.path.join(directory, name)


def docstrings(path: str, others: bool = False) -> list[str]:
    """The docstrings of a source file, each once; none if it is not valid Python.

    Args:
        path: the file, which is parsed and not run.
        others: whether other strings of several lines count too.
    """
    try:
        with open(path, "rb") as file:
            source = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those of invalid escape sequences
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    strings = {}
    for node in _nodes(tree):
        if isinstance(node, _OWNERS):
            text = ast.get_docstring(node)
        elif others and isinstance(node, ast.Constant) and _is_long_string(node.value):
            text = inspect.cleandoc(node.value)
        else:
            continue
        if text:
            strings[text] = None
    return list(strings)


def _texts(path):
    """The split and the sentences of each docstring and long string of a source file."""
    return [(_split_of(text), sentences(text)) for text in docstrings(path, others=True)]


def _nodes(tree):
    """The nodes of a tree in the order of `ast.walk`, without those in which no string fits."""
    nodes = [tree]
    for node in nodes:  # which grows meanwhile
        nodes += filter(_has_room, ast.iter_child_nodes(node))
    return nodes


def _has_room(node):
    """Whether the source of a node is long enough for a docstring or a long string."""
    if isinstance(node, _OWNERS) or not hasattr(node, "lineno"):  # which may begin before `def`
        return True
    several_lines = node.end_lineno > node.lineno
    return several_lines or node.end_col_offset - node.col_offset >= _LONG_CHARACTERS


def _is_long_string(value):
    return isinstance(value, str) and len(value) >= _LONG_CHARACTERS and value.count("\n") >= 2


def _split_of(text):
    percent = zlib.crc32(text.encode("utf-8", "surrogatepass")) % 100
    if percent < _TRAIN_PERCENT:
        return "train"
    return "valid" if percent < _TRAIN_PERCENT + _VALID_PERCENT else "test"

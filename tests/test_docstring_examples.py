"""The examples of docstrings run as they stand after `import keras, tfsoftmax`."""

import importlib
import inspect
import pkgutil
import re
import textwrap

import keras
import pytest

import tfsoftmax


def public():
    """{dotted name: object} of the public classes and functions of all modules but commands."""
    found = {}
    for module in pkgutil.walk_packages(tfsoftmax.__path__, "tfsoftmax."):
        if ".commands" in module.name:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            own = getattr(value, "__module__", None) == module.name and not name.startswith("_")
            if own and (inspect.isclass(value) or inspect.isfunction(value)):
                found[f"{module.name}.{name}".removeprefix("tfsoftmax.")] = value
    return found


def example_of(value):
    """The indented block after `Example:` in a docstring, or an empty string."""
    block = re.search(r"^Example:\n((?: {4}.*\n?|\n)+)", inspect.getdoc(value) or "", re.MULTILINE)
    return textwrap.dedent(block.group(1)) if block else ""


PUBLIC = public()
EXAMPLES = {name: example_of(value) for name, value in PUBLIC.items() if example_of(value)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(1)
    exec(EXAMPLES[name], {"keras": keras, "tfsoftmax": tfsoftmax})  # noqa: S102


@pytest.mark.parametrize("folder", ["heads", "layers", "partitions"])
def test_every_public_class_has_an_example_of_itself(folder):
    classes = [
        name for name, value in PUBLIC.items()
        if name.startswith(folder) and inspect.isclass(value)
    ]
    assert classes and [name for name in classes if name not in EXAMPLES] == []

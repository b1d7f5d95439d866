"""What `import tfsoftmax` shows to users, to editors and to type checkers."""

import ast
import importlib
import inspect
import os
import pathlib
import subprocess
import sys

import keras
import pytest

import tfsoftmax

ROOT = pathlib.Path(tfsoftmax.__file__).parent


def imported_names(path):
    """{name: module} of what the source of a module imports from the package; a tool reads no more.

    `from tfsoftmax.heads import *` stands for what the `__all__` of that module lists.
    """
    names = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tfsoftmax"):
            for alias in node.names:
                if alias.name == "*":
                    source = ROOT.parent.joinpath(*node.module.split("."), "__init__.py")
                    names |= {name: node.module for name in listed(source)}
                else:
                    names[alias.asname or alias.name] = node.module
    return names


def listed(path):
    """The literal `__all__` of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} has no __all__")


SOURCES = imported_names(ROOT / "__init__.py")


def test_the_list_of_names_is_without_repetitions():
    assert len(tfsoftmax.__all__) == len(set(tfsoftmax.__all__)) > 30


@pytest.mark.parametrize("name", tfsoftmax.__all__)
def test_a_public_name_is_there_and_documented_and_seen_in_the_source(name):
    value = getattr(tfsoftmax, name)
    assert name in dir(tfsoftmax)
    if name != "HEADS":  # a dictionary
        assert (inspect.getdoc(value) or "").strip()
    module = SOURCES[name]
    expected = getattr(importlib.import_module(module), name, None)
    assert value is (expected or importlib.import_module(f"{module}.{name}"))


@pytest.mark.parametrize("module", ["heads", "samplers"])
def test_a_list_of_names_is_complete(module):
    public = importlib.import_module(f"tfsoftmax.{module}").__all__
    source = imported_names(ROOT / module / "__init__.py")
    missing = {name for name in source if not name.startswith("_")} - set(public)
    assert not missing, f"add to `__all__` of tfsoftmax/{module}/__init__.py: {missing}"


def test_every_class_that_keras_may_meet_in_a_file_is_registered_by_the_import():
    registered = {
        cls for name, cls in keras.saving.get_custom_objects().items()
        if name.startswith("tfsoftmax>")
    }
    public = [value for value in vars(tfsoftmax).values() if inspect.isclass(value)]
    public += [getattr(tfsoftmax.optimizers, name) for name in ("Adagrad", "Adam", "AdamW", "SGD")]
    public += [getattr(tfsoftmax.samplers, name) for name in tfsoftmax.samplers.__all__
               if inspect.isclass(getattr(tfsoftmax.samplers, name))]
    kept = (keras.layers.Layer, keras.losses.Loss, keras.metrics.Metric, keras.optimizers.Optimizer)
    bases = (tfsoftmax.SoftmaxHead, tfsoftmax.samplers.Sampler)
    missing = [c for c in public if issubclass(c, kept) and c not in (*bases, *registered)]
    assert missing == []


def test_type_checkers_are_told_that_the_package_is_typed():
    assert (ROOT / "py.typed").exists()


@pytest.mark.parametrize("module", ["tfsoftmax", "tfsoftmax_command, tfsoftmax.commands.program"])
def test_another_backend_is_refused_before_keras_is_imported(module):
    """Also where the package of that backend is not installed, as here."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"], capture_output=True, text=True,
        env={**os.environ, "KERAS_BACKEND": "nonsuch"}, check=False,
    )
    *_, last = done.stderr.splitlines()
    assert done.returncode == 1
    assert last.startswith('ImportError: `KERAS_BACKEND` must be "tensorflow"')
    assert last.endswith("Received: KERAS_BACKEND='nonsuch'")


def test_a_backend_that_keras_has_loaded_is_refused():
    """A configuration file may choose it, so that the environment does not tell."""
    program = "import keras; keras.backend.backend = lambda: 'jax'; import tfsoftmax"
    environment = {name: x for name, x in os.environ.items() if name != "KERAS_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment,
        check=False,
    )
    assert done.stderr.splitlines()[-1].endswith("Received: KERAS_BACKEND='jax'")

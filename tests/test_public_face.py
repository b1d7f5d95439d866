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


# hints and checks, which are no public names of who imports them
NOT_NAMES = ("tfsoftmax.support.arguments",)


def imported_names(path):
    """{name: (module, its name there)} of what the source of a module imports from the package.

    A tool reads no more. `from tfsoftmax.heads import *` stands for what the `__all__` of that
    module lists.
    """
    names = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tfsoftmax") and (
            node.module not in NOT_NAMES
        ):
            for alias in node.names:
                if alias.name == "*":
                    source = ROOT.parent.joinpath(*node.module.split("."), "__init__.py")
                    names |= {name: (node.module, name) for name in listed(source)}
                else:
                    names[alias.asname or alias.name] = (node.module, alias.name)
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
    module, there = SOURCES[name]
    expected = getattr(importlib.import_module(module), there, None)
    assert value is (expected or importlib.import_module(f"{module}.{there}"))


@pytest.mark.parametrize("module", ["heads", "samplers", "survey"])
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


def test_type_hints_of_public_signatures_are_short():
    """They stand in `help` and where editors show signatures. A union may have several types."""
    public = [getattr(tfsoftmax, name) for name in tfsoftmax.__all__]
    for module in [m for m in public if inspect.ismodule(m)]:
        public += [v for v in vars(module).values()
                   if getattr(v, "__module__", "").startswith("tfsoftmax.")]
    public += [m for c in public if inspect.isclass(c) and c.__module__.startswith("tfsoftmax")
               for m in vars(c).values() if inspect.isfunction(m)]
    long = {
        f"{x.__module__}.{x.__qualname__}({name})": hint
        for x in public if inspect.isclass(x) or inspect.isfunction(x)
        for name, parameter in inspect.signature(x).parameters.items()
        if len(hint := inspect.formatannotation(parameter.annotation)) > 110
    }
    assert long == {}


def python(*arguments, **environment):
    """A process of Python that has ended; its environment names no other backend of Keras."""
    usual = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False,
        env={**usual, **environment},
    )


@pytest.mark.parametrize("program, environment", [
    # whose package is not installed: refused before Keras is imported
    ("import tfsoftmax", {"KERAS_BACKEND": "nonsuch"}),
    ("import tfsoftmax_command, tfsoftmax.commands.program", {"KERAS_BACKEND": "nonsuch"}),
    # which a configuration file may choose, so that the environment does not tell
    ("import keras; keras.backend.backend = lambda: 'nonsuch'; import tfsoftmax", {}),
])
def test_another_backend_is_refused(program, environment):
    done = python("-c", program, **environment)
    *_, last = done.stderr.splitlines()
    assert done.returncode == 1
    assert last.startswith('ImportError: `KERAS_BACKEND` must be "tensorflow"')
    assert last.endswith("Received: KERAS_BACKEND='nonsuch'")


@pytest.mark.parametrize("flag", ["--help", "train"])
def test_the_command_refuses_another_backend_in_one_sentence(flag):
    done = python("-m", "tfsoftmax_command", flag, KERAS_BACKEND="jax")
    assert done.returncode == 1 and done.stderr == (
        'error: `KERAS_BACKEND` must be "tensorflow", the only backend of Keras that tfsoftmax '
        "runs on. Received: KERAS_BACKEND='jax'\n"
    )


def test_the_command_takes_tensorflow_whatever_the_configuration_of_keras_says(tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    program = "import tfsoftmax_command, tfsoftmax, keras; print(keras.backend.backend())"
    assert python("-c", program, KERAS_HOME=str(tmp_path)).stdout == "tensorflow\n"


# As on Windows, which lacks these modules and functions.
WINDOWS = """
import os, sys
import psutil  # which knows the system that it was built for, as TensorFlow does
MISSING = "resource fcntl pwd grp termios tty pty readline syslog curses"
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in MISSING.split():
            raise ModuleNotFoundError(f"No module named {name!r}")
for name in MISSING.split():
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
import tensorflow
for name in "fork getuid O_NOFOLLOW O_NONBLOCK sched_getaffinity sysconf".split():
    if hasattr(os, name):
        delattr(os, name)
import keras, numpy as np, tfsoftmax
from tfsoftmax.profiling import memory
inputs, labels = keras.Input((4,)), keras.Input((), dtype="int32")
head = tfsoftmax.AdaptiveSoftmax(30, [10])
model = keras.Model(inputs, head(inputs))
model.compile("adam", tfsoftmax.SoftmaxLoss())
history = model.fit(np.ones((8, 4)), np.arange(8), verbose=0)
print(np.isfinite(history.history["loss"]).all(), memory.peak_resident_bytes())
"""


def test_heads_train_without_the_modules_that_windows_lacks():
    done = python("-c", WINDOWS)
    assert (done.returncode, done.stdout) == (0, "True nan\n"), done.stderr[-2000:]

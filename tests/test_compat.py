"""Private names of Keras and TensorFlow: one module imports them, and each does what it is for."""

import ast
import gc
import importlib
import pathlib
import traceback

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, UNITS
from modules_helper import module_names
from tfsoftmax.support import _compat

PRIVATE_MODULES = ("keras.src", "tensorflow.python", "tensorflow.core", "tensorflow.tsl",
                   "tensorflow.compiler")
FILES = sorted(pathlib.Path(tfsoftmax.__file__).parent.rglob("*.py"))
PUBLIC = {"_replace", "_asdict", "_fields", "_exit"}  # in spite of their underscore
MEMBERS = [(cls, member) for cls, members in _compat.MEMBERS.items() for member in members]


def nodes(kind, but_not=""):
    """(name of the file, node) of every such node of the package's syntax trees."""
    for path in FILES:
        if path.name != but_not:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, kind):
                    yield path.name, node


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def private_attributes():
    return {node.attr for _, node in nodes(ast.Attribute, "_compat.py") if is_private(node.attr)}


def classes():
    """Every class that a module of the package defines."""
    for module in module_names():
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, type) and value.__module__ == module:
                yield value


def test_no_other_module_imports_a_private_one():
    imported = [
        (file, name)
        for file, node in nodes((ast.Import, ast.ImportFrom), "_compat.py")
        for name in [*(alias.name for alias in node.names), getattr(node, "module", None) or ""]
        if name.startswith(PRIVATE_MODULES)
    ]
    assert imported == []


def test_every_private_attribute_is_our_own_or_listed():
    defined = {node.name for _, node in nodes((ast.FunctionDef, ast.ClassDef))}
    defined |= {node.id for _, node in nodes(ast.Name)}
    defined |= {n.attr for _, n in nodes(ast.Attribute) if isinstance(n.ctx, ast.Store)}
    assert private_attributes() - defined <= {member for _, member in MEMBERS}


def test_every_private_member_that_a_subclass_overrides_is_listed():
    listed = {member for _, member in MEMBERS}
    unlisted = []
    for cls in classes():
        foreign = [base for base in cls.mro() if base.__module__.partition(".")[0] == "keras"]
        members = {name for base in foreign for name in vars(base)}
        for name in set(vars(cls)) & members:
            if is_private(name) and not name.startswith("_abc_") and name not in listed:
                unlisted.append((cls.__name__, name))
    assert unlisted == []


@pytest.mark.parametrize("cls, member", MEMBERS, ids=lambda v: getattr(v, "__name__", v))
def test_keras_has_the_member(cls, member):
    if cls is keras.layers.Embedding:
        instance = cls(5, 3)
        instance.build()
    elif cls is keras.Variable:
        instance = cls(0.0)
    else:
        options = {"use_ema": True, "gradient_accumulation_steps": 2}
        if cls is keras.optimizers.Adam:
            options["amsgrad"] = True
        instance = (keras.optimizers.SGD if cls is keras.optimizers.Optimizer else cls)(**options)
        instance.build([keras.Variable(np.ones((5, 3)))])
    assert hasattr(instance, member)


def test_every_member_is_needed():
    used = private_attributes() | {node.name for _, node in nodes(ast.FunctionDef)}
    assert [member for _, member in MEMBERS if member not in used] == []


def test_keras_attaches_masks_where_they_are_read():
    embedded = keras.layers.Embedding(5, 3, mask_zero=True)(np.array([[0, 2]]))
    assert _compat.get_keras_mask(embedded).numpy().tolist() == [[False, True]]
    assert _compat.get_keras_mask(tf.zeros(2)) is None


def test_building_a_model_is_told_from_running_it():
    seen = []

    class Spy(keras.layers.Layer):
        def call(self, x):
            seen.append(_compat.in_symbolic_scope())
            return x

    model = keras.Sequential([keras.Input((2,)), Spy()])
    model(np.ones((1, 2)))
    assert seen == [True, False]


def test_a_recorded_operation_has_the_given_gradient():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with _compat.record.stop_recording():
            y = x * 5
        _compat.record.record_operation("Test", [y], [x], lambda upstream: [upstream * 7])
    assert tape.gradient(y, x).numpy() == 7


def test_flops_are_registered_for_products_only():
    assert _compat.has_flops("MatMul") and not _compat.has_flops("Tanh")


@pytest.mark.parametrize("jit_compile", [False, True])
def test_xla_is_noticed_while_tracing(jit_compile):
    noticed = []

    @tf.function(jit_compile=jit_compile)
    def traced():
        noticed.append(_compat.in_xla_context(tf.compat.v1.get_default_graph()))
        return tf.zeros(())

    traced()
    assert noticed[-1] is jit_compile


def test_layers_at_any_depth_are_found():
    inner = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="deep")])
    model = keras.Sequential([inner])
    assert "deep" in [layer.name for layer in _compat.layers_of(model)]


def test_layers_that_a_tensor_was_computed_by_are_found():
    words = keras.Input((2,))
    inner = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="deep")])
    other = keras.layers.Dense(3, name="other")(words)
    tensor = keras.layers.Add(name="sum")([inner(words), other])
    keras.layers.Dense(4, name="after")(tensor)
    names = {layer.name for layer in _compat.layers_before(tensor)}
    assert {"deep", "other", "sum"} <= names and "after" not in names
    assert _compat.layers_before(tf.zeros(2)) == []
    operation, inputs = _compat.call_of(tensor)
    assert operation.name == "sum" and inputs[1] is other


@pytest.mark.parametrize("built", [False, True])
def test_a_layer_that_is_replaced_leaves_no_weights(built):
    class Owner(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.part = keras.layers.Dense(2)

    owner, new = Owner(), keras.layers.Dense(3)
    if built:
        owner.part.build((None, 5))
        owner.build((None, 5))
    _compat.replace_layer(owner, "part", new)
    new.build((None, 4))
    assert owner.part is new and [w.shape for w in owner.weights] == [(4, 3), (3,)]


def test_a_trace_of_the_profiler_is_parsed(tmp_path):
    with tf.profiler.experimental.Profile(str(tmp_path)):
        tf.ones((3, 3)) @ tf.ones((3, 3))
    (trace,) = tmp_path.rglob("*.xplane.pb")
    space = _compat.xplane_space()
    space.ParseFromString(trace.read_bytes())
    assert any(plane.lines for plane in space.planes)


def test_autograph_rewrites_the_users_function_and_nothing_below_it(monkeypatch):
    rewritten, original = [], tfsoftmax.FullSoftmax.objective

    def spy(*args):
        frames = traceback.extract_stack()
        rewritten.extend(f.name for f in frames if "__autograph_generated" in f.filename)
        return original(*args)

    monkeypatch.setattr(tfsoftmax.FullSoftmax, "objective", spy)
    head = tfsoftmax.FullSoftmax(5)

    @tf.function
    def step(hidden, labels):
        loss = head.training_loss(hidden, labels)
        if tf.reduce_sum(loss) > 0:
            loss = 2 * loss
        return loss

    hidden, labels = tf.ones((3, 4)), tf.constant([0, 4, 2])
    np.testing.assert_allclose(step(hidden, labels), 2 * head.training_loss(hidden, labels))
    assert {*rewritten} == {"tf__step"}


def test_the_gradients_of_a_model_that_is_gone_are_forgotten():
    """TensorFlow alone would keep them, and all graphs of the model, as long as the process."""
    registry, heads = _compat.gradient_registry._registry, ("full", "adaptive", "sampled", "tree")
    before = set(registry)
    words = keras.Input((3,))
    hidden = tfsoftmax.LSTM(UNITS, return_sequences=True)(tfsoftmax.Embedding(13, UNITS)(words))
    model = keras.Model(words, [CASES[case](13)(hidden) for case in heads])
    model.compile(tfsoftmax.optimizers.Adagrad(), [tfsoftmax.SoftmaxLoss() for _ in heads])
    model.fit(np.ones((2, 3)), [np.zeros((2, 3), int) for _ in heads], verbose=0)
    assert set(registry) - before
    del model, words, hidden
    keras.backend.clear_session()
    gc.collect()
    assert set(registry) <= before

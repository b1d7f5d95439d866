"""Every private name of Keras and TensorFlow that the package uses, with the reason for each.

No other module imports one. An upgrade that renames one fails in tests/test_compat.py, or when
the package is imported.
"""

import contextlib
import os
import weakref

import keras
import tensorflow as tf

# No public function reads variables as they are within the call of a layer in half precision.
from keras.src.backend import AutocastScope as AutocastScope

# Keras attaches masks to tensors; it has no public function that reads them.
from keras.src.backend import get_keras_mask as get_keras_mask

# No public function tells which model's call is running; an attribute does.
from keras.src.backend.common.global_state import get_global_attribute

# No public function tells whether variables have the values of a `keras.StatelessScope`.
from keras.src.backend.common.stateless_scope import in_stateless_scope as in_stateless_scope

# No public function tells whether Keras is building a model from placeholders.
from keras.src.backend.common.symbolic_scope import in_symbolic_scope as in_symbolic_scope

# `mend_keras` wraps three functions of this module.
from keras.src.backend.tensorflow import trainer as trainer

# `mend_keras` wraps a function of this module, and sets a number that it goes by.
from keras.src.saving import saving_lib as saving_lib

# Within it Keras remembers which objects layers share. No public function copies a model so.
from keras.src.saving.serialization_lib import ObjectSharingScope as ObjectSharingScope

# A slice that begins where a tensor says: XLA updates it in place, where the public operations
# scatter row by row, and XLA does not try to find out its place while it compiles.
from tensorflow.compiler.tf2xla.python.xla import dynamic_slice as dynamic_slice
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice as dynamic_update_slice

# AutoGraph has no public list of packages that it does not rewrite. Nothing here needs it, and to
# rewrite the functions below a head takes several times what it takes to trace them.
from tensorflow.python.autograph.core import config as autograph

# `tf.custom_gradient` reads the variables that `ops.computed_if_used` must leave unread.
from tensorflow.python.eager import record as record

# TensorFlow's profiler counts FLOPs only for the operations in the first registry. In the second,
# `tf.custom_gradient` enters each gradient that it traces, and with it the graph, for good.
from tensorflow.python.framework.ops import _stats_registry, gradient_registry

# No public function tells whether `jit_compile=True` is in force.
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

autograph.CONVERSION_RULES = (autograph.DoNotConvert("tfsoftmax"), *autograph.CONVERSION_RULES)

# {class: {private member: why a subclass in the package overrides, reads or sets it}}
MEMBERS = {
    keras.optimizers.Optimizer: {
        "_backend_apply_gradients": "The rows of sparse gradients are summed before all else.",
        "_clip_gradients": "Keras clips dense gradients only.",
        "_all_reduce_sum_gradients": "The rows of several replicas are summed before the update.",
        "_get_variable_index": "Slots are lists in the order of the trainable variables.",
        "_trainable_variables": "`gradient_norms` has an entry for each of them.",
        "_distribution_strategy": "All replicas update their slots.",
        "_backend_update_step": "Updates follow the accumulation of rows.",
        "_iterations": "`iterations` does not count the steps within a cycle of accumulation.",
        "_use_weight_decay": "Only touched rows decay.",
        "_accumulated_gradients": "Only touched rows accumulate.",
        "_model_variables_moving_average": "Averages catch up when Keras reads them.",
    },
    keras.Variable: {
        "_serialize_to_tensors": "`tf.train.Checkpoint` would write one of several shards.",
        "_restore_from_tensors": "It would give all replicas the same shard.",
        "_export_to_saved_model_graph": "A SavedModel would have one of several shards.",
    },
    keras.optimizers.Adagrad: {"_accumulators": "The slot of Adagrad."},
    keras.optimizers.Adam: {
        "_momentums": "The first slot of Adam.",
        "_velocities": "The second slot of Adam.",
        "_velocity_hats": "The third slot of Adam with `amsgrad`.",
    },
    keras.layers.Embedding: {
        "_embeddings": "`Embedding` adds this weight itself, as Keras would cast all of it; with "
        "LoRA `embeddings` is all of its rows, computed.",
    },
}


def model_in_call() -> keras.layers.Layer | None:
    """The model, or outermost layer, whose call is running; None if no call is."""
    context = get_global_attribute("current_call_ctx")
    return context and context.entry_layer


def in_inference_call() -> bool:
    """Whether the call of a model or layer is running, and it is not one for training."""
    context = get_global_attribute("current_call_ctx")
    return context is not None and not getattr(context, "training", None)


def in_archive() -> bool:
    """Whether Keras remembers which objects layers share, as where a `.keras` file is written.

    Such a file has others beside the configuration.
    """
    return get_global_attribute("shared_objects/id_to_obj_map") is not None


def metrics_in_call() -> list:
    """The metrics, or names of metrics, that the model whose call is running was compiled with.

    Empty if the model has several outputs, as one cannot tell for which of them a metric is.
    """
    model = model_in_call()
    # The public `model.metrics` lists those of `compile` only after the first batch.
    compiled = getattr(model, "_compile_metrics", None)
    given = compiled and [compiled._user_metrics, compiled._user_weighted_metrics]
    named = given and any(isinstance(metrics, dict) for metrics in given)  # by their outputs
    if not given or named or len(getattr(model, "output_names", None) or [""]) > 1:
        return []
    return [metric for metric in keras.tree.flatten(given) if metric is not None]


def in_xla_context(graph) -> bool:
    """Whether XLA will compile a graph, as in `jit_compile=True`."""
    return GraphOrParentsInXlaContext(graph)


def strategy_of(model: keras.Model) -> tf.distribute.Strategy | None:
    """The strategy in whose scope a model was made; the public property has one for None."""
    return model._distribute_strategy


def has_several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether `fit` reduces the results of several workers."""
    return trainer._collective_all_reduce_multi_worker(strategy)


def has_flops(operation: str) -> bool:
    """Whether TensorFlow's profiler counts the FLOPs of an operation, such as "MatMul"."""
    try:
        _stats_registry.lookup(f"{operation},flops")
    except LookupError:
        return False
    return True


def layers_of(model: keras.Model) -> list[keras.layers.Layer]:
    """The layers of a model at any depth; `model.layers` has those of the first level only."""
    return list(model._flatten_layers())


def layers_in(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """The layers that a layer or model has itself, without those that these have."""
    return list(layer._flatten_layers(include_self=False, recursive=False))


def variables_of_its_own(layer: keras.layers.Layer) -> list[keras.Variable]:
    """The variables of a layer itself, without those of the layers in it."""
    seeds = [generator.state for generator in layer._seed_generators]
    return [*layer._trainable_variables, *layer._non_trainable_variables, *seeds]


def call_of(tensor) -> tuple[keras.Operation, list]:
    """The operation that a symbolic tensor of Keras is the result of, and its symbolic inputs."""
    operation, node, _ = tensor._keras_history
    return operation, operation._inbound_nodes[node].input_tensors


def layers_before(tensor) -> list[keras.layers.Layer]:
    """The layers, at any depth, that a symbolic tensor of Keras was computed by.

    A functional model has its layers as a list, but a layer that is being called is in no model.
    """
    layers, seen, tensors = [], set(), [tensor]
    while tensors:
        tensor = tensors.pop()
        history = getattr(tensor, "_keras_history", None)
        if history is None or history[:2] in seen:
            continue
        seen.add(history[:2])
        operation, inputs = call_of(tensor)
        tensors += inputs
        if isinstance(operation, keras.layers.Layer):
            layers += operation._flatten_layers()
    return layers


@contextlib.contextmanager
def unlocked(layer: keras.layers.Layer):
    """Within this context a built layer may get weights and layers; yields what tracks them."""
    tracker = layer._tracker
    locked = tracker.locked
    tracker.unlock()
    try:
        yield tracker
    finally:
        if locked:
            tracker.lock()


def replace_layer(owner: keras.layers.Layer, name: str, new: keras.layers.Layer) -> None:
    """Sets an attribute of a layer that is a layer; Keras would go on to track the old one.

    The new one stands where the old one did among the layers of `owner`.
    """
    old = getattr(owner, name)
    with unlocked(owner) as tracker:
        layers = tracker.config["layers"][1]
        place = [layer is old for layer in layers].index(True)
        tracker.untrack(old)
        setattr(owner, name, new)
        layers.insert(place, layers.pop())


def custom_gradient(function):
    """`tf.custom_gradient`, whose gradients in a graph are forgotten when the graph is.

    Otherwise a process would keep the graphs of all models that it ever trained.
    """
    differentiable = tf.custom_gradient(function)

    def kept_by_graph(*tensors):
        results = differentiable(*tensors)
        if tf.executing_eagerly():
            return results
        of_results = tf.nest.flatten(results)[0].op
        graph, name = of_results.graph, of_results.get_attr("_gradient_op_type").decode()
        entry, kept = gradient_registry._registry[name], weakref.ref(graph)
        setattr(graph, name, entry["type"])
        entry["type"] = lambda *upstream: getattr(kept(), name)(*upstream)
        weakref.finalize(graph, gradient_registry._registry.pop, name, None).atexit = False
        return results

    return kept_by_graph


def forget_custom_gradients(folder: str) -> None:
    """Removes the names of gradients that a SavedModel lacks; loading would warn of each of them.

    `experimental_custom_gradients=False` leaves out the gradients, but not their names.
    """
    from tensorflow.core.protobuf import saved_model_pb2
    from tensorflow.python.saved_model.fingerprinting_utils import write_fingerprint

    path = os.path.join(folder, "saved_model.pb")
    with open(path, "rb") as file:
        message = saved_model_pb2.SavedModel.FromString(file.read())
    for graph in (part.graph_def for part in message.meta_graphs):
        for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
            for node in nodes:
                node.attr.pop("_gradient_op_type", None)
    with open(path, "wb") as file:
        file.write(message.SerializeToString(deterministic=True))
    write_fingerprint(folder)


def xplane_space():
    """An empty message of the type that TensorFlow's profiler writes, which has no public name."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2.XSpace()

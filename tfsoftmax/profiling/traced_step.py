"""Records every execution of every operation in a training step, with the shapes of its inputs.

Grappler optimises the graph as in training, except that it does not fuse operations, since the
profiler cannot count the FLOPs of fused ones. Operations run one after another, and so do the
iterations of loops.
"""

import collections
import re
from collections.abc import Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.profiling.model_parts import (
    flat_layers,
    parameters_and_bytes,
    part_of_layer,
    variables_by_part,
)
from tfsoftmax.support.arguments import refusal

_SCOPES = {"loss": "loss", "gradients": "gradients", "gradient_tape": "gradients",
           "optimizer": "optimizer"}


class Execution(NamedTuple):
    """One execution of an operation.

    Attributes:
        name: the name of the operation in the graph.
        part: the part of the model that it belongs to, one of `model_parts.PARTS`.
        node: its NodeDef.
        stats: its NodeExecStats.
        inputs: pairs of dtype and shape, or None for an input that was not recorded.
    """

    name: str
    part: str
    node: object
    stats: object
    inputs: list


class TracedStep:
    """The graph of a training step and the variables that it needs.

    The step copies what it needs of the model, which may be deleted afterwards.

    Args:
        model: a compiled model that ends in a head, with `SoftmaxLoss` as its loss and an
            optimiser that is built.
        words: (B, T) int32, or another input of the model.
        labels: (B, T) int32.
        weights: (B, T) float32.

    Example:
        from tfsoftmax.profiling import profile, traced_step
        model = keras.Sequential([keras.Input((20, 64), 32), tfsoftmax.FullSoftmax(100)])
        model.compile(tfsoftmax.optimizers.Adagrad(0.1), tfsoftmax.SoftmaxLoss())
        model.optimizer.build(model.trainable_variables)
        hidden, words = keras.random.normal((32, 20, 64)), keras.ops.zeros((32, 20), "int32")
        step = traced_step.TracedStep(model, hidden, words, keras.ops.ones((32, 20)))
        print(profile.profile(step)["total"]["peak_bytes"])
    """

    def __init__(self, model: keras.Model, words, labels, weights):
        self.variables = {
            part: parameters_and_bytes(variables, part == "optimizer")
            for part, variables in variables_by_part(model).items()
        }
        self.scopes = {layer.name: part_of_layer(layer) for layer in flat_layers(model)}
        self.feeds = [np.asarray(words), np.asarray(labels), np.asarray(weights)]
        graph = _traced(model, self.feeds).graph
        self.graph_def = _one_iteration_at_a_time(graph.as_graph_def())
        self.inputs = [tensor.name for tensor in graph.inputs[: len(self.feeds)]]
        self.fetches = [op.name for op in graph.control_outputs]
        self.captures = _captures(graph, model)

    def executions(self) -> Iterator[Execution]:
        """Runs the step and yields every execution of every operation, in order for each."""
        metadata = _trace(self)
        nodes = {node.name: node for graph in metadata.partition_graphs for node in graph.node}
        by_name = collections.defaultdict(list)
        for device in metadata.step_stats.dev_stats:
            if "stream" not in device.device and "memcpy" not in device.device:
                for stats in device.node_stats:
                    if stats.node_name in nodes:
                        by_name[stats.node_name].append(stats)
        outputs = {}
        for name, runs in by_name.items():
            runs.sort(key=lambda s: s.all_start_micros * 1000 + s.all_start_nanos % 1000)
            for stats in runs:
                for output in stats.output:
                    outputs.setdefault((name, output.slot), []).append(output.tensor_description)
        for name, runs in by_name.items():
            for i, stats in enumerate(runs):
                inputs = [_seen(outputs, edge, i) for edge in nodes[name].input if edge[0] != "^"]
                yield Execution(name, self.part(name), nodes[name], stats, inputs)

    def part(self, name: str) -> str:
        """The part of the model that the operation of this name belongs to."""
        first, *rest = name.split("/")
        if first in _SCOPES:
            return _SCOPES[first]
        for component in rest:
            layer = component if component in self.scopes else re.sub(r"_\d+$", "", component)
            if layer in self.scopes:
                return self.scopes[layer]
        return "other"


def _seen(outputs, edge, i):
    """(dtype, shape) of what an edge carried at its i-th use, or None if it was not recorded.

    What enters a loop from outside was made once, and every iteration uses it.
    """
    name, _, slot = edge.partition(":")
    made = outputs.get((name, int(slot or 0)))
    if not made:
        return None
    tensor = made[min(i, len(made) - 1)]
    return tensor.dtype, tuple(dim.size for dim in tensor.shape.dim)


def _traced(model, feeds):
    """Traces a step in which the scope of an operation says which part it belongs to."""
    variables = model.trainable_variables

    def step(words, labels, weights):
        with tf.GradientTape() as tape:
            logits = model(words, training=True)
            with tf.name_scope("loss"):
                loss = model.loss(labels, logits, weights)
        with tf.name_scope("gradients"):
            gradients = tape.gradient(loss, [variable.value for variable in variables])
        with tf.name_scope("optimizer"):
            model.optimizer.apply(gradients, variables)

    specs = [tf.TensorSpec(feed.shape, feed.dtype) for feed in feeds]
    return tf.function(step, autograph=False).get_concrete_function(*specs)


def _one_iteration_at_a_time(graph_def):
    """Makes the iterations of loops run one by one, so that their records come in order."""
    bodies = (function.node_def for function in graph_def.library.function)
    for nodes in (graph_def.node, *bodies):
        for node in nodes:
            if node.op in ("While", "StatelessWhile"):
                node.attr["parallel_iterations"].i = 1
    return graph_def


def _captures(graph, model):
    """(name, whether it is a variable, dtype, shape, value) of each captured tensor or variable.

    The value is None for a variable that training updates. Any numbers serve for a profile, and
    a copy would double the memory of the largest variables.
    """
    updated = [v.value for v in [*model.trainable_variables, *model.optimizer.variables]]
    known = [*graph.variables, *updated, *[v.value for v in model.variables]]
    variables, updated = {id(v.handle): v for v in known}, set(map(id, updated))
    captures = []
    for outer, inner in graph.captures:
        held = variables.get(id(outer), outer)
        if held is outer and outer.dtype == tf.resource:
            raise refusal("model", "capture no resources but variables", received=str(outer))
        filled = id(held) in updated and held.dtype.is_floating and held.shape.rank
        value = None if filled else held.numpy()
        captures.append((inner, held is not outer, held.dtype, held.shape, value))
    return [(inner.name, *rest) for inner, *rest in captures]


def _trace(step):
    """Runs the step three times in a session, and returns the RunMetadata of the third run."""
    v1, options = tf.compat.v1, tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1)
    rewrite = options.graph_options.rewrite_options
    rewrite.remapping = rewrite.OFF
    rewrite.memory_optimization = rewrite.NO_MEM_OPT  # whose temporary variables sessions refuse
    with tf.Graph().as_default() as graph, v1.Session(graph=graph, config=options) as session:
        placed, feeds = {}, {}
        for name, is_variable, dtype, shape, value in step.captures:
            placed[name] = _placed(session, feeds, name, is_variable, dtype, shape, value)
        for name, value in zip(step.inputs, step.feeds, strict=True):
            placed[name] = v1.placeholder(value.dtype, value.shape)
            feeds[placed[name]] = value
        tf.import_graph_def(step.graph_def, input_map=placed, name="")
        fetches = [graph.get_operation_by_name(name) for name in step.fetches]
        for _ in range(2):  # the first run allocates variables and optimises the graph
            session.run(fetches, feeds)
        metadata = v1.RunMetadata()
        session.run(fetches, feeds, run_metadata=metadata, options=v1.RunOptions(
            trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True
        ))
    return metadata


def _placed(session, feeds, name, is_variable, dtype, shape, value):
    """The tensor that stands for a captured one: a variable's handle, or a fed placeholder."""
    source = tf.compat.v1.placeholder(dtype, shape)
    if not is_variable:
        feeds[source] = value
        return source
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name)
    if value is None:
        filled = tf.random.uniform(shape, 0.05, 0.1, dtype)  # accumulators must be positive
        session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=filled))
    else:
        session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=source), {source: value})
    return handle

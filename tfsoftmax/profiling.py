"""What a training step asks of memory and arithmetic, part by part, by TensorFlow's own profiler.

The step is the one that `fit` takes: the same Keras layers, loss and optimiser, traced once.
Its graph runs in a session with FULL_TRACE, and each execution of each operation, those in loops
too, is given to `tf.compat.v1.profiler` with the shapes that it had, under the name of its part.

Grappler optimises the graph as in training, except that operations are not fused, as the
profiler knows no FLOPs of fused ones. Operations, and iterations of loops, run one after the
other.
"""

import collections
import re

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.framework import ops

from tfsoftmax.parts import PARTS, parameters_and_bytes, part_of_layer, variables_by_part

_SCOPES = {"loss": "loss", "gradients": "gradients", "gradient_tape": "gradients",
           "optimizer": "optimizer"}
LARGEST = 8  # tensors that are listed


class Step:
    """The graph of a training step and what it captured; the model is not needed any more.

    Args:
        model: compiled `keras.Model` that ends in a head, with `SoftmaxLoss` as its loss and an
            optimiser that is built.
        words: (B, T) int32.
        labels: (B, T) int32.
        weights: (B, T) float32.
    """

    def __init__(self, model, words, labels, weights):
        self.variables = {
            part: parameters_and_bytes(variables, part == "optimizer")
            for part, variables in variables_by_part(model).items()
        }
        self.scopes = {layer.name: part_of_layer(layer) for layer in model.layers}
        self.feeds = [np.asarray(words), np.asarray(labels), np.asarray(weights)]
        graph = _traced(model, self.feeds).graph
        self.graph_def = _one_iteration_at_a_time(graph.as_graph_def())
        self.inputs = [tensor.name for tensor in graph.inputs[: len(self.feeds)]]
        self.fetches = [op.name for op in graph.control_outputs]
        self.captures = _captures(graph, model)

    def part(self, name):
        """The part that an operation of this name belongs to."""
        first, *rest = name.split("/")
        if first in _SCOPES:
            return _SCOPES[first]
        for component in rest:
            layer = component if component in self.scopes else re.sub(r"_\d+$", "", component)
            if layer in self.scopes:
                return self.scopes[layer]
        return "other"


def profile(step):
    """Runs a step and adds up what its parts ask for.

    Args:
        step: `Step`.

    Returns:
        Dictionary: "parts", from part to

        - `parameters`: trainable numbers; a shared variable counts where it comes first;
        - `variable_bytes`: of all its variables; the optimiser's are its slots;
        - `requested_bytes`: all that its operations allocated, however briefly;
        - `peak_bytes`: the most that these allocations held at once;
        - `at_peak_bytes`: what they held when the whole step held most;
        - `residual_bytes`: what each operation still held as it ended, added up;
        - `output_bytes`: of all outputs, whether allocated or passed on;
        - `float_ops`: by the profiler's statistics, which know matrix products, sums and
            elementwise arithmetic, but count no exp, tanh or square root;
        - `seconds`: in operations, of this one traced step;

        "total", the same of the whole step, and "largest", the largest allocations at its peak
        as pairs of name and bytes.

    Source: Müller 2017, section 5.3.1. Departures: loops count as often as they ran, and peaks
        are of the allocator's records, as the profiler's are sums over operations.
    """
    metadata = _trace(step)
    executions = list(_executions(metadata, step))
    counted = _profiled(executions)
    peaks, largest = _peaks(executions)
    parts = {}
    for part in PARTS:
        scope, (parameters, variable_bytes) = counted.get(part), step.variables[part]
        parts[part] = {
            "parameters": parameters,
            "variable_bytes": variable_bytes,
            "requested_bytes": scope.total_requested_bytes if scope else 0,
            **peaks[part],
            "residual_bytes": scope.total_residual_bytes if scope else 0,
            "output_bytes": scope.total_output_bytes if scope else 0,
            "float_ops": scope.total_float_ops if scope else 0,
            "seconds": scope.total_exec_micros / 1e6 if scope else 0.0,
        }
    total = {key: sum(values[key] for values in parts.values()) for key in parts["head"]}
    total["peak_bytes"] = total["at_peak_bytes"]
    return {"parts": parts, "total": total, "largest": largest}


def _traced(model, feeds):
    """The concrete function of a step whose scopes say which part an operation belongs to."""
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
    """The graph with loops whose iterations do not overlap, so that records come in their order."""
    bodies = (function.node_def for function in graph_def.library.function)
    for nodes in (graph_def.node, *bodies):
        for node in nodes:
            if node.op in ("While", "StatelessWhile"):
                node.attr["parallel_iterations"].i = 1
    return graph_def


def _captures(graph, model):
    """(name in the graph, dtype, shape, value) of each captured tensor or variable.

    The value is None for what training updates: any numbers do for a profile, and a copy
    would double the memory of the largest variables.
    """
    updated = [v.value for v in [*model.trainable_variables, *model.optimizer.variables]]
    known = [*graph.variables, *updated, *[v.value for v in model.variables]]
    variables, updated = {id(v.handle): v for v in known}, set(map(id, updated))
    captures = []
    for outer, inner in graph.captures:
        held = variables.get(id(outer), outer)
        if held is outer and outer.dtype == tf.resource:
            raise ValueError(f"`model` must capture variables and constants only. Received: {outer}")
        filled = id(held) in updated and held.dtype.is_floating and held.shape.rank
        value = None if filled else held.numpy()
        captures.append((inner, held is not outer, held.dtype, held.shape, value))
    return [(inner.name, *rest) for inner, *rest in captures]


def _trace(step):
    """Runs the step three times in a session; returns the RunMetadata of the last."""
    v1, options = tf.compat.v1, tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1)
    options.graph_options.rewrite_options.remapping = rewriter_config_pb2.RewriterConfig.OFF
    with tf.Graph().as_default() as graph, v1.Session(graph=graph, config=options) as session:
        placed, feeds = {}, {}
        for name, is_variable, dtype, shape, value in step.captures:
            placed[name] = _placed(session, feeds, name, is_variable, dtype, shape, value)
        for name, value in zip(step.inputs, step.feeds):
            placed[name] = v1.placeholder(value.dtype, value.shape)
            feeds[placed[name]] = value
        tf.import_graph_def(step.graph_def, input_map=placed, name="")
        fetches = [graph.get_operation_by_name(name) for name in step.fetches]
        for _ in range(2):  # the first allocates and optimises
            session.run(fetches, feeds)
        metadata = v1.RunMetadata()
        session.run(fetches, feeds, run_metadata=metadata, options=v1.RunOptions(
            trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True
        ))
    return metadata


def _placed(session, feeds, name, is_variable, dtype, shape, value):
    """The tensor that stands for a capture: a variable's handle, or a placeholder that is fed."""
    source = tf.compat.v1.placeholder(dtype, shape)
    if not is_variable:
        feeds[source] = value
        return source
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name)
    if value is None:
        filled = tf.random.uniform(shape, 0.05, 0.1, dtype)  # positive, as accumulators must be
        session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=filled))
    else:
        session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=source), {source: value})
    return handle


Execution = collections.namedtuple("Execution", "name part node stats inputs")


def _executions(metadata, step):
    """Each execution of each operation, in order, with the (dtype, shape) of its inputs."""
    nodes = {node.name: node for graph in metadata.partition_graphs for node in graph.node}
    by_name = collections.defaultdict(list)
    for device in metadata.step_stats.dev_stats:
        if "stream" not in device.device and "memcpy" not in device.device:
            for stats in device.node_stats:
                if stats.node_name in nodes:
                    by_name[stats.node_name].append(stats)
    outputs = {}
    for name, runs in by_name.items():
        runs.sort(key=lambda stats: stats.all_start_micros * 1000 + stats.all_start_nanos % 1000)
        for stats in runs:
            for output in stats.output:
                outputs.setdefault((name, output.slot), []).append(output.tensor_description)
    for name, runs in by_name.items():
        for i, stats in enumerate(runs):
            inputs = [_seen(outputs, edge, i) for edge in nodes[name].input if edge[0] != "^"]
            yield Execution(name, step.part(name), nodes[name], stats, inputs)


def _seen(outputs, edge, i):
    """(dtype, shape) of what an edge carried at its i-th use, or None if nobody recorded it.

    What comes from outside of a loop was made once and is used by every iteration.
    """
    name, _, slot = edge.partition(":")
    made = outputs.get((name, int(slot or 0)))
    if not made:
        return None
    tensor = made[min(i, len(made) - 1)]
    return tensor.dtype, tuple(dim.size for dim in tensor.shape.dim)


def _profiled(executions):
    """The profiler's {part: sums} over executions.

    It takes the shapes of a node from the graph, so that executions of a node with other
    shapes become nodes of their own; memory and time it takes from the trace, by name.
    """
    graph, renamed = tf.compat.v1.GraphDef(), tf.compat.v1.RunMetadata()
    device = renamed.step_stats.dev_stats.add(device="/device:CPU:0")
    names, placeholders = {}, {}
    counts = collections.Counter()
    for execution in executions:
        key = (execution.name, tuple(execution.inputs))
        if key not in names:
            counts[execution.name] += 1
            unique = execution.name.strip("_") + f"__{counts[execution.name]}"
            names[key] = f"{execution.part}/{unique}"
            _add_node(graph, placeholders, names[key], execution)
        stats = device.node_stats.add()
        stats.CopyFrom(execution.stats)
        stats.node_name = names[key]
        stats.timeline_label = ""
    with tf.Graph().as_default() as profiled:
        tf.import_graph_def(graph, name="")
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    options = builder(builder.time_and_memory()).with_empty_output().select(
        ["bytes", "residual_bytes", "output_bytes", "float_ops", "micros"]
    ).build()
    logger, level = tf.get_logger(), tf.get_logger().level
    logger.setLevel("ERROR")  # the profiler calls what TensorFlow deprecates
    try:
        root = tf.compat.v1.profiler.profile(
            profiled, run_meta=renamed, cmd="scope", options=options
        )
    finally:
        logger.setLevel(level)
    return {scope.name: scope for scope in root.children}


def _add_node(graph, placeholders, name, execution):
    """Adds the operation with inputs of its shapes; without FLOPs, a node to hang memory on."""
    kind = execution.node.op.replace("_Mkl", "")  # oneDNN's kernels of the same operations
    if not _has_flops(kind) or None in execution.inputs:
        graph.node.add(name=name, op="NoOp")
        return
    node = graph.node.add(name=name, op=kind)
    for key, value in execution.node.attr.items():
        if not key.startswith("_"):
            node.attr[key].CopyFrom(value)
    for dtype, shape in execution.inputs:
        if (dtype, shape) not in placeholders:
            placeholders[dtype, shape] = f"inputs/input_{len(placeholders)}"
            held = graph.node.add(name=placeholders[dtype, shape], op="Placeholder")
            held.attr["dtype"].type = dtype
            held.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
        node.input.append(placeholders[dtype, shape])


def _has_flops(kind):
    try:
        ops._stats_registry.lookup(f"{kind},flops")
    except LookupError:
        return False
    return True


def _peaks(executions):
    """Peaks of each part's allocations, and the largest allocations at the step's peak."""
    records = []
    for execution in executions:
        for memory in execution.stats.memory:
            for record in memory.allocation_records:
                records.append((record.alloc_micros, execution.part, execution.name,
                                record.alloc_bytes))
    # Within a microsecond allocations come first: a peak is never below the truth.
    records.sort(key=lambda record: (record[0], -record[3]))
    held, peak = collections.Counter(), collections.Counter()
    total = most = at = 0
    for i, (_, part, _, size) in enumerate(records):
        held[part] += size
        total += size
        peak[part] = max(peak[part], held[part])
        if total > most:
            most, at = total, i + 1
    then, by_name = collections.Counter(), collections.Counter()
    for _, part, name, size in records[:at]:
        then[part] += size
        by_name[name] += size
    peaks = {p: {"peak_bytes": peak[p], "at_peak_bytes": then[p]} for p in PARTS}
    return peaks, [[name, size] for name, size in by_name.most_common(LARGEST) if size > 0]

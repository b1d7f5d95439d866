"""Measures what a training step needs, part by part, with TensorFlow's own profiler.

The step is the one that `fit` runs, with the same Keras layers, loss and optimiser, traced once.
Its graph runs in a session with FULL_TRACE. Then `tf.compat.v1.profiler` gets each execution of
each operation, also those in loops, with the shapes that it had and the name of its part.
"""

import collections

import tensorflow as tf

from tfsoftmax.profiling.model_parts import PARTS
from tfsoftmax.profiling.traced_step import TracedStep
from tfsoftmax.support._compat import has_flops

LARGEST = 8  # how many allocations are listed


def profile(step: TracedStep) -> dict:
    """Runs a step and adds up what each part of the model needs.

    Args:
        step: the training step.

    Returns:
        Dictionary of "parts", "total" and "largest". "parts" maps each part to a dictionary:

        - `parameters`: the trainable numbers; a shared variable counts in its first part;
        - `variable_bytes`: the bytes of its variables; for the optimiser, of its slots;
        - `requested_bytes`: all bytes that its operations allocated, however briefly;
        - `peak_bytes`: the most bytes that these allocations held at one time;
        - `at_peak_bytes`: the bytes that they held when the whole step held most;
        - `residual_bytes`: the sum of the bytes that each operation still held when it ended;
        - `output_bytes`: the bytes of all outputs, whether allocated or passed on;
        - `float_ops`: FLOPs by the profiler's statistics, which count matrix products, sums and
            elementwise arithmetic, but no exp, tanh or square root;
        - `seconds`: the time in operations in this one traced step.

        "total" is the same dictionary for the whole step, and "largest" lists the largest
        allocations at its peak as pairs of name and bytes.

    Source: Müller 2017, section 5.3.1. Departures: operations in loops count as often as they
        ran, and peaks come from the allocator's records, since the profiler's own peaks are sums
        over operations.
    """
    executions = list(step.executions())
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


def _profiled(executions):
    """The profiler's sums over executions, as a dictionary from part to its statistics.

    The profiler takes the shapes of a node from the graph; so executions of one node with
    different shapes become different nodes here. It takes memory and time from the trace.
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
    logger.setLevel("ERROR")  # without warnings of deprecated functions that the profiler calls
    try:
        root = tf.compat.v1.profiler.profile(
            profiled, run_meta=renamed, cmd="scope", options=options
        )
    finally:
        logger.setLevel(level)
    return {scope.name: scope for scope in root.children}


def _add_node(graph, placeholders, name, execution):
    """Adds the operation with inputs of its shapes, or a NoOp if it has no FLOPs to count."""
    kind = execution.node.op.replace("_Mkl", "")  # the prefix of oneDNN's kernels
    if not has_flops(kind) or None in execution.inputs:
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


def _peaks(executions):
    """The peaks of each part's allocations, and the largest allocations at the step's peak."""
    records = []
    for execution in executions:
        for memory in execution.stats.memory:
            for record in memory.allocation_records:
                records.append((record.alloc_micros, execution.part, execution.name,
                                record.alloc_bytes))
    # Within a microsecond, allocations come first, so that no peak is underestimated.
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

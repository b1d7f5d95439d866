"""What a traced graph holds."""


def largest_tensor(function, pruned=False):
    """Elements of the largest tensor in the graph of a concrete function and its loops.

    With `pruned`, operations of the function itself whose results nothing uses do not count.
    """
    graphs = [function.graph]
    largest = 0
    while graphs:
        graph = graphs.pop()
        graphs += [f.graph for f in graph._functions.values() if hasattr(f, "graph")]
        for op in _used(graph) if pruned and graph is function.graph else graph.get_operations():
            for tensor in op.outputs:
                largest = max(largest, tensor.shape.num_elements() or 0)
    return largest


def operations(function):
    """The number of operations in the graph of a concrete function and its loops and branches."""
    definition = function.graph.as_graph_def()
    bodies = [definition.node, *(f.node_def for f in definition.library.function)]
    return sum(map(len, bodies))


def _used(graph):
    """The operations that the outputs of a graph, or its side effects, depend on."""
    waiting = [t.op for t in graph.outputs] + list(graph.control_outputs)
    used = set()
    while waiting:
        op = waiting.pop()
        if op not in used:
            used.add(op)
            waiting += [t.op for t in op.inputs] + list(op.control_inputs)
    return used

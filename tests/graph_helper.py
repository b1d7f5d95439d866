"""What a traced graph holds."""


def largest_tensor(function):
    """Elements of the largest tensor in the graph of a concrete function and its loops."""
    graphs = [function.graph]
    largest = 0
    while graphs:
        graph = graphs.pop()
        graphs += [f.graph for f in graph._functions.values() if hasattr(f, "graph")]
        for op in graph.get_operations():
            for tensor in op.outputs:
                largest = max(largest, tensor.shape.num_elements() or 0)
    return largest

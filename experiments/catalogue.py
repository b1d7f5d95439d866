"""The experiments that can be run, by name."""

import collections

from experiments import (
    alternatives,
    characters,
    contexts,
    field,
    hierarchical,
    huffman,
    jiang,
    methods,
    novels,
    pieces,
    precision,
    projections,
    proposals,
    sgd_trees,
    shen,
    shmuma,
    shortlists,
    small_batches,
    summaries,
    transformer,
    tree_shapes,
)

EXPERIMENTS = {
    "alternatives": alternatives,
    "characters": characters,
    "contexts": contexts,
    "field": field,
    "hierarchical": hierarchical,
    "huffman": huffman,
    "jiang": jiang,
    "methods": methods,
    "novels": novels,
    "pieces": pieces,
    "precision": precision,
    "projections": projections,
    "proposals": proposals,
    "sgd_trees": sgd_trees,
    "shen": shen,
    "shmuma": shmuma,
    "shortlists": shortlists,
    "small_batches": small_batches,
    "summaries": summaries,
    "transformer": transformer,
    "tree_shapes": tree_shapes,
}


def listing():
    """{name: first line of the docstring} of the experiments."""
    return {name: module.__doc__.partition("\n")[0] for name, module in EXPERIMENTS.items()}


def load(name):
    """The module of an experiment.

    Raises:
        ValueError: if there is no such experiment, or if two of its runs share a name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"NAME must be one of {', '.join(EXPERIMENTS)}. Received: {name!r}")
    module = EXPERIMENTS[name]
    for run, count in collections.Counter(run.name for run in module.RUNS).items():
        if count > 1:
            raise ValueError(f"`RUNS` of {name} must have distinct names. Received: {run!r} twice")
    return module

"""The experiments that can be run, by name."""

import collections
import importlib

NAMES = (
    "accumulators", "field", "hierarchical", "huffman", "jiang", "leaf_orders", "methods", "novels",
    "pieces", "precision", "projections", "proposals", "sgd_trees", "shen", "shmuma", "shortlists",
    "small_batches", "summaries", "transformer", "tree_shapes", "zaremba", "zaremba_medium",
)
EXPERIMENTS = {name: importlib.import_module(f"experiments.tables.{name}") for name in NAMES}


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

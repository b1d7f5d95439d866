"""The modules of the package that can be imported here."""

import importlib.util
import pkgutil

import tfsoftmax

NEED_EXTRAS = {"tfsoftmax.hub": "keras_hub", "tfsoftmax.retrieval.search": "faiss",
               "tfsoftmax.retrieval.faiss_indexes": "faiss"}


def module_names():
    """Names of all modules below the package, without those whose extra is not installed."""
    for module in pkgutil.walk_packages(tfsoftmax.__path__, "tfsoftmax."):
        needed = NEED_EXTRAS.get(module.name)
        if needed is None or importlib.util.find_spec(needed):
            yield module.name

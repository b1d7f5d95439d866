"""Softmax output layers for large vocabularies, and the language models that prove them.

Names are imported on first use, so that `import tfsoftmax` costs milliseconds
and only the programs that compute load TensorFlow.
"""

import importlib

_HOMES = {
    "AdaptiveEmbedding": "tfsoftmax.adaptive_embedding",
    "AdaptiveSoftmax": "tfsoftmax.heads.adaptive",
    "BlackOut": "tfsoftmax.heads.blackout",
    "DifferentiatedSoftmax": "tfsoftmax.heads.differentiated",
    "ClassSoftmax": "tfsoftmax.heads.class_based",
    "FullSoftmax": "tfsoftmax.heads.full",
    "NCE": "tfsoftmax.heads.nce",
    "NarySoftmax": "tfsoftmax.heads.nary",
    "NegativeSampling": "tfsoftmax.heads.negative",
    "SampledSoftmax": "tfsoftmax.heads.sampled",
    "SelfNormalisedSoftmax": "tfsoftmax.heads.self_normalised",
    "Shortlist": "tfsoftmax.heads.shortlist",
    "SelfOrganisedSoftmax": "tfsoftmax.heads.self_organised",
    "SoftmaxHead": "tfsoftmax.heads.base",
    "SoftmaxLoss": "tfsoftmax.losses",
    "EffectiveSampleSize": "tfsoftmax.metrics",
    "Normaliser": "tfsoftmax.metrics",
    "Perplexity": "tfsoftmax.metrics",
    "TrainingMonitor": "tfsoftmax.callbacks",
    "TreeSoftmax": "tfsoftmax.heads.tree",
    "TwoLevelSoftmax": "tfsoftmax.heads.two_level",
    "Vocabulary": "tfsoftmax.vocabulary",
    "language_model": "tfsoftmax.language_model",
}
_MODULES = ("clusters", "corpora", "heads", "losses", "metrics", "ops", "optimizers", "partitions",
            "recurrent", "samplers", "vocabulary")

__version__ = "0.1.0"
__all__ = [*_HOMES, *_MODULES]


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"tfsoftmax.{name}")
    raise AttributeError(f"module 'tfsoftmax' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])

"""Metrics for `keras.Model.compile`: exact perplexity, accuracy, and figures about heads."""

from tfsoftmax.metrics.accuracy import Accuracy, TopKAccuracy
from tfsoftmax.metrics.diagnostics import EffectiveSampleSize, Normaliser
from tfsoftmax.metrics.frequency import NatsByFrequency
from tfsoftmax.metrics.perplexity import ClusterPerplexity, InClusterPerplexity, Perplexity

__all__ = [
    "Accuracy", "ClusterPerplexity", "EffectiveSampleSize", "InClusterPerplexity",
    "NatsByFrequency", "Normaliser", "Perplexity", "TopKAccuracy",
]

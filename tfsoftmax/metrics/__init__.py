"""Metrics for `keras.Model.compile`: exact perplexity, accuracy, ranking, and figures of heads."""

from tfsoftmax.metrics.accuracy import Accuracy, TopKAccuracy
from tfsoftmax.metrics.coverage import Coverage
from tfsoftmax.metrics.diagnostics import EffectiveSampleSize, Normaliser
from tfsoftmax.metrics.frequency import NatsByFrequency
from tfsoftmax.metrics.perplexity import ClusterPerplexity, InClusterPerplexity, Perplexity
from tfsoftmax.metrics.ranks import MAP, MRR, NDCG, PrecisionAtK, RecallAtK

__all__ = [
    "MAP", "MRR", "NDCG", "Accuracy", "ClusterPerplexity", "Coverage", "EffectiveSampleSize",
    "InClusterPerplexity", "NatsByFrequency", "Normaliser", "Perplexity", "PrecisionAtK",
    "RecallAtK", "TopKAccuracy",
]

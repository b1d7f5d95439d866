"""Heads that the thesis describes and that lose against those of `tfsoftmax.heads`.

Squares in the place of exponentials, scores that are no probabilities, normalisers held constant,
classes whose words have fixed shares or are trained by NCE, samples that grow; and losses over
samples that users write. These are heads and
callbacks that an outsider could have written: they stand on the contract of the others.
"""

from tfsoftmax.survey.adjust_samples import AdjustNumSamples
from tfsoftmax.survey.class_nce import ClassNCE
from tfsoftmax.survey.class_unigram import ClassUnigram
from tfsoftmax.survey.cubic import CubicScores
from tfsoftmax.survey.objectives import SampledObjective
from tfsoftmax.survey.self_normalised import SelfNormalisedSoftmax
from tfsoftmax.survey.spherical import SphericalSoftmax
from tfsoftmax.survey.taylor import TaylorSoftmax

__all__ = [
    "AdjustNumSamples", "ClassNCE", "ClassUnigram", "CubicScores", "SampledObjective",
    "SelfNormalisedSoftmax", "SphericalSoftmax", "TaylorSoftmax",
]

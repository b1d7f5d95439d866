"""Heads that the thesis describes, most of which perform worse than those of `tfsoftmax.heads`.

They use squares instead of exponentials, scores that are not probabilities, constant normalisers,
classes whose words have fixed shares or are trained by NCE, growing samples, and losses over
samples that users write. A user could have written these heads and callbacks: they use only the
contract of the other heads.
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

"""Suites of cases: functions of the vocabulary size V, each of which returns what it measures."""

import types

from experiments.benchmarks import (
    adaptive_evaluation,
    head_suites,
    logits,
    models,
    programs,
    texts,
    uses,
)
from experiments.benchmarks.cases import MIDDLE_SIZES, VOCAB_SIZES

SUITES = types.MappingProxyType({  # name: (cases of V, values of V)
    "models": (models.suite, (10_000, 44_370, 200_606)),
    "heads": (head_suites.heads, VOCAB_SIZES),
    "evaluation": (adaptive_evaluation.suite, MIDDLE_SIZES),
    "uses": (uses.suite, (200_606,)),
    "parts": (models.parts_suite, (200_606,)),
    "variants": (head_suites.variants, (44_370,)),
    "accumulators": (head_suites.accumulators, (200_606,)),
    "shortlists": (head_suites.shortlists, MIDDLE_SIZES),
    "projections": (head_suites.projections, (44_370,)),
    "samples": (head_suites.samples, (200_606,)),
    "recurrent": (programs.recurrent_suite, (0,)),
    "poster": (head_suites.poster, (10_000, 267_735)),
    "budgets": (head_suites.budgets, (44_370,)),
    "scoring": (texts.suite, (10_000, 30_000)),
    "logits": (logits.suite, MIDDLE_SIZES),
    "padding": (programs.padding_suite, (50_000,)),
    "excluding": (uses.excluding_suite, (50_000,)),
    "serving": (uses.serving_suite, (50_000,)),
    "hub": (models.hub_suite, (256_000,)),
})
ONE_RUN = tuple(SUITES)[:11]  # what one page has: `make speed`

"""Suites of cases of heads alone: functions of the vocabulary size V."""

import dataclasses
import types

from experiments.benchmarks.cases import (
    FORWARD,
    GRADIENTS,
    KERAS,
    MODULES,
    POSTER,
    SEQUENTIAL,
    STEP,
    TF_NCE,
    TF_SAMPLED,
    TORCH,
    TORCH_ADAPTIVE,
    TORCH_CHUNKED,
    Case,
    case_of,
    cutoffs_of,
    options_of,
    step_of,
)
from tfsoftmax.lm.head_names import HEAD_NAMES

ROW_WISE = (
    "FullSoftmax", "AdaptiveSoftmax", "SampledSoftmax", "NCE", "TreeSoftmax (p-tHSM)",
    "ClassSoftmax", "NarySoftmax, three levels", "SelfOrganisedSoftmax",
)
LOG_UNIFORM = {"sampler": "log_uniform", "sampler_options": {"unique": True}}


def heads(vocab_size):
    """Every head with its defaults or with the options of the literature, and its peers."""
    cutoffs = cutoffs_of(vocab_size)
    return [
        step_of("FullSoftmax", "full", group="full", peers=(KERAS, TORCH, TORCH_CHUNKED)),
        step_of("FullSoftmax, a quarter of the gradient", "full", {"gradient_share": 0.25}, "full",
              ("FullSoftmax",), up_to=200_606),
        step_of(KERAS, kind="keras", group="full", up_to=200_606),
        step_of(TORCH, "full", group="full", kind="torch", up_to=44_370),
        step_of(TORCH_CHUNKED, "full", {"chunk": 512}, "full", kind="torch", up_to=200_606),
        step_of("CharCnnSoftmax", "char_cnn", group="characters", up_to=10_000),
        step_of("SelfNormalisedSoftmax", "self_normalised", group="self-normalised", up_to=200_606),
        step_of("SphericalSoftmax", "spherical", group="spherical", up_to=200_606),
        step_of("SphericalSoftmax, its own steps", "spherical", {"sgd_learning_rate": 1.0},
              "spherical", ("SphericalSoftmax",), up_to=200_606),
        step_of("TaylorSoftmax", "taylor", group="spherical", up_to=200_606),
        step_of("AdaptiveSoftmax", "adaptive", {"cutoffs": cutoffs}, "bands", (TORCH_ADAPTIVE,)),
        step_of(TORCH_ADAPTIVE, "adaptive", {"cutoffs": cutoffs}, "bands", kind="torch"),
        step_of("TwoLevelSoftmax", "two_level", {"cutoffs": [vocab_size // 20]}, "two-level",
              up_to=200_606),
        step_of("DifferentiatedSoftmax", "differentiated", {"cutoffs": cutoffs}, "bands",
              up_to=200_606),
        step_of("Shortlist", "shortlist", {"shortlist": cutoffs[0]}, "bands"),
        step_of("SampledSoftmax", "sampled", group="sampled", peers=(TF_SAMPLED,)),
        step_of("SampledSoftmax, without replacement", "sampled", LOG_UNIFORM, "sampled",
              (TF_SAMPLED,), up_to=200_606),
        step_of(TF_SAMPLED, "sampled", {"num_samples": 1280}, "sampled", kind="tf_nn"),
        step_of("NCE", "nce", group="nce", peers=(TF_NCE,)),
        step_of("NCE, without replacement", "nce", LOG_UNIFORM, "nce", (TF_NCE,), up_to=200_606),
        step_of(TF_NCE, "nce", {"num_samples": 1280}, "nce", kind="tf_nn"),
        step_of("NegativeSampling", "negative", group="other samplers"),
        step_of("BlackOut", "blackout", {"sampler_options": {"alpha": 0.4}}, "other samplers"),
        step_of("TreeSoftmax (p-tHSM)", "tree", group="trees", peers=(SEQUENTIAL,)),
        step_of(SEQUENTIAL, "tree", {"mode": "sequential"}, "trees", up_to=200_606),
        step_of("ClassSoftmax", "class", group="classes"),
        step_of("ClassNCE", "class_nce", group="classes", up_to=200_606),
        step_of("ClassUnigram", "class_unigram", group="classes", up_to=200_606),
        step_of("NarySoftmax, three levels", "nary", {"levels": 3}, "classes"),
        step_of("SelfOrganisedSoftmax", "self_organised", group="self-organised"),
        step_of("ShardedSoftmax, one replica", "sharded", group="sharded", up_to=44_370),
    ]


def variants(vocab_size):
    """Some heads in other precisions, under XLA and in other forms, against the plain head."""
    whole = {"cutoffs": cutoffs_of(vocab_size), "projection_factor": None}
    result = []
    for head in ("full", "adaptive", "sampled"):
        name, options = HEAD_NAMES[head][0], options_of(head, vocab_size)
        result += [
            case_of(name, head, options, head),
            case_of(f"{name}, mixed_bfloat16", head, options, head, (name,),
                  precision="mixed_bfloat16"),
            case_of(f"{name}, jit_compile", head, options, head, (name,), jit=True),
        ]
    for name, head, options in (
        ("ClassSoftmax", "class", {}),
        ("NarySoftmax, three levels", "nary", {"levels": 3}),
        ("SelfOrganisedSoftmax", "self_organised", {}),
    ):
        result += [
            case_of(name, head, options, name),
            case_of(f"{name}, jit_compile", head, options, name, (name,), jit=True),
        ]
    balanced, sequential = "TreeSoftmax, balanced", "TreeSoftmax, balanced, sequential"
    few = {"num_samples": 25, "shared_samples": False}
    clipped, clip = f"{TF_SAMPLED}, clipped", {"optimizer": {"global_clipnorm": 1.0}}
    return result + [
        case_of("SampledSoftmax, clipped", "sampled", group="clipped", peers=(clipped,), **clip),
        Case(clipped, "tf_nn", "sampled", {"num_samples": 1280}, "clipped", **clip),
        case_of("AdaptiveSoftmax, no projections", "adaptive", whole, "adaptive",
              ("AdaptiveSoftmax",)),
        case_of(balanced, "tree", {"tree": "balanced"}, "balanced trees", (sequential,)),
        case_of(sequential, "tree", {"tree": "balanced", "mode": "sequential"}, "balanced trees"),
        case_of("NCE, 1,280 shared samples", "nce", group="samples of positions"),
        case_of("NCE, 25 samples for each position", "nce", few, "samples of positions",
              ("NCE, 1,280 shared samples",)),
    ]


def accumulators(vocab_size):
    """Heads with an accumulator of Adagrad for each row, against one for each weight."""
    result = []
    for case in heads(vocab_size):
        if case.name in ROW_WISE:
            by_row = {"name": f"{case.name}, by row", "peers": (case.name,),
                      "optimizer": {"accumulator": "row"}}
            result += [dataclasses.replace(case, group=case.name, peers=()),
                       dataclasses.replace(case, group=case.name, **by_row)]
    return result


def shortlists(vocab_size):
    """One tail by size of the shortlist, and the cheapest cutoffs by number of tails."""
    sizes = [s for s in (250 * 2**k for k in range(11)) if s <= vocab_size // 2]
    result = [
        case_of(f"shortlist of {size:,}", "adaptive", {"cutoffs": [size]}, "one tail",
              measures=(GRADIENTS,)) for size in sizes
    ]
    for factor, name in ((4.0, "D / 4^k units"), (None, "D units")):
        plain = f"cutoffs of the table, {name}"
        options = {"projection_factor": factor}
        result.append(case_of(plain, "adaptive", {**options, "cutoffs": cutoffs_of(vocab_size)},
                            f"tails of {name}", measures=(GRADIENTS,)))
        result += [
            case_of(f"cheapest, tails {tails}, {name}", "adaptive", {**options, "tails": tails},
                  f"tails of {name}", (plain,), measures=(GRADIENTS,)) for tails in range(1, 5)
        ]
    return result


def projections(vocab_size):
    """Adaptive softmax by the factor by which each tail has fewer units."""
    options = {"cutoffs": cutoffs_of(vocab_size)}
    return [
        case_of(f"factor {factor}", "adaptive", {**options, "projection_factor": factor},
              "projections", () if factor == 1 else ("factor 1",), measures=(GRADIENTS,))
        for factor in (1, 2, 4, 8, 16)
    ]


def samples(_):
    """Sampling heads by number of samples."""
    return [
        case_of(f"{name}, {count:,} samples", head, {"num_samples": count}, head)
        for name, head in (("SampledSoftmax", "sampled"), ("NCE", "nce"))
        for count in (320, 640, 1280, 2560, 5120, 10240)
    ]


BUDGETS = types.MappingProxyType({  # constants by the head whose step they cut into pieces
    "full": ("CHUNK_ROWS", "LOGITS_BYTES", "BLOCK_BYTES", "MOST_BLOCKS"),
    "adaptive": ("BLOCK_WORDS", "LEAST_ROWS"),
    "tree": ("TOP_NODES", "PATH_STEPS"),
    "class": ("PARALLEL_NODES",),
})


def budgets(vocab_size):
    """Constants of tfsoftmax.support.budgets at half and twice their values, against themselves."""
    from tfsoftmax.support import budgets

    result = []
    for head, names in BUDGETS.items():
        options = options_of(head, vocab_size)
        for name in names:
            value = getattr(budgets, name)
            usual = f"{name} = {value:,}"
            result.append(case_of(usual, head, options, name))
            result += [
                case_of(f"{name} = {other:,}", head, options, name, (usual,), budgets={name: other})
                for other in (value // 2, 2 * value)
            ]
    return result


def poster(vocab_size):
    """Jiang et al. 2017: forward and total time of four heads, and of the modules by cell."""
    return [
        *(dataclasses.replace(case, group="poster", peers=(), measures=(FORWARD, STEP),
                              up_to=Case.up_to)
          for case in heads(vocab_size) if case.name in POSTER),
        *(Case(cell, "modules", "full", {"cell": cell.lower()}, "cells", measures=MODULES)
          for cell in ("RNN", "LSTM", "GRU")),
    ]

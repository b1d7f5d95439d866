"""Suites of cases: functions of the vocabulary size V, each of which returns what it measures."""

import dataclasses
import types

from experiments.benchmarks.cases import (
    EVALUATIONS,
    FORWARD,
    GRADIENTS,
    KERAS,
    KERAS_MODEL,
    MIDDLE_SIZES,
    MODULES,
    NATS,
    PARTS,
    POSTER,
    SEQUENTIAL,
    STEP,
    TF_NCE,
    TF_SAMPLED,
    TORCH,
    TORCH_ADAPTIVE,
    TORCH_CHUNKED,
    TORCH_MODELS,
    VOCAB_SIZES,
    WHOLE,
    Case,
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
        _step("FullSoftmax", "full", group="full", peers=(KERAS, TORCH, TORCH_CHUNKED)),
        _step("FullSoftmax, a quarter of the gradient", "full", {"gradient_share": 0.25}, "full",
              ("FullSoftmax",), up_to=200_606),
        _step(KERAS, kind="keras", group="full", up_to=200_606),
        _step(TORCH, "full", group="full", kind="torch", up_to=44_370),
        _step(TORCH_CHUNKED, "full", {"chunk": 512}, "full", kind="torch", up_to=200_606),
        _step("CharCnnSoftmax", "char_cnn", group="characters", up_to=10_000),
        _step("SelfNormalisedSoftmax", "self_normalised", group="self-normalised", up_to=200_606),
        _step("SphericalSoftmax", "spherical", group="spherical", up_to=200_606),
        _step("SphericalSoftmax, its own steps", "spherical", {"sgd_learning_rate": 1.0},
              "spherical", ("SphericalSoftmax",), up_to=200_606),
        _step("TaylorSoftmax", "taylor", group="spherical", up_to=200_606),
        _step("AdaptiveSoftmax", "adaptive", {"cutoffs": cutoffs}, "bands", (TORCH_ADAPTIVE,)),
        _step(TORCH_ADAPTIVE, "adaptive", {"cutoffs": cutoffs}, "bands", kind="torch"),
        _step("TwoLevelSoftmax", "two_level", {"cutoffs": [vocab_size // 20]}, "two-level",
              up_to=200_606),
        _step("DifferentiatedSoftmax", "differentiated", {"cutoffs": cutoffs}, "bands",
              up_to=200_606),
        _step("Shortlist", "shortlist", {"shortlist": cutoffs[0]}, "bands"),
        _step("SampledSoftmax", "sampled", group="sampled", peers=(TF_SAMPLED,)),
        _step("SampledSoftmax, without replacement", "sampled", LOG_UNIFORM, "sampled",
              (TF_SAMPLED,), up_to=200_606),
        _step(TF_SAMPLED, "sampled", {"num_samples": 1280}, "sampled", kind="tf_nn"),
        _step("NCE", "nce", group="nce", peers=(TF_NCE,)),
        _step("NCE, without replacement", "nce", LOG_UNIFORM, "nce", (TF_NCE,), up_to=200_606),
        _step(TF_NCE, "nce", {"num_samples": 1280}, "nce", kind="tf_nn"),
        _step("NegativeSampling", "negative", group="other samplers"),
        _step("BlackOut", "blackout", {"sampler_options": {"alpha": 0.4}}, "other samplers"),
        _step("TreeSoftmax (p-tHSM)", "tree", group="trees", peers=(SEQUENTIAL,)),
        _step(SEQUENTIAL, "tree", {"mode": "sequential"}, "trees", up_to=200_606),
        _step("ClassSoftmax", "class", group="classes"),
        _step("ClassNCE", "class_nce", group="classes", up_to=200_606),
        _step("ClassUnigram", "class_unigram", group="classes", up_to=200_606),
        _step("NarySoftmax, three levels", "nary", {"levels": 3}, "classes"),
        _step("SelfOrganisedSoftmax", "self_organised", group="self-organised"),
        _step("ShardedSoftmax, one replica", "sharded", group="sharded", up_to=44_370),
    ]


def variants(vocab_size):
    """Some heads in other precisions, under XLA and in other forms, against the plain head."""
    adaptive = {"cutoffs": cutoffs_of(vocab_size)}
    whole = {**adaptive, "projection_factor": None}
    result = []
    for group, name, head, options in (
        ("full", "FullSoftmax", "full", {}),
        ("adaptive", "AdaptiveSoftmax", "adaptive", adaptive),
        ("sampled", "SampledSoftmax", "sampled", {}),
    ):
        result += [
            _head(name, head, options, group),
            _head(f"{name}, mixed_bfloat16", head, options, group, (name,),
                  precision="mixed_bfloat16"),
            _head(f"{name}, jit_compile", head, options, group, (name,), jit=True),
        ]
    for name, head, options in (
        ("ClassSoftmax", "class", {}),
        ("NarySoftmax, three levels", "nary", {"levels": 3}),
        ("SelfOrganisedSoftmax", "self_organised", {}),
    ):
        result += [
            _head(name, head, options, name),
            _head(f"{name}, jit_compile", head, options, name, (name,), jit=True),
        ]
    balanced, sequential = "TreeSoftmax, balanced", "TreeSoftmax, balanced, sequential"
    few = {"num_samples": 25, "shared_samples": False}
    clipped, clip = f"{TF_SAMPLED}, clipped", {"optimizer": {"global_clipnorm": 1.0}}
    return result + [
        _head("SampledSoftmax, clipped", "sampled", group="clipped", peers=(clipped,), **clip),
        Case(clipped, "tf_nn", "sampled", {"num_samples": 1280}, "clipped", **clip),
        _head("AdaptiveSoftmax, no projections", "adaptive", whole, "adaptive",
              ("AdaptiveSoftmax",)),
        _head(balanced, "tree", {"tree": "balanced"}, "balanced trees", (sequential,)),
        _head(sequential, "tree", {"tree": "balanced", "mode": "sequential"}, "balanced trees"),
        _head("NCE, 1,280 shared samples", "nce", group="samples of positions"),
        _head("NCE, 25 samples for each position", "nce", few, "samples of positions",
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
        _head(f"shortlist of {size:,}", "adaptive", {"cutoffs": [size]}, "one tail",
              measures=(GRADIENTS,)) for size in sizes
    ]
    for factor, name in ((4.0, "D / 4^k units"), (None, "D units")):
        plain = f"cutoffs of the table, {name}"
        options = {"projection_factor": factor}
        result.append(_head(plain, "adaptive", {**options, "cutoffs": cutoffs_of(vocab_size)},
                            f"tails of {name}", measures=(GRADIENTS,)))
        result += [
            _head(f"cheapest, tails {tails}, {name}", "adaptive", {**options, "tails": tails},
                  f"tails of {name}", (plain,), measures=(GRADIENTS,)) for tails in range(1, 5)
        ]
    return result


def projections(vocab_size):
    """Adaptive softmax by the factor by which each tail has fewer units."""
    options = {"cutoffs": cutoffs_of(vocab_size)}
    return [
        _head(f"factor {factor}", "adaptive", {**options, "projection_factor": factor},
              "projections", () if factor == 1 else ("factor 1",), measures=(GRADIENTS,))
        for factor in (1, 2, 4, 8, 16)
    ]


def samples(_):
    """Sampling heads by number of samples."""
    return [
        _head(f"{name}, {count:,} samples", head, {"num_samples": count}, head)
        for name, head in (("SampledSoftmax", "sampled"), ("NCE", "nce"))
        for count in (320, 640, 1280, 2560, 5120, 10240)
    ]


def evaluation(vocab_size):
    """The calls of evaluation and generation: exact nats, and adaptive softmax against PyTorch."""
    options, both = {"cutoffs": cutoffs_of(vocab_size)}, {"measures": EVALUATIONS}
    return [
        *(_head(HEAD_NAMES[head][0], head, options if head == "adaptive" else {}, "nats",
                measures=(NATS,)) for head in ("full", "adaptive", "class", "tree", "sampled")),
        _head("AdaptiveSoftmax, its calls", "adaptive", options, "evaluation", (TORCH_ADAPTIVE,),
              **both),
        Case(TORCH_ADAPTIVE, "torch", "adaptive", options, "evaluation", **both),
    ]


def recurrent(_):
    """LSTM and GRU layers by backend. They do not depend on V."""
    result = []
    for cell, layers, units in (("lstm", 1, 512), ("gru", 1, 512), ("lstm", 1, 2048),
                                ("lstm", 2, 2048)):
        group = f"{layers} × {units} {cell.upper()}"
        for backend in ("cell", "fused", "cudnn"):
            options = {"cell": cell, "layers": layers, "units": units, "backend": backend}
            result.append(Case(
                f"{group}, {backend}", "recurrent", backend, options, group,
                (f"{group}, cell",) if backend != "cell" else (), measures=(GRADIENTS,),
            ))
    return result


def parts(vocab_size):
    """A whole training step of a language model, and each of its parts by itself."""
    choices = {"full": {}, "adaptive": {"cutoffs": cutoffs_of(vocab_size)}, "sampled": {},
               "tree": {}, "class": {}}
    return [
        Case(f"LSTM and {head}", "whole", head, {"head_options": options}, head,
             measures=(WHOLE, *PARTS))
        for head, options in choices.items()
    ]


def models(vocab_size):
    """Whole training steps by body and head, in turn, against `Dense` and against PyTorch's."""
    adaptive = {"adaptive": {"cutoffs": cutoffs_of(vocab_size)}}

    def ours(body, head, group, peers, precision="float32", name=""):
        options = {"body": body, "head_options": adaptive.get(head, {})}
        return Case(name or f"{body} and {HEAD_NAMES[head][0]}", "whole", head, options, group,
                    peers, precision, measures=(WHOLE,))

    def torch(body, group, precision="float32", name=""):
        options = {"body": body, "head_options": adaptive["adaptive"]}
        return Case(name or TORCH_MODELS[body], "torch_model", "adaptive", options, group,
                    precision=precision, measures=(WHOLE,))

    result = [Case(KERAS_MODEL, "keras_model", "dense", group="LSTM", measures=(WHOLE,))]
    for head in ("full", "adaptive", "class", "tree", "sampled"):
        peers = (KERAS_MODEL, TORCH_MODELS["LSTM"])[: 2 if head == "adaptive" else 1]
        result.append(ours("LSTM", head, "LSTM", peers))
    result.append(torch("LSTM", "LSTM"))
    half, theirs = "mixed_bfloat16", f"{TORCH_MODELS['LSTM']}, bfloat16"
    name = "LSTM and AdaptiveSoftmax, bfloat16"
    result += [ours("LSTM", "adaptive", half, (theirs,), half, name),
               torch("LSTM", half, half, theirs)]
    for body in ("Transformer", "bag of words"):
        result += [ours(body, "adaptive", body, (TORCH_MODELS[body],)), torch(body, body)]
    return result


def poster(vocab_size):
    """Jiang et al. 2017: forward and total time of four heads, and of the modules by cell."""
    return [
        *(dataclasses.replace(case, group="poster", peers=(), measures=(FORWARD, STEP))
          for case in heads(vocab_size) if case.name in POSTER),
        *(Case(cell, "modules", "full", {"cell": cell.lower()}, "cells", measures=MODULES)
          for cell in ("RNN", "LSTM", "GRU")),
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
        options = {"cutoffs": cutoffs_of(vocab_size)} if head == "adaptive" else {}
        for name in names:
            value = getattr(budgets, name)
            usual = f"{name} = {value:,}"
            result.append(_head(usual, head, options, name))
            result += [
                _head(f"{name} = {other:,}", head, options, name, (usual,), budgets={name: other})
                for other in (value // 2, 2 * value)
            ]
    return result


SUITES = types.MappingProxyType({  # name: (cases of V, values of V)
    "models": (models, (10_000, 44_370, 200_606)),
    "heads": (heads, VOCAB_SIZES),
    "evaluation": (evaluation, MIDDLE_SIZES),
    "parts": (parts, (200_606,)),
    "variants": (variants, (44_370,)),
    "accumulators": (accumulators, (200_606,)),
    "shortlists": (shortlists, MIDDLE_SIZES),
    "projections": (projections, (44_370,)),
    "samples": (samples, (200_606,)),
    "recurrent": (recurrent, (0,)),
    "poster": (poster, (10_000, 267_735)),
    "budgets": (budgets, (44_370,)),
})
ONE_RUN = tuple(SUITES)[:10]  # what one page has: `make speed`


def cutoffs_of(vocab_size):
    """The thesis's cutoffs for its corpora; for small V a tenth and a half of the vocabulary."""
    if vocab_size < 44_370:
        return [vocab_size // 10, vocab_size // 2]
    return [4000, 22_000] if vocab_size < 100_000 else [4000, 40_000]


def _step(name, head="", options=None, group="", peers=(), kind="head", up_to=10**9):
    return Case(name, kind, head, dict(options or {}), group, tuple(peers), measures=(STEP,),
                up_to=up_to)


def _head(name, head, options=None, group="", peers=(), **kwargs):
    return Case(name, "head", head, dict(options or {}), group, tuple(peers), **kwargs)

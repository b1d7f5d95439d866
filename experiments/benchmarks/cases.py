"""What is measured, as data: suites of cases, where a case is one program with its options.

A suite is a function of the vocabulary size V. The cases of a group take turns in one interleaved
run. The peers of a case are the programs of its group that it is compared with.
"""

import dataclasses
import types

from tfsoftmax.lm.head_names import HEAD_NAMES

VOCAB_SIZES = (10_000, 44_370, 200_606, 459_454, 793_471)
MIDDLE_SIZES = (44_370, 200_606)
FORWARD, GRADIENTS, STEP, FLOOR = "forward", "gradients", "step", "floor"
EVALUATIONS = ("log_probs of 256", "top_k of 256", "top_k of N", "top_k of 256, from the shortlist")
MODULES = ("embedding", "recurrent", "head")
PARTS = (*MODULES, "optimiser")
WHOLE = "whole step"
KERAS, TORCH, TORCH_CHUNKED = "Keras Dense", "PyTorch", "PyTorch, 512 positions at a time"
TORCH_ADAPTIVE = "PyTorch AdaptiveLogSoftmaxWithLoss"
KERAS_MODEL = "Keras LSTM and Dense"
TORCH_MODEL = "PyTorch LSTM and AdaptiveLogSoftmaxWithLoss"
TF_SAMPLED, TF_NCE = "tf.nn.sampled_softmax_loss", "tf.nn.nce_loss"
PEERS = (KERAS, TORCH, TORCH_CHUNKED, TORCH_ADAPTIVE, TF_SAMPLED, TF_NCE)
SEQUENTIAL = "TreeSoftmax, sequential (tHSM)"
POSTER = types.MappingProxyType({  # our name: the poster's
    "FullSoftmax": "Softmax", "ClassSoftmax": "cHSM", SEQUENTIAL: "tHSM",
    "TreeSoftmax (p-tHSM)": "p-tHSM",
})
ROW_WISE = (
    "FullSoftmax", "AdaptiveSoftmax", "SampledSoftmax", "NCE", "TreeSoftmax (p-tHSM)",
    "ClassSoftmax", "NarySoftmax, three levels", "SelfOrganisedSoftmax",
)
LOG_UNIFORM = {"sampler": "log_uniform", "sampler_options": {"unique": True}}


@dataclasses.dataclass(frozen=True)
class Case:
    """One program to measure.

    Args:
        name: the name of its row in the table.
        kind: which function makes the program: one of the names in `worker.main`.
        head: a name in `tfsoftmax.HEADS`, or another word that the kind understands.
        options: arguments of the head or of the program.
        group: name of the cases that take turns with this one.
        peers: names of the cases of the group that this one is compared with.
        precision: Keras dtype policy.
        jit: whether XLA compiles the step.
        measures: what is timed besides the floor.
        up_to: largest V for which time and 16 GiB of memory suffice.
        optimizer: options of Adagrad.
        budgets: {name: value} of constants in `tfsoftmax.support.budgets` that are set before.
    """

    name: str
    kind: str
    head: str = ""
    options: dict = dataclasses.field(default_factory=dict)
    group: str = ""
    peers: tuple = ()
    precision: str = "float32"
    jit: bool = False
    measures: tuple = (GRADIENTS, STEP)
    up_to: int = 10**9
    optimizer: dict = dataclasses.field(default_factory=dict)
    budgets: dict = dataclasses.field(default_factory=dict)


def heads(vocab_size):
    """Every head with its defaults or with the options of the literature, and its peers."""
    cutoffs = cutoffs_of(vocab_size)
    few = {"measures": (GRADIENTS, STEP) if vocab_size < 100_000 else (GRADIENTS,)}
    return [
        _head("FullSoftmax", "full", group="full", peers=(KERAS, TORCH, TORCH_CHUNKED)),
        _head("FullSoftmax, a quarter of the gradient", "full", {"gradient_share": 0.25}, "full",
              ("FullSoftmax",)),
        Case(KERAS, "keras", group="full", up_to=459_454),
        Case(TORCH, "torch", "full", group="full", up_to=200_606, **few),
        Case(TORCH_CHUNKED, "torch", "full", {"chunk": 512}, group="full", up_to=44_370),
        _head("CharCnnSoftmax", "char_cnn", group="characters", up_to=44_370),
        _head("SelfNormalisedSoftmax", "self_normalised", group="self-normalised"),
        _head("SphericalSoftmax", "spherical", group="spherical"),
        _head("SphericalSoftmax, its own steps", "spherical", {"sgd_learning_rate": 1.0},
              "spherical", ("SphericalSoftmax",)),
        _head("TaylorSoftmax", "taylor", group="spherical"),
        _head("AdaptiveSoftmax", "adaptive", {"cutoffs": cutoffs}, "bands", (TORCH_ADAPTIVE,)),
        Case(TORCH_ADAPTIVE, "torch", "adaptive", {"cutoffs": cutoffs}, "bands"),
        _head("TwoLevelSoftmax", "two_level", {"cutoffs": [vocab_size // 20]}, "two-level"),
        _head("DifferentiatedSoftmax", "differentiated", {"cutoffs": cutoffs}, "bands"),
        _head("Shortlist", "shortlist", {"shortlist": cutoffs[0]}, "bands"),
        _head("SampledSoftmax", "sampled", group="sampled", peers=(TF_SAMPLED,)),
        _head("SampledSoftmax, without replacement", "sampled", LOG_UNIFORM, "sampled",
              (TF_SAMPLED,), up_to=459_454),
        Case(TF_SAMPLED, "tf_nn", "sampled", {"num_samples": 1280}, "sampled"),
        _head("NCE", "nce", group="nce", peers=(TF_NCE,)),
        _head("NCE, without replacement", "nce", LOG_UNIFORM, "nce", (TF_NCE,), up_to=459_454),
        Case(TF_NCE, "tf_nn", "nce", {"num_samples": 1280}, "nce"),
        _head("NegativeSampling", "negative", group="other samplers"),
        _head("BlackOut", "blackout", {"sampler_options": {"alpha": 0.4}}, "other samplers"),
        _head("TreeSoftmax (p-tHSM)", "tree", group="trees", peers=(SEQUENTIAL,)),
        _head(SEQUENTIAL, "tree", {"mode": "sequential"}, "trees"),
        _head("ClassSoftmax", "class", group="classes"),
        _head("ClassNCE", "class_nce", group="classes"),
        _head("ClassUnigram", "class_unigram", group="classes"),
        _head("NarySoftmax, three levels", "nary", {"levels": 3}, "classes"),
        _head("SelfOrganisedSoftmax", "self_organised", group="self-organised"),
        _head("ShardedSoftmax, one replica", "sharded", group="sharded"),
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
    """The calls of evaluation and generation to adaptive softmax, against PyTorch's module."""
    options, both = {"cutoffs": cutoffs_of(vocab_size)}, {"measures": EVALUATIONS}
    return [
        _head("AdaptiveSoftmax", "adaptive", options, "evaluation", (TORCH_ADAPTIVE,), **both),
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


def whole(vocab_size):
    """A whole training step of a language model, and each of its parts by itself."""
    choices = {"full": {}, "adaptive": {"cutoffs": cutoffs_of(vocab_size)}, "sampled": {},
               "tree": {}, "class": {}}
    return [
        Case(f"LSTM and {head}", "whole", head, options, head, measures=(WHOLE, *PARTS))
        for head, options in choices.items()
    ]


def headline(vocab_size):
    """Whole training steps of a language model by head, in turn, against Keras's `Dense`."""
    options = {"adaptive": {"cutoffs": cutoffs_of(vocab_size)}}
    return [
        Case(KERAS_MODEL, "keras_model", "dense", group="model", measures=(WHOLE,)),
        *(Case(f"LSTM and {HEAD_NAMES[head][0]}", "whole", head, options.get(head, {}), "model",
               (KERAS_MODEL,), measures=(WHOLE,))
          for head in ("full", "adaptive", "class", "tree", "sampled")),
    ]


def models(vocab_size):
    """Whole training steps of a language model with adaptive softmax, ours and PyTorch's."""
    options, measured = {"cutoffs": cutoffs_of(vocab_size)}, {"measures": (WHOLE,)}
    half, ours = "mixed_bfloat16", "LSTM and AdaptiveSoftmax"
    return [
        Case(ours, "whole", "adaptive", options, "model", (TORCH_MODEL,), **measured),
        Case(f"{ours}, bfloat16", "whole", "adaptive", options, "model",
             (ours, f"{TORCH_MODEL}, bfloat16"), half, **measured),
        Case(TORCH_MODEL, "torch_model", "adaptive", options, "model", **measured),
        Case(f"{TORCH_MODEL}, bfloat16", "torch_model", "adaptive", options, "model",
             precision=half, **measured),
    ]


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
    "heads": (heads, VOCAB_SIZES),
    "variants": (variants, MIDDLE_SIZES),
    "accumulators": (accumulators, (200_606,)),
    "shortlists": (shortlists, MIDDLE_SIZES),
    "projections": (projections, MIDDLE_SIZES),
    "samples": (samples, (200_606,)),
    "evaluation": (evaluation, MIDDLE_SIZES),
    "recurrent": (recurrent, (0,)),
    "whole": (whole, MIDDLE_SIZES),
    "models": (models, (10_000, 44_370)),
    "headline": (headline, (200_606,)),
    "poster": (poster, (10_000, 267_735)),
    "budgets": (budgets, (44_370,)),
})


def cutoffs_of(vocab_size):
    """The thesis's cutoffs for its corpora; for small V a tenth and a half of the vocabulary."""
    if vocab_size < 44_370:
        return [vocab_size // 10, vocab_size // 2]
    return [4000, 22_000] if vocab_size < 100_000 else [4000, 40_000]


def _head(name, head, options=None, group="", peers=(), **kwargs):
    return Case(name, "head", head, dict(options or {}), group, tuple(peers), **kwargs)

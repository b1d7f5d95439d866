"""Suites of cases: functions of the vocabulary size V, each of which returns what it measures."""

import functools
import types

from experiments.benchmarks.cases import (
    ALL_LOG_PROBS,
    ALONE,
    APART,
    BARE_TOP_K,
    BY_ELEMENTS,
    BY_ROWS,
    COMMAND,
    EVALUATIONS,
    EXCLUDED,
    FAISS,
    FULL_LOGITS,
    GRADIENTS,
    KERAS_MODEL,
    LOGITS,
    MIDDLE_SIZES,
    NATS,
    OF_LOG_PROBS,
    OF_SCORES,
    PADDED,
    PARTS,
    SERVED,
    TOP_KS,
    TORCH_ADAPTIVE,
    TORCH_MODELS,
    VOCAB_SIZES,
    WHOLE,
    Case,
    case_of,
    cutoffs_of,
    ways_of,
)
from experiments.benchmarks.head_suites import (
    accumulators,
    budgets,
    heads,
    poster,
    projections,
    samples,
    shortlists,
    variants,
)
from experiments.benchmarks.runtimes import RUNTIMES
from tfsoftmax.lm.head_names import HEAD_NAMES


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
        result.append(ours("LSTM", head, "LSTM", (KERAS_MODEL,)))
    half, theirs = "mixed_bfloat16", f"{TORCH_MODELS['LSTM']}, bfloat16"
    name, single = "LSTM and AdaptiveSoftmax, bfloat16", "LSTM and AdaptiveSoftmax, float32"
    result += [ours("LSTM", "adaptive", half, (single, theirs), half, name),
               ours("LSTM", "adaptive", half, (TORCH_MODELS["LSTM"],), name=single),
               torch("LSTM", half, half, theirs), torch("LSTM", half)]
    for body in ("Transformer", "bag of words"):
        result += [ours(body, "adaptive", body, (TORCH_MODELS[body],)), torch(body, body)]
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


def evaluation(vocab_size):
    """The calls of evaluation and generation: exact nats, and adaptive softmax against PyTorch."""
    options, both = {"cutoffs": cutoffs_of(vocab_size)}, {"measures": EVALUATIONS}
    return [
        *(case_of(HEAD_NAMES[head][0], head, options if head == "adaptive" else {}, "nats",
                measures=(NATS,)) for head in ("full", "adaptive", "class", "tree", "sampled")),
        case_of("AdaptiveSoftmax, its calls", "adaptive", options, "evaluation", (TORCH_ADAPTIVE,),
              **both),
        Case(TORCH_ADAPTIVE, "torch", "adaptive", options, "evaluation", **both),
    ]


def uses(vocab_size):
    """The likeliest words, texts and commands, against the least that others need for the same."""
    likeliest = functools.partial(
        Case, kind="top_k", head="full", group="FullSoftmax", measures=tuple(TOP_KS))
    search = [
        likeliest("FullSoftmax", peers=(BARE_TOP_K, FAISS)),
        *(likeliest(way, options={"way": way}) for way in (BARE_TOP_K, FAISS)),
    ]
    for head in ("adaptive", "tree"):
        search += ways_of(HEAD_NAMES[head][0], "top_k", head, (ALL_LOG_PROBS,), tuple(TOP_KS))
    cutoffs = {"cutoffs": cutoffs_of(vocab_size)}
    search += [
        Case(f"LSTM and {HEAD_NAMES[head][0]}", "texts", head, options, does, measures=(does,))
        for does, head, options in (
            ("score", "adaptive", cutoffs), ("rescore", "adaptive", cutoffs),
            ("generate", "full", {}),
        )
    ]
    text, short = {"sentences": 120_000}, {"sentences": 2_000}
    others = ("tokenizers", "sentencepiece")
    return search + [
        _command("tfsoftmax prepare", "prepare", text, "prepare", others),
        *(_command(name, name, {**text, "needs": (name,)}, "prepare") for name in others),
        _command("tfsoftmax train, one step and its validation", "train", short, "train",
                 ("import of TensorFlow and Keras",)),
        _command("import of TensorFlow and Keras", "import", short, "train"),
    ]


def _command(name, head, options, group, peers=()):
    return Case(name, "command", head, options, group, peers, measures=(COMMAND,))


def scoring(vocab_size):
    """Sentences and n-best lists scored by `Scorer`, against simpler ways to the same numbers."""
    result = []
    for head in ("full", "adaptive", "tree", "nce"):
        options = {"cutoffs": cutoffs_of(vocab_size)} if head == "adaptive" else {}
        of_sentences = (ALONE,) if head == "nce" else (ALONE, FULL_LOGITS)
        for measure, ways in (("score", of_sentences), ("rescore", (APART,))):
            name = f"{HEAD_NAMES[head][0]}, {measure}"
            result += ways_of(name, "texts", head, ways, (measure,), options)
    return result


def logits(_):
    """Logits of all words of adaptive softmax, gathered and in two ways by `tf.scatter_nd`."""
    return [
        case for ids in ("sorted ids", "ids in no order")
        for case in ways_of(f"AdaptiveSoftmax, {ids}", "logits", "adaptive", (BY_ROWS, BY_ELEMENTS),
                            tuple(LOGITS), {"sorted": ids == "sorted ids"})
    ]


def padding(vocab_size):
    """Steps with padding, which is not computed, against steps of the other positions alone."""
    in_batch = {"num_samples": None, "sampler": "in_batch"}
    return [
        case for name, head, options in (
            ("FullSoftmax", "full", {}), ("SampledSoftmax", "sampled", {}),
            ("AdaptiveSoftmax", "adaptive", {"cutoffs": cutoffs_of(vocab_size)}),
            ("TreeSoftmax", "tree", {}), ("SampledSoftmax, InBatch", "sampled", in_batch),
        ) for case in ways_of(name, "padding", head, ("the rest alone",), tuple(PADDED), options)
    ]


def excluding(_):
    """The best words without some of each query, against bare operations that leave them out."""
    return ways_of("FullSoftmax", "excluding", "full", (OF_SCORES, OF_LOG_PROBS), tuple(EXCLUDED))


def serving(_):
    """The likeliest words by `predict_on_batch`, against other runtimes that load the model."""
    return [
        case for head in ("full", "adaptive", "tree")
        for case in ways_of(HEAD_NAMES[head][0], "served", head, RUNTIMES, tuple(SERVED))
    ]


def hub(_):
    """Fine-tuning a model of keras_hub with a head of ours, against its own loss."""
    result = []
    for note, jit in (("", False), (", XLA", True)):
        theirs = f"keras_hub's own loss{note}"
        result += [
            Case(f'with_head(causal_lm, "full"){note}', "keras_hub", "full", group="hub",
                 peers=(theirs,), jit=jit, measures=(WHOLE,)),
            Case(theirs, "keras_hub", group="hub", jit=jit, measures=(WHOLE,)),
        ]
    return result


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


SUITES = types.MappingProxyType({  # name: (cases of V, values of V)
    "models": (models, (10_000, 44_370, 200_606)),
    "heads": (heads, VOCAB_SIZES),
    "evaluation": (evaluation, MIDDLE_SIZES),
    "uses": (uses, (200_606,)),
    "parts": (parts, (200_606,)),
    "variants": (variants, (44_370,)),
    "accumulators": (accumulators, (200_606,)),
    "shortlists": (shortlists, MIDDLE_SIZES),
    "projections": (projections, (44_370,)),
    "samples": (samples, (200_606,)),
    "recurrent": (recurrent, (0,)),
    "poster": (poster, (10_000, 267_735)),
    "budgets": (budgets, (44_370,)),
    "scoring": (scoring, (10_000, 30_000)),
    "logits": (logits, MIDDLE_SIZES),
    "padding": (padding, (50_000,)),
    "excluding": (excluding, (50_000,)),
    "serving": (serving, (50_000,)),
    "hub": (hub, (256_000,)),
})
ONE_RUN = tuple(SUITES)[:11]  # what one page has: `make speed`

"""What is measured, as data: a case is one program with its options.

The cases of a group take turns in one interleaved run. The peers of a case are the programs of its
group that it is compared with. `suites` and `head_suites` list them.
"""

import dataclasses
import types

VOCAB_SIZES = (10_000, 44_370, 200_606, 793_471)
MIDDLE_SIZES = (44_370, 200_606)
FORWARD, GRADIENTS, STEP = "forward", "gradients", "step"
FLOOR, MOVES = "floor", "moves"  # bare products, and bare moves of the rows that a step changes
NATS, COMMAND = "nats of N", "command"
TOP_KS = types.MappingProxyType({  # calls of generation: greedy, a beam of 8, the 40 best, and many
    f"top_k of {positions}, k = {k}": (positions, k)
    for positions, k in ((1, 2), (64, 2), (64, 10), (64, 41), (256, 10))
})
TEXTS = "score", "rescore", "generate"  # by a language model
ALONE, APART, FULL_LOGITS = "one by one", "the hypotheses of a list apart", "all logits, padded"
PADDED = types.MappingProxyType({  # steps, and the share of their positions that is padding
    f"step, {share:.0%} padding": share for share in (0.0, 0.5, 0.85, 0.95)
})
LOGITS = types.MappingProxyType({  # calls, with how many positions, and whether they are compiled
    f"logits of {positions}{', eager' * (not compiled)}": (positions, compiled)
    for positions in (8, 128) for compiled in (True, False)
})
BY_ROWS, BY_ELEMENTS = "scatter_nd of rows", "scatter_nd of elements"
EXCLUDED = types.MappingProxyType({  # searches, and how many words of each query they leave out
    f"20 best of 512, without {count:,}": count for count in (0, 10, 100, 850, 5000)
})
SERVED = types.MappingProxyType({  # calls in other runtimes, and their positions
    f"10 best of {positions}": positions for positions in (1, 32)
})
OF_SCORES, OF_LOG_PROBS = "-inf in the scores", "-inf in the log-probabilities"
MEAN_WORDS = 17  # of the sentences of a made-up text
EVALUATIONS = ("log_probs of 256", "top_k of 256", "top_k of N", "top_k of 256, from the shortlist")
MODULES = ("embedding", "recurrent", "head")
PARTS = (*MODULES, "optimiser")
WHOLE = "whole step"
KERAS, TORCH, TORCH_CHUNKED = "Keras Dense", "PyTorch", "PyTorch, 512 positions at a time"
TORCH_ADAPTIVE = "PyTorch AdaptiveLogSoftmaxWithLoss"
KERAS_MODEL = "Keras LSTM and Dense"
TORCH_MODELS = types.MappingProxyType({
    body: f"PyTorch {body} and AdaptiveLogSoftmaxWithLoss"
    for body in ("LSTM", "Transformer", "bag of words")
})
TF_SAMPLED, TF_NCE = "tf.nn.sampled_softmax_loss", "tf.nn.nce_loss"
PEERS = (KERAS, TORCH, TORCH_CHUNKED, TORCH_ADAPTIVE, TF_SAMPLED, TF_NCE)
BARE_TOP_K, FAISS = "tf.matmul and tf.math.top_k", "faiss IndexFlatIP"
ALL_LOG_PROBS = "the best of all log-probabilities"
SEQUENTIAL = "TreeSoftmax, sequential (tHSM)"
POSTER = types.MappingProxyType({  # our name: the poster's
    "FullSoftmax": "Softmax", "ClassSoftmax": "cHSM", SEQUENTIAL: "tHSM",
    "TreeSoftmax (p-tHSM)": "p-tHSM",
})


@dataclasses.dataclass(frozen=True)
class Case:
    """One program to measure.

    Args:
        name: the name of its row in the table.
        kind: which function makes the program: one of the names in `worker.build`.
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


def cutoffs_of(vocab_size):
    """The thesis's cutoffs for its corpora; for small V a tenth and a half of the vocabulary."""
    if vocab_size < 44_370:
        return [vocab_size // 10, vocab_size // 2]
    return [4000, 22_000] if vocab_size < 100_000 else [4000, 40_000]


def ways_of(name, kind, head, ways, measures, options=None):
    """A case that is done in the library's way, and one more for each other way, its peers."""
    own = {"options": dict(options or {}), "group": name, "measures": measures}
    others = [
        Case(f"{name}, {way}", kind, head, **{**own, "options": {**own["options"], "way": way}})
        for way in ways
    ]
    return [Case(name, kind, head, peers=tuple(other.name for other in others), **own), *others]


def case_of(name, head, options=None, group="", peers=(), **kwargs):
    return Case(name, "head", head, dict(options or {}), group, tuple(peers), **kwargs)


def step_of(name, head="", options=None, group="", peers=(), kind="head", up_to=10**9):
    return Case(name, kind, head, dict(options or {}), group, tuple(peers), measures=(STEP,),
                up_to=up_to)

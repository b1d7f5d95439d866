"""What is measured, as data: a case is one program with its options.

The cases of a group take turns in one interleaved run. The peers of a case are the programs of its
group that it is compared with. `suites` lists them.
"""

import dataclasses
import functools
import types

VOCAB_SIZES = (10_000, 44_370, 200_606, 793_471)
MIDDLE_SIZES = (44_370, 200_606)
FORWARD, GRADIENTS, STEP = "forward", "gradients", "step"
FLOOR, MOVES = "floor", "moves"  # bare products, and bare moves of the rows that a step changes
NATS = "nats of N"
MODULES = ("embedding", "recurrent", "head")
PARTS = (*MODULES, "optimiser")
WHOLE = "whole step"
KERAS, TORCH, TORCH_CHUNKED = "Keras Dense", "PyTorch", "PyTorch, 512 positions at a time"
TORCH_ADAPTIVE = "PyTorch AdaptiveLogSoftmaxWithLoss"
KERAS_MODEL = "Keras LSTM and Dense"
TF_SAMPLED, TF_NCE = "tf.nn.sampled_softmax_loss", "tf.nn.nce_loss"
PEERS = (KERAS, TORCH, TORCH_CHUNKED, TORCH_ADAPTIVE, TF_SAMPLED, TF_NCE)
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


def options_of(head, vocab_size):
    """What a head needs besides its defaults: the cutoffs of adaptive softmax."""
    return {"cutoffs": cutoffs_of(vocab_size)} if head == "adaptive" else {}


def ways_of(name, kind, head, ways, measures, options=None):
    """A case that is done in the library's way, and one more for each other way, its peers."""
    own = {"options": dict(options or {}), "group": name, "measures": measures}
    others = [
        Case(f"{name}, {way}", kind, head, **{**own, "options": {**own["options"], "way": way}})
        for way in ways
    ]
    return [Case(name, kind, head, peers=tuple(other.name for other in others), **own), *others]


def case_of(name, head="", options=None, group="", peers=(), kind="head", **kwargs):
    return Case(name, kind, head, dict(options or {}), group, tuple(peers), **kwargs)


step_of = functools.partial(case_of, measures=(STEP,))

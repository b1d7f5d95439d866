"""A step of each head on this machine: what is known of it, and its time and memory."""

import dataclasses
import gc
import math
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.lm.head_names import HEAD_NAMES
from tfsoftmax.lm.head_options import HEADS, WordCounts, head_for, known_options
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.ops.logits import logits_rows
from tfsoftmax.optimizers import Adagrad
from tfsoftmax.profiling.head_step import PeakMemory, head_step
from tfsoftmax.profiling.memory import available_bytes

DENSE = "dense"
MOST_SAMPLES = 7
FLOAT = 4
ROWS, OF_SAMPLES = 4, 2  # tensors (N + S, D) and (N, S) that a step holds with S samples, about


class _Candidate(NamedTuple):
    """What is known of a head before it is run.

    Attributes:
        gives_up: what it gives up against a full softmax.
        gradients: how many tensors as large as its weights a step holds.
        scores: how many tensors (chunk of positions, V) a step holds.
        options: function of V -> arguments that the head has no defaults for.
    """

    gives_up: str
    gradients: float = 0.0
    scores: float = 0.0
    options: Callable[[int], dict] = lambda vocab_size: {}


# In the order in which they are run: those that are recommended, then the cheapest first.
CANDIDATES = {
    "sampled": _Candidate("exact loss in training"),
    "adaptive": _Candidate("units of rare words", 1, 0.5),
    "full": _Candidate("nothing", 1, 1.5),
    "tree": _Candidate("perplexity, by the tree"),
    "class": _Candidate("a little perplexity", 1.2, 0.1),
    DENSE: _Candidate("nothing", 1, 1),
    "nce": _Candidate("exact loss, perplexity"),
    "blackout": _Candidate("exact loss in training"),
    "negative": _Candidate("much perplexity"),
    "class_unigram": _Candidate("scores of words"),
    "shortlist": _Candidate("scores of rare words", 1, 0.05, lambda v: {"shortlist": v // 20}),
    "class_nce": _Candidate("exact loss, perplexity"),
    "self_organised": _Candidate("a little perplexity", 1.5, 0.1),
    "self_normalised": _Candidate("much perplexity", 2, 0.1),
    "spherical": _Candidate("some perplexity", 2),
    "taylor": _Candidate("some perplexity", 2),
    "two_level": _Candidate("hardly anything", 1, 0.7),
    "differentiated": _Candidate(
        "units of rare words", 1, 1, lambda v: {"cutoffs": [v // 20, v // 4]}
    ),
}


@dataclasses.dataclass
class Measured:
    """What a step of a head takes.

    Attributes:
        name: a name in `tfsoftmax.HEADS`, or "dense".
        layer: the name of its class.
        milliseconds: of a step: the loss, all gradients and Adagrad's update; NaN if none was run.
        most: whether this time is that of the first step, which was traced too.
        bytes: of weights, the optimiser's slots, gradients and temporaries; where the allocator
            does not count, `predicted_bytes`.
        predicted_bytes: the same, as known before the head was built; 0 if its turn did not come.
        trains_exactly: whether the training loss is the exact cross-entropy.
        gives_up: what the head gives up against a full softmax.
        code: the line that makes it.
        why_not: why it was not run; empty if it was.

    Example:
        rows = tfsoftmax.advise(500, units=8, positions=16, only=["full", "tree"]).rows
        print({row.layer: (row.milliseconds, row.bytes) for row in rows})
    """

    name: str
    layer: str
    gives_up: str
    code: str
    trains_exactly: bool
    milliseconds: float = math.nan
    most: bool = False
    bytes: int = 0
    predicted_bytes: int = 0
    why_not: str = ""


def unmeasured(name: str, vocab_size: int) -> Measured:
    """What is known of a head without making it."""
    known = CANDIDATES[name]
    if name == DENSE:
        code = f"keras.layers.Dense({vocab_size:_})"
        return Measured(name, "Dense, cross-entropy", known.gives_up, code, trains_exactly=True)
    head, layer = HEADS[name], HEAD_NAMES[name][0]
    takes = "counts" in known_options(head).vocabulary
    given = ["counts=counts"] * takes
    given += [f"{key}={value}" for key, value in known.options(vocab_size).items()]
    code = f"tfsoftmax.{layer}({', '.join([f'{vocab_size:_}', *given])})"
    return Measured(name, layer, known.gives_up, code, head.trains_exactly)


def measure(
    row: Measured, words: WordCounts, hidden: np.ndarray, labels: np.ndarray, own_end: float,
    end: float,
) -> None:
    """Runs steps, and writes what they take, or why none was run, into the row.

    Args:
        row: of `unmeasured`.
        words: the words and their counts.
        hidden: (N, D) float32.
        labels: int (N,).
        own_end: until when steps are run, as `time.monotonic` says.
        end: until when a second one is run at least, as the first is traced too.
    """
    if time.monotonic() >= end:
        row.why_not = "not run: the time was up"
        return
    row.predicted_bytes = predicted_bytes(row.name, words, *hidden.shape)
    on_gpu = tf.config.list_logical_devices("GPU")  # whose allocator says when it is full
    if row.predicted_bytes > available_bytes() and not on_gpu:
        row.why_not = f"not run: it needs about {row.predicted_bytes / 2**30:,.1f} GiB of memory"
        return
    try:
        _run(row, words, hidden, labels, own_end, end)
    except (tf.errors.ResourceExhaustedError, MemoryError):
        row.why_not = "not run: its memory ran out"
    gc.collect()


def predicted_bytes(name: str, words: WordCounts, positions: int, units: int) -> int:
    """Bytes of a head's weights, slots and gradients and of a step's temporaries, about."""
    known, size = CANDIDATES[name], len(words)
    with keras.StatelessScope(initialize_variables=False):  # shapes, without any memory
        layer, *_ = _made(name, words)
        layer.build((positions, units))
        trained = _numbers(layer.trainable_variables)
        others = _numbers(layer.non_trainable_variables)
    samples = getattr(layer, "num_samples", 0)
    chunk = 4 * positions if name == DENSE else min(positions, logits_rows(size, units))
    shared = getattr(layer, "shared_samples", False)
    drawn = samples if shared else min(size, positions * samples)  # different words of a step
    temporaries = (
        known.scores * chunk * size + ROWS * (positions + drawn) * units
        + OF_SAMPLES * positions * samples
    )
    return int(FLOAT * ((2 + known.gradients) * trained + others + temporaries))


def _numbers(variables):
    return sum(math.prod(v.shape) for v in variables)


def _run(row, words, hidden, labels, own_end, end):
    layer, loss, optimizer = _made(row.name, words)
    layer.build(hidden.shape)
    step = head_step(
        lambda rows, labels: loss(labels, layer(rows, training=True)), layer.trainable_variables,
        hidden, labels, optimizer,
    )

    def seconds():
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

    times = [seconds()]
    memory, row.most, row.bytes = PeakMemory(), True, row.predicted_bytes
    before = memory.begin()
    if time.monotonic() < end:
        times, row.most = [seconds()], False
    while len(times) < MOST_SAMPLES and time.monotonic() + times[-1] < own_end:
        times.append(seconds())
    if before is not None and not row.most:
        held = _numbers(layer.variables) + _numbers(layer.trainable_variables)  # and Adagrad's slot
        row.bytes = memory.end() - before + FLOAT * held
    row.milliseconds = 1000 * statistics.median(times)


def _made(name, words):
    """A layer, its loss and the function that makes its optimiser."""
    if name == DENSE:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return keras.layers.Dense(len(words)), loss, lambda: keras.optimizers.Adagrad(0.1)
    options = CANDIDATES[name].options(len(words))
    return head_for(words, HEADS[name], **options), SoftmaxLoss(), lambda: Adagrad(0.1)

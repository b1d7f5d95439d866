"""Bytes, memory and time of an output layer on P devices, on paper.

The devices have n = N / P positions each. A ring all-reduce of b bytes makes each device receive
2 b (P - 1) / P bytes, an all-gather of b bytes of each b (P - 1).
"""

import dataclasses
from collections.abc import Callable

from experiments.framework import markdown

FLOAT, INDEX = 4, 4
NOISE_SAMPLES = 1280
# Published by the maintainers of NCCL (github.com/NVIDIA/nccl-tests/issues/212): what a collective
# moves in a second over the NVLink of eight H100. Between nodes: the line rate of a 400 Gb/s
# network card for each GPU.
BANDWIDTH = {8: 370e9, 64: 50e9}
FLOPS = 400e12  # of a GPU, assumed: two fifths of an H100's peak in bfloat16
MEMORY_BANDWIDTH = 3.35e12  # of an H100, bytes/s
LARGE = {"vocab_size": 10_000_000, "units": 512, "positions_of_each": 2560}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to train an output layer on several devices.

    Attributes:
        name: what readers see.
        head: the head and its options, as a worker is asked for them.
        bytes: function (P, V, D, N) -> bytes that each device receives in a step.
        products: how many matrix products (n, D, V) a device computes; 0 for those of a sample.
        divided: whether each device holds a part of the vocabulary only.
    """

    name: str
    head: dict
    bytes: Callable[[int, int, int, int], float]
    products: int
    divided: bool = False


def all_reduce(bytes_of_each, devices):
    return 2 * bytes_of_each * (devices - 1) / devices


def all_gather(bytes_of_each, devices):
    return bytes_of_each * (devices - 1)


def dense(devices, vocab_size, units, positions):
    """All-reduce of the gradients of kernel and bias."""
    return all_reduce(FLOAT * vocab_size * (units + 1), devices)


def sparse(devices, vocab_size, units, positions):
    """All-gathers of the rows of labels and noise samples; fewer where rows occur twice."""
    rows = positions / devices + NOISE_SAMPLES
    return all_gather(rows * (FLOAT * (units + 1) + 2 * INDEX), devices)


def sharded(devices, vocab_size, units, positions):
    """Hidden states, labels, weights; ln Z and the labels' scores; gradients of hidden states."""
    of_each = positions / devices
    gathered = of_each * (FLOAT * units + 2 * INDEX + FLOAT) + 2 * FLOAT * positions
    return all_gather(gathered, devices) + all_reduce(FLOAT * positions * units, devices)


KINDS = {
    "dense": Kind("full, data parallel", {"head": "full", "options": {}}, dense, 3),
    "sparse": Kind(
        "sampled, data parallel",
        {"head": "sampled", "options": {"num_samples": NOISE_SAMPLES, "sampler": "log_uniform"}},
        sparse, 0,
    ),
    "sharded": Kind("full, sharded", {"head": "sharded", "options": {}}, sharded, 4, True),
}


def step(kind, devices, vocab_size, units, positions_of_each):
    """{part: seconds} of a step, and the bytes of kernel, gradient and slot on each device."""
    words = vocab_size if kind.products else positions_of_each + NOISE_SAMPLES
    products = kind.products or 3
    held = vocab_size * units * FLOAT / (devices if kind.divided else 1)
    touched = held if kind.products else words * units * FLOAT
    positions = devices * positions_of_each
    return {
        "matrix products": 2 * products * positions_of_each * units * words / FLOPS,
        "update": 5 * touched / MEMORY_BANDWIDTH,  # weights and slot read and written, gradient
        "exchange": kind.bytes(devices, vocab_size, units, positions) / BANDWIDTH[devices],
    }, 2 * held + touched


def page():
    """The blocks of the section on GPUs."""
    rows = [["", "GPUs", "matrix products", "update", "exchange", "ms a step", "words/s",
             "GB received", "GB held"]]
    for devices in BANDWIDTH:
        for kind in KINDS.values():
            parts, held = step(kind, devices, **LARGE)
            total, positions = sum(parts.values()), devices * LARGE["positions_of_each"]
            received = kind.bytes(devices, LARGE["vocab_size"], LARGE["units"], positions)
            rows.append([
                kind.name, str(devices), *(f"{1000 * part:,.1f}" for part in parts.values()),
                f"{1000 * total:,.1f}", f"{positions / total:,.0f}", f"{received / 1e9:,.2f}",
                f"{held / 1e9:,.1f}",
            ])
    yield "## Ten million words on GPUs, on paper"
    yield (
        f"V = {LARGE['vocab_size']:,}, D = {LARGE['units']}, "
        f"{LARGE['positions_of_each']:,} positions on each GPU, float32 variables, Adagrad, the "
        "output layer alone. Nothing here was measured on a GPU. Assumed: "
        f"{FLOPS / 1e12:.0f} TFLOP/s in matrix products of bfloat16, {MEMORY_BANDWIDTH / 1e12:g} "
        f"TB/s of memory, and that a GPU receives {BANDWIDTH[8] / 1e9:.0f} GB/s within a node of "
        f"eight (NCCL on H100) and {BANDWIDTH[64] / 1e9:.0f} GB/s between nodes (a card of 400 "
        "Gb/s for each GPU). Nothing overlaps. GB held are kernel, gradient and slot."
    )
    yield markdown.table(rows)
    yield (
        "The exchange of dense gradients costs more than the arithmetic as soon as it leaves the "
        "node. With the vocabulary in shards it is a small part of the step."
    )

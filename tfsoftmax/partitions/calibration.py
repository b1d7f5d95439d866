"""The constants of the cost model on this machine: measured once, kept in a file.

The file is TFSOFTMAX_CACHE, or else tfsoftmax/costs.json in the user's cache directory, with
an entry for each hardware and version of TensorFlow. Pass `MachineCosts` to avoid the
measurement.
"""

import contextlib
import dataclasses
import importlib.metadata
import itertools
import json
import os
import time
from pathlib import Path

import numpy as np

from tfsoftmax.partitions.cost_model import MachineCosts
from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.hardware import hardware

# (rows, units, words) of a head cluster, of tails with many and with few rows, and of overhead.
POINTS = (
    (2560, 512, 4096), (2560, 128, 4096), (2560, 16, 4096), (512, 512, 4096), (512, 64, 8192),
    (128, 128, 32768), (64, 512, 16384), (8, 256, 32768), (8, 32, 65536), (512, 128, 64),
    (8, 8, 8),
)
ROUNDS = 9


def machine_constants(remeasure: bool = False) -> MachineCosts:
    """The `MachineCosts` of this machine, from the file or measured and put there.

    Args:
        remeasure: whether to measure even if the file has them.

    Returns:
        `MachineCosts`.
    """
    path, key = cache_path(), measured_on()
    known = _read(path)
    if not remeasure and key in known:
        with contextlib.suppress(TypeError, ValueError):  # of another version, or by hand
            return MachineCosts(**known[key])
    constants = fit(POINTS, measure(POINTS))
    _write(path, {**known, key: dataclasses.asdict(constants)})
    return constants


def measure(points, rounds=ROUNDS):
    """Seconds of the products of a cluster, forward and both gradients, in the fastest round.

    The time of the call from Python is included, about 0.1 ms. It stands for what a tail needs
    to find, gather and scatter its rows.

    Args:
        points: P tuples of (rows, units, words).
        rounds: number of measurements of each point; the points take turns.

    Returns:
        (P,) float64, seconds.
    """
    import tensorflow as tf

    def products(hidden, kernel):
        logits = tf.matmul(hidden, kernel, transpose_b=True)
        exps = tf.exp(logits - tf.reduce_max(logits, axis=1, keepdims=True))
        sums = tf.reduce_sum(exps, axis=1)
        hidden_gradient = tf.matmul(exps, kernel) / sums[:, None]
        kernel_gradient = tf.matmul(exps, hidden, transpose_a=True)
        return hidden_gradient[0, 0] + kernel_gradient[0, 0]

    # The measurement runs eagerly even if the caller is building a graph.
    with tf.init_scope():
        calls = []
        for rows, units, words in points:
            tensors = tf.fill([rows, units], 0.1), tf.fill([words, units], 0.1)
            call = tf.function(products).get_concrete_function(*tensors)
            calls.append(lambda call=call, tensors=tensors: float(call(*tensors)))
        seconds = [[_seconds(call) for call in calls] for _ in range(rounds + 1)]
    return np.min(seconds[1:], axis=0)  # other work on the machine only adds time


def fit(points, seconds):
    """The `MachineCosts` that explain measurements best, in relative error; none is negative.

    Args:
        points: P tuples of (rows, units, words).
        seconds: (P,) the time of each.

    Source: Müller 2017, eq. 2.17, whose k₀ is found by trying how many of the quickest products
    show nothing but the constant part.
    """
    rows, units, words = np.asarray(points, np.float64).T
    seconds = np.asarray(seconds, np.float64)
    work = np.stack([rows * units * words, rows * words, units * words], axis=1)
    quickest = np.argsort(seconds)
    fits = []
    for count in range(len(seconds) // 2 + 1):
        flat = np.isin(np.arange(len(seconds)), quickest[:count])[:, None]
        terms = np.hstack([np.ones_like(flat), np.where(flat, 0, work), flat])
        constants = MachineCosts(*_nonnegative(terms / seconds[:, None]))
        wrong = constants.product_seconds(rows, units, words) / seconds - 1
        fits.append((np.sum(wrong**2), count, constants))
    return min(fits, key=lambda f: f[:2])[2]


def measured_on():
    """What the constants depend on, as text."""
    return f"{hardware()}, TensorFlow {importlib.metadata.version('tensorflow')}"


def cache_path():
    """The file that keeps the constants."""
    if os.environ.get("TFSOFTMAX_CACHE"):
        return Path(os.environ["TFSOFTMAX_CACHE"])
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "tfsoftmax" / "costs.json"


def _nonnegative(terms):
    """x >= 0 that makes |terms x - 1| least; x[1], the cost of multiplications, is positive."""
    best = (np.inf, None)
    others = [i for i in range(terms.shape[1]) if i != 1]
    for size in range(len(others) + 1):
        for chosen in itertools.combinations(others, size):
            columns = [1, *chosen]
            # Seconds of a multiplication and of a product differ by ten powers of ten.
            scale = np.abs(terms[:, columns]).max(axis=0)
            if not scale.all():
                continue
            x = np.linalg.lstsq(terms[:, columns] / scale, np.ones(len(terms)), rcond=None)[0]
            x = x / scale
            error = np.sum((terms[:, columns] @ x - 1) ** 2)
            if np.all(x >= 0) and x[0] > 0 and error < best[0]:
                best = (error, dict(zip(columns, x)))
    return [float(best[1].get(i, 0.0)) for i in range(terms.shape[1])]


def _read(path):
    try:
        known = textio.read_json(path)
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(path, known):
    """Writes the file in one step. If that fails, the next program measures again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_files.writing(path) as file:
            json.dump(known, file, indent=1)


def _seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start

"""Models of every case, saved by an earlier commit, with what they computed then.

    python tests/golden_files.py

writes those that are missing. To write one anew, delete it first, which is right only where a
change of results or of files is meant: a file that cannot be read any more is a model that somebody
has lost.
"""

import re
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import CASES, UNITS, positions, randomise, rewind

GOLDEN = Path(__file__).parent / "golden"
V, COUNT, K = 13, 6, 3


def path_of(case, suffix):
    return GOLDEN / (re.sub(r"\W+", "_", case) + suffix)


def results_of(model):
    """{name: array} of what the head of a model computes, whose state is that of its file."""
    head = model.layers[-1]
    hidden, labels = positions(V, COUNT)
    weights = np.linspace(0, 1, COUNT, dtype=np.float32)
    ids, log_probs = head.top_k(hidden, K)
    found = {
        "logits": model(hidden), "log_probs": head.log_probs(hidden), "ids": ids,
        "top_k": log_probs, "log_prob": head.log_prob(hidden, labels),
        "training_loss": rewind(head).training_loss(hidden, labels),
    }
    hidden = tf.Variable(hidden)
    sources = [hidden, *[w.value for w in head.trainable_weights]]
    with tf.GradientTape() as tape:
        found["total"], nats = rewind(head).loss_and_nats(hidden, labels, weights)
    if nats is not None:
        found["nats"] = nats
    for number, gradient in enumerate(tape.gradient(found["total"], sources)):
        found[f"gradient_{number}"] = tf.convert_to_tensor(gradient)
    rewind(head)
    return {name: np.array(value) for name, value in found.items()}


def saved_model(case):
    """A model of hidden states and a head of the case, with distinct weights."""
    keras.utils.set_random_seed(1)
    hidden = keras.Input((UNITS,))
    head = CASES[case](V)
    model = keras.Model(hidden, head(hidden))
    randomise(head)
    rewind(head)
    return model


def main():
    GOLDEN.mkdir(exist_ok=True)
    for case in CASES:
        if path_of(case, ".keras").exists():
            continue
        model = saved_model(case)
        model.save(path_of(case, ".keras"))
        np.savez_compressed(path_of(case, ".npz"), **results_of(model))


if __name__ == "__main__":
    main()

"""Loads saved models in a process of its own: `python -m tests.load_models DIRECTORY FIRST SECOND`.

FIRST and SECOND are `keras` and `tfsoftmax`, imported in that order; nothing else is imported
before the models are loaded. What the loaded models give goes to `DIRECTORY/FIRST.npz`.
"""

import importlib
import pathlib
import sys


def results(model, data):
    """What a model predicts, and its loss and metrics before and after a step of training."""
    words, labels, weights = data
    numbers = {"logits": model.predict_on_batch(words)}
    for when in ("loaded", "trained"):
        if when == "trained":
            model.train_on_batch(words, labels, weights)
        model.reset_metrics()
        measured = model.test_on_batch(words, labels, weights, return_dict=True)
        numbers |= {f"{when} {name}": value for name, value in measured.items()}
    return numbers


def main(directory, *packages):
    for package in packages:
        importlib.import_module(package)
    import keras
    import numpy as np

    directory, found = pathlib.Path(directory), {}
    data = np.load(directory / "data.npz")
    data = [data[name] for name in ("words", "labels", "weights")]
    for path in sorted(directory.glob("*.keras")):
        try:
            numbers = results(keras.saving.load_model(path), data)
        except Exception as error:  # the test reports the file and what went wrong
            numbers = {"error": f"{type(error).__name__}: {error}"}
        found |= {f"{path.stem}/{name}": value for name, value in numbers.items()}
    np.savez(directory / packages[0], **found)


if __name__ == "__main__":
    main(*sys.argv[1:])

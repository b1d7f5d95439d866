"""What the README shows to Keras users runs as it stands, for a smaller vocabulary."""

import pathlib
import re

import keras
import numpy as np

import tfsoftmax

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def example(heading):
    """The first Python block after `heading`, for 200 words instead of 200,000."""
    block = re.search(heading + r".*?```python\n(.*?)```", README, re.DOTALL).group(1)
    return block.replace("200_000", "200")


def surroundings():
    words = keras.Input((5,), dtype="int32")
    hidden = keras.layers.LSTM(8, return_sequences=True)(keras.layers.Embedding(200, 8)(words))
    return {"keras": keras, "tfsoftmax": tfsoftmax, "words": words, "hidden": hidden}


def test_the_keras_example_trains_and_agrees_with_the_one_before_it():
    names = surroundings()
    code = example("After:").splitlines()
    build = next(i for i, line in enumerate(code) if line.startswith("model.fit"))
    exec("\n".join(code[:build]), names)  # noqa: S102
    data = np.random.default_rng(0).integers(0, 200, (12, 6))
    names.update(words=data[:, :-1], next_words=data[:, 1:])
    exec("\n".join(code[build:]), names)  # noqa: S102
    model = names["model"]
    loss, perplexity = model.evaluate(data[:, :-1], data[:, 1:], verbose=0)
    np.testing.assert_allclose(perplexity, np.exp(loss), rtol=1e-5)

    before = surroundings()
    exec(example("Before:"), before)  # noqa: S102
    kernel, bias = model.get_weights()[-2:]
    before["model"].set_weights([*model.get_weights()[:-2], kernel.T, bias])
    np.testing.assert_allclose(
        before["model"].evaluate(data[:, :-1], data[:, 1:], verbose=0), loss, rtol=1e-5
    )

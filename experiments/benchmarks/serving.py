"""How long the ten likeliest words take in `predict`, SavedModel, LiteRT, ONNX and OpenVINO.

    pip install '.[serving]'
    python -m experiments.benchmarks.serving

The model is the layer `TopK(head, 10)` on hidden states, in float32. The heads are untrained, with
the distribution that `uses.likeliest_head` gives them, and the runtimes take
turns. They must find the log-probabilities of `predict`. The medians count. Writes
experiments/results/serving/README.md.
"""

import functools
import sys
import tempfile
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.measure import medians
from experiments.benchmarks.uses import SPREAD, likeliest_heads
from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/serving")
K = 10


def served(head, hidden, folder):
    """{name of the runtime: function of a list of arrays to a list of arrays}."""
    import keras

    from experiments.benchmarks.runtimes import RUNTIMES
    from tfsoftmax.heads.inference import TopK

    inputs = keras.Input(hidden.shape[1:])
    model = keras.Model([inputs], TopK(head, K)(inputs))
    functions = {"predict_on_batch": model.predict_on_batch}
    wanted = model.predict_on_batch([hidden])[1]
    for name, export in RUNTIMES.items():
        functions[name] = export(model, [hidden], folder)
        (found,) = [x for x in functions[name]([hidden]) if x.dtype == np.float32]
        np.testing.assert_allclose(found, wanted, atol=1e-3, err_msg=name)
    return functions


def main():
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    options, rows = flags.FLAGS, []
    shape = max(map(int, options.positions)), options.units
    hidden = np.random.default_rng(1).standard_normal(shape, np.float32)
    for name, head in likeliest_heads(options.vocab_size, options.units):
        for count in map(int, options.positions):
            given = hidden[:count]
            with tempfile.TemporaryDirectory() as folder:
                functions = served(head, given, Path(folder))
                bound = {n: functools.partial(f, [given]) for n, f in functions.items()}
                seconds = medians(bound, options.repeats)
            rows.append([name, str(count), *(f"{1000 * s:,.2f}" for s, _ in seconds.values())])
            print(*rows[-1], sep=" | ", flush=True)
    write(["", "positions", *functions], rows, hardware(), options)


def write(headings, rows, hardware, options):
    """Writes the page of results."""
    markdown.write(
        RESULTS / "README.md", "# The likeliest words in other runtimes",
        f"`python -m experiments.benchmarks.serving` on {hardware}: milliseconds that "
        f"`TopK(head, {K})` takes, at V = {options.vocab_size:,} and D = {options.units}, in "
        "float32, all processors allowed to each runtime as it chooses. The heads are untrained, "
        "with biases by Zipf's law and log-probabilities that differ between contexts by about "
        f"{SPREAD:g} nats. Medians of {options.repeats} calls that take turns; all runtimes find "
        "the log-probabilities of `predict`.",
        markdown.table([headings, *rows]),
    )


if __name__ == "__main__":
    flags.DEFINE_integer("vocab_size", 50_000, "V, the size of the vocabulary.")
    flags.DEFINE_list("positions", ["1", "32"], "Numbers of positions in a call.")
    flags.DEFINE_integer("units", 256, "Units D of the hidden state.")
    flags.DEFINE_integer("repeats", 15, "Number of timed calls of each runtime.")
    program.run(main, __doc__, sys.argv)

"""Trains the runs of `alternatives` and cubic scores for a few hundred steps, by learning rate.

    python -m experiments.alternatives_steps --data=data/million

The model is that of the preset `jiang` with `--units` units and no dropout, trained by Adam, the
head with its own steps by its own rate beside. Rows of `--only` are chosen by the beginning of their
names. Each is trained at each of its learning rates from the same seed, and measured on the first
`--batches` batches of the validation split: perplexity where the head is a distribution, and
accuracy. Writes experiments/results/alternatives/steps.md. None of this is converged.
"""

import sys
import time
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments import markdown
from tfsoftmax.commands import program

RATES = (3e-3, 1e-2)
CASES = {  # name: (head, options, Adam's rates, rates of own steps)
    "full": ("full", {}, RATES, (None,)),
    "spherical, ε = 1": ("spherical", {"epsilon": 1.0}, RATES, (None,)),
    "spherical, ε = 0.1": ("spherical", {"epsilon": 0.1}, RATES, (None,)),
    "spherical, ε = 0.01": ("spherical", {"epsilon": 0.01}, RATES, (None,)),
    "spherical-exact": ("spherical", {"epsilon": 0.1}, (3e-3,), (30.0, 100.0, 300.0, 1000.0)),
    "taylor": ("taylor", {}, RATES, (None,)),
    "taylor-exact": ("taylor", {}, (3e-3,), (100.0, 1000.0)),
    "cubic": ("cubic", {}, RATES, (None,)),
}


def model_of(case, own_rate, vocabulary, streams, time_steps, units):
    """A model that ends in the head of a case."""
    import keras

    from tfsoftmax.heads import CubicScores
    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.model import language_model

    head, options = CASES[case][:2]
    keras.utils.set_random_seed(1)
    config = ModelConfig(
        head="full" if head == "cubic" else head, cell="gru", hidden_units=units,
        embedding_units=units, dropout=0.0,
        head_options=options if own_rate is None else {**options, "sgd_learning_rate": own_rate},
    )
    model = language_model(config, vocabulary, streams, time_steps)
    if head != "cubic":
        return model
    cubic = CubicScores(len(vocabulary), kernel_initializer=keras.initializers.RandomUniform(-1, 1))
    return keras.Model(model.input, cubic(model.get_layer("head").input))


def trained(case, rate, own_rate, corpus, options):
    """A row of the table."""
    import keras

    from tfsoftmax.corpora.pipeline import batches
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.metrics import Accuracy, Perplexity
    from tfsoftmax.optimizers import Adam

    rows, steps = corpus.shape["streams"], corpus.shape["time_steps"]
    model = model_of(case, own_rate, corpus.vocabulary, rows, steps, options.units)
    metrics = [Accuracy()] + [Perplexity()] * model.layers[-1].is_distribution
    loss = SoftmaxLoss(reduction="mean_with_sample_weight")
    model.compile(Adam(rate, global_clipnorm=5.0), loss, weighted_metrics=metrics)
    start = time.perf_counter()
    losses = keras.callbacks.History()
    model.fit(batches(corpus, "train", count=options.steps), verbose=0, callbacks=[losses])
    seconds = time.perf_counter() - start
    valid = batches(corpus, "valid", count=options.batches)
    found = model.evaluate(valid, verbose=0, return_dict=True)
    perplexity = f"{found['perplexity']:.1f}" if "perplexity" in found else "–"
    return [
        case, f"{rate:g}", "–" if own_rate is None else f"{own_rate:g}", f"{found['loss']:.4f}",
        perplexity, f"{100 * found['accuracy']:.2f}", f"{1000 * seconds / options.steps:.0f}",
    ]


def main():
    """Writes the page."""
    program.load_tensorflow()
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.hardware import hardware

    options = flags.FLAGS
    corpus, rows = Corpus.load(options.data), []
    for case, (_, _, rates, own_rates) in CASES.items():
        if case.startswith(tuple(options.only)):
            for rate in rates:
                for own_rate in own_rates:
                    rows.append(trained(case, rate, own_rate, corpus, options))
                    print(*rows[-1], flush=True)
    headings = ["head", "Adam's rate", "own rate", "loss", "perplexity", "accuracy, %", "ms a step"]
    page = markdown.write(
        Path(options.results) / "steps.md", "# A few hundred steps of alternatives to softmax",
        __doc__.partition("\n\n")[2].strip("\n"),
        f"{options.units} units, {options.steps} steps of {corpus.shape['streams']} × "
        f"{corpus.shape['time_steps']} words, V = {len(corpus.vocabulary):,}, "
        f"{options.batches} batches of the validation split, on {hardware()} with other work "
        "beside, so that times are rough.",
        markdown.table([headings, *rows]),
    )
    print(page)


if __name__ == "__main__":
    flags.DEFINE_string("data", "data/million", "Directory of the prepared corpus.")
    flags.DEFINE_integer("units", 64, "Units of the embedding and of the GRU.")
    flags.DEFINE_integer("steps", 300, "Training steps.")
    flags.DEFINE_integer("batches", 10, "Batches of the validation split.")
    flags.DEFINE_list("only", [""], "Beginnings of the names of the rows.")
    flags.DEFINE_string("results", "experiments/results/alternatives", "Directory of the page.")
    program.run(main, __doc__, sys.argv)

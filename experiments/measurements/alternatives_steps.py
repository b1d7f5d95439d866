"""Trains the heads of `alternatives` and cubic scores for a few hundred steps.

    python -m experiments.measurements.alternatives_steps --data=data/million

The model is that of the preset `jiang` with `--units` units and no dropout. Adam trains it at
0.003, and heads with steps of their own make them at a rate of their own beside. All start from the
same seed, and are measured on the first `--batches` batches of the validation split: perplexity
where the head is a distribution, and accuracy. The loss of `cubic` is a squared error, of which
scores of zero have one. `--only` chooses rows by the beginning of their names. None of this is
converged. Writes experiments/results/alternatives/steps.md.
"""

import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown
from tfsoftmax.commands import program

RATE = 3e-3  # of Adam
CASES = {  # name: (head, options, rates of its own steps)
    "spherical-exact": ("spherical", {"epsilon": 0.1}, (100.0, 300.0, 1000.0)),
    "spherical, ε = 0.1": ("spherical", {"epsilon": 0.1}, (None,)),
    "spherical, ε = 1": ("spherical", {"epsilon": 1.0}, (None,)),
    "taylor": ("taylor", {}, (None,)),
    "taylor-exact": ("taylor", {}, (1000.0,)),
    "cubic": ("cubic", {}, (None,)),
    "full": ("full", {}, (None,)),
}


def model_of(case, own_rate, vocabulary, streams, time_steps, units):
    """A model that ends in the head of a case."""
    import keras

    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.model import language_model
    from tfsoftmax.survey import CubicScores

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


def trained(case, own_rate, corpus, options):
    """A row of the table."""
    from tfsoftmax.corpora.pipeline import batches
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.metrics import Accuracy, Perplexity
    from tfsoftmax.optimizers import Adam

    rows, steps = corpus.shape["streams"], corpus.shape["time_steps"]
    model = model_of(case, own_rate, corpus.vocabulary, rows, steps, options.units)
    metrics = [Accuracy()] + [Perplexity()] * model.layers[-1].is_distribution
    loss = SoftmaxLoss(reduction="mean_with_sample_weight")
    model.compile(Adam(RATE, global_clipnorm=5.0), loss, weighted_metrics=metrics)
    train = batches(corpus, "train", count=options.steps)
    model.fit(train, shuffle=False, verbose=0)
    valid = batches(corpus, "valid", count=options.batches)
    found = model.evaluate(valid, verbose=0, return_dict=True)
    perplexity = f"{found['perplexity']:.1f}" if "perplexity" in found else "–"
    return [
        case, "–" if own_rate is None else f"{own_rate:g}", f"{found['loss']:.4f}", perplexity,
        f"{100 * found['accuracy']:.2f}",
    ]


def main():
    """Writes the page."""
    program.load_tensorflow()
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.support.hardware import hardware

    options = flags.FLAGS
    corpus, rows = Corpus.load(options.data), []
    for case, (_, _, own_rates) in CASES.items():
        if case.startswith(tuple(options.only)):
            for own_rate in own_rates:
                rows.append(trained(case, own_rate, corpus, options))
                print(*rows[-1], flush=True)
    headings = ["head", "own rate", "loss", "perplexity", "accuracy, %"]
    page = markdown.write(
        Path(options.results) / "steps.md", "# A few hundred steps of alternatives to softmax",
        __doc__.partition("\n\n")[2].strip("\n"),
        f"{options.units} units, {options.steps} steps of {corpus.shape['streams']} × "
        f"{corpus.shape['time_steps']} words, V = {len(corpus.vocabulary):,}, "
        f"{options.batches} batches of the validation split, on {hardware()}.",
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

"""Nats per token of words by their frequency: what a way to make the kernel does to rare words.

    python -m experiments.measurements.by_frequency --data=data/million \\
        --runs=runs/field/full,runs/field/char-cnn-corrected

The words are divided by their number of occurrences in the training split. Each run is evaluated
exactly at its best validation, and compared with the first run. Writes
experiments/results/by_frequency/README.md.

Source: Müller 2017, section 2.2.4.1, which describes kernels computed from characters without
measuring them.
"""

import math
import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/by_frequency")


def measured(directory, corpus, split):
    """{measure: value} of a run: `parameters` of its output layer, `epochs`, and exact nats."""
    import numpy as np

    from tfsoftmax.lm.evaluation import exact_evaluator
    from tfsoftmax.metrics import NatsByFrequency
    from tfsoftmax.runs import runs

    model, vocabulary, config = runs.load(directory, corpus.streams, corpus.time_steps)
    metric = NatsByFrequency(vocabulary.counts)
    result = exact_evaluator(model, [metric])(corpus, split, progress=sys.stderr.isatty())
    weights = model.get_layer("head").trainable_weights
    return {
        **result, "epochs": config["progress"]["step"] / corpus.split("train").records,
        "starts": list(metric.starts.values()),
        "parameters": sum(int(np.prod(weight.shape)) for weight in weights),
    }


def rows_of(results):
    """The rows of the table, the headings first."""
    first = next(iter(results.values()))
    bands = [start for start in first["starts"] if f"nats_{start}" in first]
    names = [f"{start:,} to {10 * start - 1:,}" if start else "0" for start in bands]
    shares = [f"{first[f'tokens_{start}']:.1%}" for start in bands]
    rows = [
        ["run", "epochs", "parameters", *names, "all", "perplexity"],
        ["share of the tokens", "", "", *shares, "", ""],
    ]
    for name, result in results.items():
        nats = [result[f"nats_{start}"] for start in bands] + [result["nats_per_token"]]
        cells = [f"{value:.3f}" for value in nats]
        if result is not first:
            wanted = [first[f"nats_{start}"] for start in bands] + [first["nats_per_token"]]
            cells = [f"{cell} ({value - other:+.3f})" for cell, value, other in
                     zip(cells, nats, wanted, strict=True)]
        rows.append([
            name, f"{result['epochs']:.1f}", f"{result['parameters']:,}", *cells,
            f"{math.exp(nats[-1]):.2f}",
        ])
    return rows


def main():
    options = flags.FLAGS
    program.load_tensorflow()
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.support.hardware import hardware

    corpus = Corpus.load(options.data)
    results = {Path(run).name: measured(run, corpus, options.split) for run in options.runs}
    split = corpus.split(options.split)
    markdown.write(
        RESULTS / "README.md",
        "# Nats per token by the frequency of words",
        f"`python -m experiments.measurements.by_frequency --runs={','.join(options.runs)} "
        f"--split={options.split}` on {hardware()}, with {split.tokens:,} tokens of {corpus.name} "
        f"and a vocabulary of {len(corpus.vocabulary):,} words. The columns are words that occur "
        "so many times in the training split; in brackets is the difference to the first run. "
        "Parameters are those of the output layer. The number of epochs is that of the best "
        "validation; runs with fewer epochs are behind for this reason, too.",
        markdown.table(rows_of(results)),
    )
    print(RESULTS / "README.md")


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of the prepared corpus.", required=True)
    flags.DEFINE_list("runs", None, "Directories of runs, the first of which the others are "
                      "compared with.", required=True)
    flags.DEFINE_string("split", "test", "Split of the corpus.")
    program.run(main, __doc__, sys.argv)

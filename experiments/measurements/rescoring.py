"""Rescores n-best lists with trained models and reports word errors with their uncertainty.

    python -m experiments.inputs.corrupted_nbest --data=data/million --valid=valid.txt.gz \\
        --test=test.txt.gz --out=data/nbest
    python -m experiments.measurements.rescoring --nbest=data/nbest --hypotheses=10 \\
        --runs=runs/methods/full-dropout0.4-seed1,runs/methods/nce-dropout0.4-seed1

Müller 2017, section 5.3.3, with lists that `experiments.inputs.corrupted_nbest` or
`experiments.inputs.recognised_nbest` made. For each run the weights are tuned on valid.nbest over
the grid of tfsoftmax/nbest/rescoring.py, and test.nbest is rescored with them. Each run scores the
hypotheses in two ways: each by itself, and, as in the thesis, all as a continuous stream that
carries the state from one to the next. Heads that are trained to be normalised are also tried with
their scores as they are. With --hypotheses=10 the lists are as short as those of the thesis. Writes
experiments/results/rescoring/README.md, or rescoring_recognised/README.md there for lists of the
recogniser.
"""

import itertools
import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown
from tfsoftmax.commands import program
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import rescoring, transcripts
from tfsoftmax.nbest.word_errors import bootstrap, word_errors

BATCH = 128
BIGRAM = "the lists' bigram model, weights tuned"
RESULTS = Path("experiments/results")
# Table 5.3: financial speech, no weights, scores of the language model alone.
THESIS = (
    ("1-best", "–", 21.6), ("Adaptive softmax", 38.4, 21.9), ("Importance sampling", 38.2, 22.0),
)


class Origin(NamedTuple):
    """How lists were made: the folder of their page, its title and first words."""

    folder: str
    title: str
    statement: str


ORIGINS = {  # by the file that a program of experiments/inputs writes with its settings
    "corruption.json": Origin(
        "rescoring", "Rescoring n-best lists",
        "**These lists do not come from a recogniser.** They were made by corrupting held-out "
        "sentences at known rates (`experiments.inputs.corrupted_nbest` says how). The figures "
        "show that the tools work and what the models add to a bigram model, not what they would "
        "do for speech.",
    ),
    "recognition.json": Origin(
        "rescoring_recognised", "Rescoring n-best lists of a recogniser",
        "**The recogniser is real, and the speech is synthetic.** PocketSphinx recognised held-out "
        "sentences that Flite spoke in several voices, with noise "
        "(`python -m experiments.inputs.recognised_nbest` says how). The figures show what the "
        "models add to the recogniser's bigram model where an acoustic model confuses words, not "
        "how well people would be understood. The acoustic scores are divided by the recogniser's "
        "own weight of the bigram model, which is therefore 1 in the table.",
    ),
}


class Lists:
    """The n-best lists of a split, what was said, and the errors of each hypothesis."""

    def __init__(self, directory, split, hypotheses=None):
        self.nbest = nbest.read(directory / f"{split}.nbest")
        if hypotheses is not None:
            self.nbest = rescoring.first_hypotheses(self.nbest, hypotheses)
        said = transcripts.read_transcripts(directory / f"{split}.ref")
        self.references = self.nbest.expect(said, f"{split}.ref")
        self.errors = rescoring.hypothesis_errors(self.nbest, self.references)
        self.words = np.array([len(said) for said in self.references])


def main():
    """Rescores the test lists with every run and writes the page."""
    directory = Path(flags.FLAGS.nbest)
    made = next((name for name in ORIGINS if (directory / name).exists()), None)
    if made is None:
        raise FileNotFoundError(f"{directory} has none of {', '.join(ORIGINS)}")
    valid, test = (
        Lists(directory, split, flags.FLAGS.hypotheses) for split in ("valid", "test")
    )
    zeros = [np.zeros(len(of.nbest.sentences)) for of in (valid, test)]
    grid = rescoring.GRID | {"arpa_weight": (0.0,)}
    systems = {BIGRAM: rescored(valid, test, zeros, grid | {"lm_weight": (0.0,)})}
    program.load_tensorflow()
    for run in flags.FLAGS.runs:
        for name, lm, facts in scored(run, valid, test):
            systems[name] = rescored(valid, test, lm, grid) | facts
            print(f"{name}: {systems[name]['errors'].sum() / test.words.sum():.2%}", flush=True)
    from tfsoftmax.support.hardware import hardware

    settings = json.loads((directory / made).read_text(encoding="utf-8"))
    blocks = report(test, valid, systems, ORIGINS[made], settings, hardware())
    markdown.write(RESULTS / ORIGINS[made].folder / "README.md", *blocks)


def scored(run, valid, test):
    """Yields name, [lm of valid, lm of test] and facts of a run for each way to score."""
    from tfsoftmax.lm.scoring import Scorer
    from tfsoftmax.runs import runs

    model, vocabulary, _ = runs.load(run, BATCH)
    tests = [m for m in runs.Run(run).metrics() if m["event"] == "test" and m["split"] == "test"]
    perplexity = tests[-1]["perplexity"] if tests else None
    ways = [("exact", "sentence"), ("exact", "carried")]
    if model.get_layer("head").self_normalised:
        ways.append(("constant", "sentence"))
    for normalisation, state in ways:
        scorer = Scorer(model, vocabulary, normalisation)
        scorer.sentences([[]])
        start = time.perf_counter()
        lm = [rescoring.lm_scores(scorer, of.nbest.sentences, state) for of in (valid, test)]
        rate = sum(map(len, lm)) / (time.perf_counter() - start)
        facts = {"perplexity": perplexity if normalisation == "exact" else None, "rate": rate,
                 "vocab_size": len(vocabulary),
                 "alone": test.errors[test.nbest.best(lm[1][:, None])[:, 0]].sum()}
        notes = ", constant normaliser" * (normalisation == "constant")
        notes += ", carried state" * (state == "carried")
        yield Path(run).name + notes, lm, facts


def rescored(valid, test, lm, grid):
    """The tuned weights, and the errors (U, 3) of the test lists with them."""
    of_valid, of_test = (rescoring.features(of.nbest, s) for of, s in zip((valid, test), lm))
    weights, _ = rescoring.tune(valid.nbest, of_valid, valid.errors, grid)
    chosen = rescoring.choose(test.nbest, of_test, weights)
    said = [test.nbest.sentences[i] for i in chosen]
    return {"weights": weights, "errors": word_errors(test.references, said)}


def report(test, valid, systems, origin, settings, hardware):
    """The blocks of the page.

    Args:
        test, valid: `Lists`.
        systems: {name: what `rescored` returns, and the facts of `scored`}.
        origin: `Origin` of the lists.
        settings: {setting: value} with which the lists were made.
        hardware: the hardware, in words.
    """
    sizes = [f"{len(of.references):,} utterances with {len(of.nbest.sentences):,} hypotheses and "
             f"{of.words.sum():,} words" for of in (valid, test)]
    made_with = ", ".join(
        f"{name} {' '.join(value) if isinstance(value, list) else value}"
        for name, value in settings.items()
    )
    pairs = [
        [f"{one} − {other}", interval(systems[one]["errors"], systems[other]["errors"], test)]
        for one, other in itertools.combinations(sorted(systems, key=BIGRAM.__eq__), 2)
    ]
    return [
        f"# {origin.title}",
        origin.statement,
        f"- Settings of the lists: {made_with}\n"
        f"- The weights were tuned on {sizes[0]}; the errors are those of {sizes[1]}\n"
        f"- Hardware: {hardware}, shared with other work",
        "WER and its parts are in per cent, differences in points, with 95 % bootstrap intervals "
        "paired over utterances. *LM alone* is the WER if neither the acoustic scores nor the "
        "bigram model count, as in the thesis. With a *carried state* the hypotheses are one text, "
        "which the model reads in 128 streams (section 5.3.3.1 of the thesis); else each is scored "
        "by itself. Hypotheses per second are those of both lists; a "
        "beginning that hypotheses share is scored once. Perplexities compare within a column "
        "only, since models of different vocabularies predict different words.",
        table(test, systems),
        "Differences between the systems. The thesis could not say whether its own were more than "
        "chance:",
        markdown.table([["WER", "points"], *pairs]),
        "Table 5.3 of the thesis (other data: a commercial recogniser's lists of financial speech, "
        "LM alone):",
        markdown.table([["", "test perplexity", "WER"], *([str(c) for c in r] for r in THESIS)]),
        "Written by `python -m experiments.measurements.rescoring`.",
    ]


def table(test, systems):
    """The table of all systems, with a column of perplexities for each vocabulary."""
    first = word_errors(
        test.references, [test.nbest.sentences[i] for i in test.nbest.starts[:-1]]
    )
    best = rescoring.oracle(test.nbest, test.errors)
    least = word_errors(test.references, [test.nbest.sentences[i] for i in best])
    sizes = sorted({s["vocab_size"] for s in systems.values() if "vocab_size" in s})
    return markdown.table([
        ["", *(f"test perplexity, V = {size:,}" for size in sizes), "WER", "sub", "del", "ins",
         "WER − 1-best", "LM alone", "weights: lm, bigram, word penalty", "hypotheses/s"],
        row("1-best of the lists", test, sizes, errors=first),
        *(row(name, test, sizes, first, **system) for name, system in systems.items()),
        row("oracle", test, sizes, first, errors=least),
    ])


def row(name, test, sizes, first=None, *, errors, weights=None, perplexity=None,
        vocab_size=None, alone=None, rate=None):
    """The cells of a row of the table."""
    words = test.words.sum()
    rates = [errors.sum() / words, *(errors.sum(axis=0) / words)]
    return [
        name,
        *("–" if perplexity is None or size != vocab_size else f"{perplexity:,.2f}"
          for size in sizes),
        *(f"{100 * rate:.2f}" for rate in rates),
        "–" if first is None else interval(errors, first, test),
        "–" if alone is None else f"{100 * alone / words:.2f}",
        "–" if weights is None else
        f"{weights.lm_weight:g}, {weights.old_lm_weight:g}, {weights.word_penalty:g}",
        "–" if rate is None else f"{rate:,.0f}",
    ]


def interval(errors, other, test):
    """The difference of two systems with its interval, as text."""
    result = bootstrap(errors.sum(axis=1), other.sum(axis=1), test.words)
    points = [f"{100 * x:+.2f}" for x in (result.difference, result.low, result.high)]
    return f"{points[0]} [{points[1]}, {points[2]}]"


if __name__ == "__main__":
    flags.DEFINE_string("nbest", None, "Directory that a program of experiments/inputs wrote.",
                        required=True)
    flags.DEFINE_integer("hypotheses", None, "The most hypotheses of an utterance. None: all.")
    flags.DEFINE_list("runs", None, "Directories of training runs.", required=True)
    program.run(main, __doc__, sys.argv)

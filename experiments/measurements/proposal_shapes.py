"""Draws proposal distributions over the rank of the words (Müller 2017, figures 5.7 and 5.8).

    python -m experiments.measurements.proposal_shapes --data=data/million
    python -m experiments.measurements.proposal_shapes --vocab_size=44370

The first panel has the unigram, the log-uniform and the uniform distribution. The others have the
two ways to draw rare words more often: distortion, q(w) proportional to count(w)^alpha, and
interpolation, q(w) = λ unigram(w) + (1 - λ) / V. The curves are what the samplers say of
themselves, `log_q`. Counts are those of a prepared corpus, or follow Zipf's law without --data.
Writes experiments/results/proposal_shapes/README.md.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown, pictures
from tfsoftmax.commands import program
from tfsoftmax.support.arguments import check_at_least

FREQUENT = 100
PANELS = {  # title: {label: (sampler, options)}
    "proposal distributions (figure 5.7)": {
        "unigram": ("unigram", {}), "log-uniform": ("log_uniform", {}), "uniform": ("uniform", {}),
    },
    "distorted unigram (5.8, left)": {
        f"alpha = {alpha:g}": ("unigram", {"alpha": alpha}) for alpha in (1.0, 0.75, 0.4, 0.0)
    },
    "interpolated with uniform (5.8, right)": {
        f"λ = {weight:g}": ("interpolated", {"unigram_weight": weight})
        for weight in (1.0, 0.95, 0.8, 0.0)
    },
}


def probabilities(counts):
    """{panel: {label: q of the words by rank, (V,)}} for counts (V,) in any order."""
    from tfsoftmax.samplers import get_sampler

    falling, ranks = np.sort(counts)[::-1], np.arange(len(counts))

    def q_of(sampler, options):
        log_q = get_sampler(sampler, len(falling), falling, **options).log_q(ranks)
        return np.exp(np.asarray(log_q, np.float64))

    return {
        panel: {label: q_of(*made) for label, made in curves.items()}
        for panel, curves in PANELS.items()
    }


def table(panels):
    """How often each distribution draws the likeliest word, frequent words and rare words."""
    rows = [["proposal", "the most frequent word", f"the {FREQUENT} most frequent words",
             "the rarest half of the words", "the rarest word"]]
    for curves in panels.values():
        for label, q in curves.items():
            shares = q[0], q[:FREQUENT].sum(), q[len(q) // 2 :].sum(), q[-1]
            rows.append([label, *(f"{100 * share:.3g} %" for share in shares)])
    return markdown.table(rows)


def draw(panels, note):
    """The picture: a panel for each group of distributions."""
    figure = pictures.new(12, 4.6, "How likely each word is to be drawn, by its rank", note)
    for axes, (title, curves) in zip(figure.subplots(1, 3, sharey=True), panels.items()):
        for (label, q), colour in zip(curves.items(), pictures.COLOURS):
            axes.plot(np.arange(1, len(q) + 1), q, label=label, color=colour, linewidth=1.5)
        axes.set(xscale="log", yscale="log", xlabel="rank of the word")
        pictures.frame(axes, title=title, legend={"loc": "lower left"})
    figure.axes[0].set_ylabel("q(w)")
    return figure


def main():
    """Writes the page."""
    program.load_tensorflow()
    from tfsoftmax.corpora.records import Corpus

    options = flags.FLAGS
    if options.data:
        corpus = Corpus.load(options.data)
        counts = np.asarray(corpus.vocabulary.counts, np.float64)
        note = f"counts of the training split of a corpus, {corpus.name}, V = {len(counts):,}"
    else:
        check_at_least(2 * FREQUENT, vocab_size=options.vocab_size)
        counts = 1 / np.arange(1, options.vocab_size + 1)
        note = f"counts by Zipf's law, V = {len(counts):,}"
    panels, folder = probabilities(counts), Path(options.results)
    page = markdown.write(
        folder / "README.md", "# Proposal distributions (Müller 2017, figures 5.7 and 5.8)",
        __doc__.partition("\n\n")[2].strip("\n"), note[0].upper() + note[1:] + ".",
        pictures.shown(
            lambda: draw(panels, note), folder / "proposals.png",
            "Probability of a word in a proposal distribution, by its rank. Distortion takes mass "
            "from the frequent words and changes the whole curve. Interpolation raises the tail "
            "to a constant and hardly changes the rest."
        ),
        "How much of a sample falls on some words:", table(panels),
    )
    print(page)


if __name__ == "__main__":
    flags.DEFINE_string("data", "", "Directory of a prepared corpus, whose counts are taken.")
    flags.DEFINE_integer("vocab_size", 44_370, "Without --data: number of words V.")
    flags.DEFINE_string("results", "experiments/results/proposal_shapes", "Directory of the page.")
    program.run(main, __doc__, sys.argv)

"""Summarises test texts with trained models and reports ROUGE with its uncertainty.

    python -m experiments.run summaries --data=data/pairs
    python -m experiments.measurements.rouge_scores --data=data/pairs --runs=runs/summaries

Each finished run in RUNS summarises the test split by a beam of 5 with at most 30 words, and copies
the word of most attention for an unknown word. Beside them stand two ways for which nothing was
trained: the first words of the source, as many as a title has on average, and the title of the
training pair whose source is the most similar by TF-IDF. Writes
experiments/results/summaries/rouge.md, with examples.
"""

import itertools
import statistics
import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown, seeds
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/summaries/rouge.md")
TYPES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
EXAMPLES = 6
# Tables 5 and 4: F1 on Gigaword, and recall at 75 bytes on DUC-2004.
PAPER = {
    "full": ((33.54, 15.49, 31.52), (27.77, 9.01, 24.36)),
    "self_organised": ((34.07, 16.00, 31.95), (29.20, 9.62, 25.65)),
}


def main():
    from experiments.inputs.title_baselines import NearestTitles, first_words
    from tfsoftmax.pairs.corpus import PairCorpus
    from tfsoftmax.pairs.texts import texts

    corpus = PairCorpus.load(flags.FLAGS.data)
    train, test = list(texts(corpus, "train")), list(texts(corpus, "test"))
    sources, references = zip(*test)
    length = round(statistics.mean(len(titles[0].split()) for _, titles in train))
    nearest = NearestTitles([source for source, _ in train], [titles[0] for _, titles in train])
    systems = {
        f"first {length} words": (None, first_words(sources, length)),
        "title of the nearest source": (None, nearest.titles(sources)),
        **{seeds.group(path.name): written(path, sources) for path in finished_runs()},
    }
    write_page(corpus, systems, sources, references)


def finished_runs():
    """The folders of the runs that have ended their training, full softmax first."""
    from tfsoftmax.runs.runs import Run

    folders = sorted(Path(flags.FLAGS.runs).iterdir(), key=lambda p: (p.name[:4] != "full", p))
    found = [path for path in folders if any(
        event["event"] == "finished" for event in Run(str(path)).metrics()
    )]
    if not found:
        raise ValueError(f"`runs` must have finished runs. Received: {flags.FLAGS.runs!r}")
    return found


def written(path, sources):
    """The test perplexity of a run, or None, and its summaries."""
    from tqdm import tqdm

    from tfsoftmax.pairs.summaries import Summariser
    from tfsoftmax.pairs.task import PAIRS
    from tfsoftmax.runs import runs

    model, vocabulary, config = runs.load(str(path), None, task=PAIRS)
    words = [source.split() for source in sources]
    found = Summariser(model, vocabulary, config["corpus"]["max_source"]).stream(words)
    found = tqdm(found, total=len(words), desc=path.name, leave=False, disable=None)
    summaries = [
        " ".join(best[0].copied(source)) if best else "" for source, best in zip(words, found)
    ]
    tests = [e["perplexity"] for e in runs.Run(str(path)).metrics() if e["event"] == "test"]
    return (tests[-1] if tests else None), summaries


def write_page(corpus, systems, sources, references):
    """Writes the scores of all systems, and some of their summaries."""
    from tfsoftmax.pairs.rouge import DUC_BYTES, rouge

    def table(paper, **options):
        rows = [["", "test perplexity", *TYPES.values(), *(f"{n}, paper" for n in TYPES.values())]]
        for name, (perplexity, summaries) in systems.items():
            scores = rouge(summaries, references, **options)
            rows.append([
                name, f"{perplexity:.2f}" if perplexity else "–",
                *(f"{s.value:.2f} ({s.low:.2f} to {s.high:.2f})" for s in scores.values()),
                *(f"{value:.2f}" for value in PAPER.get(name, ((), ()))[paper] or ()),
                *["–"] * (0 if name in PAPER else len(TYPES)),
            ])
        return markdown.table(rows)

    step = max(1, len(sources) // EXAMPLES)
    shown = itertools.islice(range(step // 2, len(sources), step), EXAMPLES)
    examples = [
        markdown.table([["", f"source: {sources[i]}"], ["reference", references[i][0]],
                        *([name, summaries[i]] for name, (_, summaries) in systems.items())], 2)
        for i in shown
    ]
    text = markdown.write(
        RESULTS, "# ROUGE of summaries", __doc__.partition("\n\n")[2].partition("\n\n")[2].strip(),
        f"- Corpus: {corpus.name}, {len(sources):,} test pairs, vocabulary "
        f"{len(corpus.vocabulary):,}",
        "Intervals hold 95 % of 10,000 resamples of the pairs. The paper's values are of Gigaword "
        "and DUC-2004, and are not to be compared with ours; their order is.",
        "## F1, as table 5", table(0),
        f"## Recall at {DUC_BYTES} bytes, as table 4", table(1, measure="recall",
                                                            max_bytes=DUC_BYTES),
        "## Examples, as figure 2", *examples,
        "Written by `python -m experiments.measurements.rouge_scores`.",
    )
    print(text)


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of the prepared pairs.", required=True)
    flags.DEFINE_string("runs", "runs/summaries", "Directory of the runs.")
    program.run(main, __doc__, sys.argv)

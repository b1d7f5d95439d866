"""Writes the page of all tables and figures of the five papers, with a verdict on each.

    python -m experiments.papers

The page is experiments/results/papers.md. Verdicts on tables of perplexities follow from the
results of their experiments (results/NAME/results.json), the others are words of `ROWS`.
"""

import itertools
import json
import re
import statistics
from pathlib import Path

from experiments import markdown, seeds

RESULTS = Path(__file__).parent / "results"
NEAR = 0.03  # how far our ratio to full softmax may lie from the paper's
TIED = 0.01  # perplexities no further apart have no order: most of ours are of one seed

PAPERS = {
    "000": "Jiang et al. 2017, exploration of tree-based hierarchical softmax (poster)",
    "001": "Müller 2017, alternatives to softmax for large vocabularies (thesis)",
    "002": "Mao 2019, hierarchical softmax (blog)",
    "003": "Shen et al. 2017, self-organised hierarchical softmax",
    "004": "Shmuma 2017, two-level softmax (readme)",
}
INTRODUCTION = """\
Each table and figure of the papers that this toolkit reproduces, where to find our counterpart, and
what came of it. "Million words" is a corpus of Penn Treebank's size made of English novels,
"novels" their whole. Perplexities of different corpora cannot be compared. A verdict therefore asks
whether the methods come in the paper's order, where two of them are more than 1 % apart in both,
and whether each ratio to full softmax lies within 3 % of the paper's. "Open" means that the
experiment exists and its command has not been run to its end, or that it has still to be written.\
"""

FDT = "cannot be done here: the FDT corpus is not public"
GPU = "needs a GPU, which the machine of these results had not"


def from_experiment(name, *runs):
    """The mark of a row whose verdict follows from the results of an experiment, or some runs."""
    def said(results):
        rows = _rows_of(results / name / "results.json")
        return verdict([row for row in rows if not runs or row[0] in runs])

    return said


# paper: (number, what it shows, our counterpart, verdict)
ROWS = {
    "000": [
        ("table of corpora", "size and OOV of PTB, WikiText-2 and WikiText-103",
         "`tfsoftmax prepare --corpus=ptb` prints ours", "open: no network where we measured"),
        ("figure, three modules", "time of embedding, recurrence and softmax by cell",
         "[poster](poster/README.md), V = 10,000 and 267,735",
         "softmax takes more than 99 % of the time at V = 267,735 with RNN, LSTM and GRU alike, "
         "and 88 to 93 % at V = 10,000, on two cores that were shared with other work"),
        ("figure, scalability", "cHSM, tHSM and p-tHSM by size of the vocabulary",
         "[every head by vocabulary](benchmarks/README.md)",
         "p-tHSM takes 0.39 to 0.49 of tHSM's gradients and 0.34 to 0.43 of its step, and hardly "
         "depends on V, as in the poster; on the CPU cHSM grows faster with V than either"),
        ("table of speed", "memory, total and forward ms of softmax, cHSM, tHSM and p-tHSM",
         "[poster](poster/README.md), V = 10,000 and 267,735",
         "forward: same order; total, on CPUs at V = 267,735: p-tHSM is the fastest, too, but "
         "p-tHSM, cHSM and tHSM take 0.004, 0.034 and 0.010 of softmax (poster 0.75, 0.99 and "
         "1.97, with a batch and an optimiser that it does not name). Of the poster's formula, a "
         "position takes 0.48 with p-tHSM and 0.21 with cHSM, and 68 times as much with tHSM. "
         f"GPU columns: {GPU}"),
        ("table of clusterings", "p-tHSM with random, alphabetical, Huffman and Brown clusters",
         "[jiang](jiang/README.md), million words, to convergence",
         from_experiment("jiang", "full", "tree-random", "tree-alphabetical", "tree-huffman",
                         "tree-brown")),
        ("", "why our Huffman tree gains so little", "[huffman](huffman/README.md), one seed",
         "neither ties nor biases: with other ties, or without biases, its test perplexity changes "
         "by at most 0.2 %, and that of a random tree without biases is the same. "
         "Batches and epochs are not the reason either: with those of the authors' code "
         "(small_batches) a random tree is as good as Huffman's"),
        ("", "the same with the authors' batches and epochs",
         "[small_batches](small_batches/README.md)", from_experiment("small_batches")),
        ("table of perplexities", "softmax, NCE, BlackOut, cHSM and p-tHSM with a GRU",
         "[jiang](jiang/README.md), million words, to convergence",
         from_experiment("jiang", "full", "nce", "blackout", "class", "tree-huffman",
                         "tree-brown")),
    ],
    "001": [
        ("chapter 2", "the survey of methods, by method",
         "[field](field/README.md) and the map of the field", "no values in the thesis"),
        ("table 3.1", "samplers of TensorFlow", "`tfsoftmax.samplers`",
         "all of them, with expected counts that are tested"),
        ("tables 4.1 to 4.4", "Text8 and FDT", "`tfsoftmax prepare --corpus=text8`",
         f"Text8 needs a network; FDT {FDT}"),
        ("table 4.5", "hyperparameters", "presets text8 and fdt of `tfsoftmax train`", "the same"),
        ("figure 5.1", "speed by shortlist and number of tails",
         "[shortlists](benchmarks/README.md#shortlists-and-cutoffs-muller-2017-figure-51)",
         "same: the fastest shortlist with one tail has 2 to 5 % of the words at V = 44,370 and "
         "2 to 4 % at 200,606 (thesis 5 % and 3 %), and each further tail gains less"),
        ("figure 5.2", "expected cost by shortlist", "[cutoff_costs](cutoff_costs/README.md)",
         "the same curves"),
        ("figure 5.3", "speed by projection factor",
         "[projection factor](benchmarks/README.md#projection-factor-figure-53)", "same at "
         "V = 44,370, where a factor of 8 gains 5 % on 4; at 200,606 it gains 18 %"),
        ("figure 5.4", "perplexity and speed by shortlist",
         "[shortlists](shortlists/README.md), million words", "open"),
        ("figure 5.5", "projection factor by dropout", "[projections](projections/README.md)",
         "open"),
        ("table 5.1", "number of tails, FDT", "[shortlists](shortlists/README.md), million words",
         from_experiment("shortlists")),
        ("figure 5.6", "NCE's Z", "[proposals](proposals/README.md)", "open"),
        ("figures 5.7, 5.8", "proposal distributions",
         "[proposal_shapes](proposal_shapes/README.md), million words",
         "drawn from the probabilities that the samplers state, which a test compares with the "
         "equations"),
        ("figure 5.9", "distortion of the unigram", "[proposals](proposals/README.md)", "open"),
        ("figure 5.10", "interpolation with uniform", "[proposals](proposals/README.md)", "open"),
        ("figure 5.11", "number of samples, Text8",
         "[speed](benchmarks/README.md#number-of-samples-figure-511), "
         "[perplexity](proposals/README.md)", "open for perplexity"),
        ("figure 5.12", "number of samples, FDT", "", FDT),
        ("figures 5.13, 5.14", "parameters and memory", "[step_memory](step_memory/README.md)",
         "same order: adaptive softmax has the fewest parameters, and needs less memory than "
         "sampling in all (0.81 at V = 44,370, 0.73 at 200,606; the thesis: half)"),
        ("figure 5.15", "speed by vocabulary, FDT",
         "[every head by vocabulary](benchmarks/README.md), labels by Zipf's law",
         f"on a CPU; the corpus {FDT}"),
        ("figure 5.16, table 5.2a", "full, adaptive, importance sampling, NCE on Text8",
         "[methods](methods/README.md), million words, to convergence", from_experiment("methods")),
        ("", "the fast methods on fourteen million words", "[novels](novels/README.md)", "open"),
        ("figures 5.17, 5.18, table 5.2b", "the same on FDT", "", FDT),
        ("table 5.3", "word errors after rescoring", "[rescoring](rescoring/README.md)",
         "same finding: adaptive softmax and importance sampling do not differ, on lists that are "
         "not a recogniser's. Nor does it matter whether the state is carried from one hypothesis "
         "to the next, as in the thesis, or each is scored by itself"),
        ("figure 5.19", "BasicLSTM and cuDNN converge alike", "`tests/test_recurrent.py`", GPU),
        ("table 5.4", "BasicLSTM and cuDNN, Adagrad and SGD",
         "[backends](benchmarks/README.md#recurrent-layers-by-backend-table-54)",
         f"cuDNN's rows: {GPU}"),
    ],
    "002": [
        ("figures good and bad tree", "the tree decides the quality",
         "[jiang](jiang/README.md): random against Brown",
         from_experiment("jiang", "tree-random", "tree-brown")),
    ],
    "003": [
        ("table 1", "perplexity on Text8 after 5 epochs",
         "[shen](shen/README.md), million words; [hierarchical](hierarchical/README.md) after a "
         "quarter of an epoch of the novels", from_experiment("shen")),
        ("table 2", "training time", "[shen speed](shen/speed/README.md), 10,000 words, half the "
         "units; [hierarchical speed](hierarchical/speed/README.md)",
         "same finding: a step of self-organised takes 0.36 of full softmax's (paper 0.26, on a "
         "GPU with 44,370 words)"),
        ("table 3", "words of learned clusters", "`tfsoftmax show_clusters`, "
         "[clusters](hierarchical/clusters.txt)", "clusters of grammar and meaning, as there"),
        ("figure 1", "perplexity, cluster and in-cluster perplexity, words that change",
         "[shen](shen/README.md), whose report draws all five",
         "same finding: perplexity and cluster perplexity fall together, and fewer and fewer words "
         "change their cluster"),
        ("tables 4, 5, figure 2", "summarisation: ROUGE, examples",
         "[ROUGE](summaries/rouge.md), [perplexity](summaries/README.md) on 20,953 pairs from "
         "docstrings, one seed",
         "not comparable: with so few pairs no model reaches the first nine words of the source. "
         "Self-organised and full softmax do not differ in ROUGE-1 (14.8 and 14.7, each within "
         "0.8; paper 34.1 and 33.5), though its perplexity is 1.19 of full's"),
        ("table 6", "summarisation: training time",
         "[speed](summaries/speed/README.md), 69,000 words, a quarter of the units, two cores",
         "same order: a step of self-organised takes 0.12 of full softmax's (paper 0.30)"),
    ],
    "004": [
        ("speed, 5 times", "sampled softmax", "[shmuma speed](shmuma/speed/README.md), 65,000 "
         "words; [other vocabularies](benchmarks/README.md)",
         "same order: 12 times as fast as full softmax on two cores"),
        ("speed, 3 and 11 times", "two-level softmax", "[shmuma](shmuma/speed/README.md); "
         "[other vocabularies](benchmarks/README.md)",
         "same order: 4.8 times as fast as full softmax; batches that are 30 times as large, for "
         "which the paper has 11, were not measured"),
        ("no speed-up", "balanced binary tree",
         "[tHSM](benchmarks/README.md), `TreeSoftmax(mode=\"sequential\")`; "
         "[shmuma](shmuma/speed/README.md)",
         "differs: 16 times as fast as full softmax with 65,000 words"),
    ],
}


def verdict(rows):
    """What the results of an experiment say about the paper's table.

    Args:
        rows: list of (name, our perplexities, the paper's perplexity); ours are empty for a run
            that has not finished.

    Returns:
        Whether the order of the methods is the same, where two are more than 1 % apart, and which
        ratios to full softmax, if it is among them, lie within 3 % of the paper's.
    """
    has_full = any(_is_full(name) for name, _, _ in rows)
    rows = [(name, statistics.mean(ours), paper) for name, ours, paper in rows if ours]
    if len(rows) < 2:
        return "open"
    swapped = [
        f"{a} and {b}"
        for (a, ours_a, paper_a), (b, ours_b, paper_b) in itertools.combinations(rows, 2)
        if (ours_a - ours_b) * (paper_a - paper_b) < 0
        and abs(ours_a / ours_b - 1) > TIED and abs(paper_a / paper_b - 1) > TIED
    ]
    level = [
        f"{a} and {b}" for (a, ours_a, paper_a), (b, ours_b, paper_b)
        in itertools.combinations(rows, 2)
        if abs(ours_a / ours_b - 1) <= TIED < abs(paper_a / paper_b - 1)
    ]
    said = "same order" if not swapped else f"order differs in {', '.join(swapped)}"
    if level:
        said += f"; here there is no difference between {', '.join(level)}"
    base = next((row for row in rows if _is_full(row[0])), None)
    if base is None:
        return said + "; full softmax is still open" * has_full
    ratios = {name: (ours / base[1], paper / base[2]) for name, ours, paper in rows}
    far = [
        f"{name} {ours:.2f} (paper {paper:.2f})" for name, (ours, paper) in ratios.items()
        if abs(ours - paper) > NEAR
    ]
    return f"{said}; ratios to full softmax " + (
        f"differ for {', '.join(far)}" if far else "within 3 %"
    )


def _is_full(name):
    return name.partition("-")[0] == "full"


def _rows_of(path):
    """(name, our test or validation perplexities by seed, the paper's) of an experiment."""
    if not path.exists():
        return []
    found = {}
    for run in json.loads(path.read_text(encoding="utf-8")):
        measure = "test_perplexity" if "test_perplexity" in run["paper"] else "perplexity"
        if measure in run["paper"]:
            name = seeds.group(run["name"])
            ours = found.setdefault(name, (name, [], run["paper"][measure]))[1]
            if run["state"] == "finished" and run.get(measure):
                ours.append(run[measure])
    return list(found.values())


def _linked(text, results):
    """The text, without links to pages that are still to be written."""
    def checked(link):
        there = (results / link[2].partition("#")[0]).exists()
        name = link[2].partition("/")[0]
        return link[0] if there else f"{link[1]}: `python -m experiments.run {name}`"

    return re.sub(r"\[([^]]+)\]\(([^)]+)\)", checked, text)


def page(results=RESULTS):
    """The page, as Markdown."""
    blocks = ["# The papers' tables and figures", INTRODUCTION]
    for paper, rows in ROWS.items():
        table = [["", "what it shows", "ours", "verdict"]]
        for number, what, ours, said in rows:
            said = said(results) if callable(said) else said
            table.append([number, what, *(_linked(text, results) or "–" for text in (ours, said))])
        blocks += [f"## {paper}: {PAPERS[paper]}", markdown.table(table, text_columns=4)]
    return [*blocks, "Written by `python -m experiments.papers`."]


if __name__ == "__main__":
    print(markdown.write(RESULTS / "papers.md", *page()))

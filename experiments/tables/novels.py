"""Adaptive and sampled softmax, NCE and a Brown tree on fourteen million words.

Reproduces: Müller 2017, table 5.2a (section 5.3.2), without full softmax, which would take most of
the time, and with p-tHSM on Brown clusters in addition. The corpus is as large as Text8 and has the
same number of types, 44,370; that of `methods` has a million words and 10,000 types. Runs end after
two epochs, those whose names end in "converged" after two epochs that gain less than half a unit of
perplexity. Departures: a dropout of 25 % instead of 40 %; 128 units instead of 512; a learning rate
of 0.5 and a clipping norm of 5, as in `methods`. The cutoffs follow section 5.1.2.2: the shortlist
holds 9 % of the words, and the last tail holds half of them.

Commands, for fourteen million words with one sentence on each line:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=44370 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/novels
    tfsoftmax cluster --data=data/novels --classes=1000 --out=data/novels/brown.paths
    python -m experiments.run novels --data=data/novels

Hardware and hours: runs share one or two cores with other work. On two, adaptive-converged took two
hours. results/benchmarks compares speeds.
"""

import dataclasses

from experiments.framework.seeds import seeded
from experiments.tables import million
from experiments.tables.methods import PAPER

CUTOFFS = [4000, 22000]
HEADS = {
    "adaptive": ("adaptive", {"cutoffs": CUTOFFS, "projection_factor": 2}),
    "adaptive-whole": ("adaptive", {"cutoffs": CUTOFFS, "projection_factor": None}),
    "sampled": ("sampled", {}),
    "nce": ("nce", {}),
    "tree-brown": ("tree", {"tree": "{data}/brown.paths"}),
}
TWO_EPOCHS = {"epochs": 2, **million.LARGE_STEPS}
CONVERGED = {
    "epochs": 30, "patience": 2, "min_delta": 0.5, "decay_when": 1.0, **million.LARGE_STEPS
}


def _run(head, training, ending=""):
    paper = {"perplexity": PAPER[head]} if head in PAPER else {}
    run = million.run(head + ending, *HEADS[head], paper)
    scale = "a quarter of the paper's units" + ", two epochs" * (not ending)
    return dataclasses.replace(run, training=training, scale=scale)


RUNS = seeded([
    *(_run(head, TWO_EPOCHS) for head in HEADS),
    *(_run(head, CONVERGED, "-converged") for head in HEADS if head in PAPER),
], (1,))

"""Adaptive and sampled softmax, NCE and a Brown tree on fourteen million words, for two epochs.

Reproduces: Müller 2017, table 5.2a (section 5.3.2), without full softmax, which would take most of
the time, and with p-tHSM on Brown clusters in addition. The corpus is as large as Text8 and has the
same number of types, 44,370; that of `methods` has a million words and 10,000 types. Departures:
two epochs instead of training to convergence; a dropout of 25 % instead of 40 %; 128 units instead
of 512; a learning rate of 0.5 and a clipping norm of 5, as in `methods`. The cutoffs follow section
5.1.2.2: the shortlist holds 9 % of the words, and the last tail holds half of them.

Commands, for fourteen million words with one sentence on each line:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=44370 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/novels
    tfsoftmax cluster --data=data/novels --classes=1000 --out=data/novels/brown.paths
    python -m experiments.run novels --data=data/novels

Hardware and hours: each run has one core and shares it with other work. results/benchmarks compares
speeds.
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


def _run(name, head, options):
    paper = {"perplexity": PAPER[name]} if name in PAPER else {}
    run = million.run(name, head, options, paper)
    training = {"epochs": 2, **million.LARGE_STEPS}
    scale = "a quarter of the paper's units, two epochs"
    return dataclasses.replace(run, training=training, scale=scale)


RUNS = seeded([_run(name, head, options) for name, (head, options) in HEADS.items()], (1,))

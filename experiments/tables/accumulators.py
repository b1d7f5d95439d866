"""Adagrad with an accumulator for each weight and for each row, at convergence.

Reproduces: no table. It asks whether the perplexity with `--accumulator=row`, which keeps one
number for each row of a matrix (Gupta, Bengio, Weston 2014), stays within half a per cent of that
with an accumulator for each weight, at the same learning rate. Otherwise the runs are those of
`methods`. results/benchmarks compares the time of the updates.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run accumulators --data=data/million

Hardware and hours: each run has one core, which it shares with other work, and takes 20 to 40
minutes.
"""

from experiments.framework.seeds import seeded
from experiments.tables.million import CUTOFFS, run

HEADS = {"adaptive": {"cutoffs": CUTOFFS, "projection_factor": 2}, "sampled": {}}


RUNS = seeded([
    run(f"{head}-{kind}", head, options, accumulator=kind)
    for head, options in HEADS.items() for kind in ("element", "row")
], (1, 2))

"""Adaptive softmax in float32 and in bfloat16, at convergence.

Reproduces: no table. It asks whether the perplexity of a model whose layers compute in bfloat16
(`--precision=mixed_bfloat16`, variables in float32) stays within half a per cent of that in
float32. Otherwise the runs are those of `methods`. The benchmark of whole models
(results/benchmarks) compares the speeds.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run precision --data=data/million

Hardware and hours: each run has one core and shares it with other work. results/benchmarks compares
speeds.
"""

import dataclasses

from experiments.framework.seeds import seeded
from experiments.tables.million import CUTOFFS, run


def _run(precision):
    options = {"cutoffs": CUTOFFS, "projection_factor": 2}
    own = run(f"adaptive-{precision}", "adaptive", options)
    return dataclasses.replace(own, model={**own.model, "precision": precision})


RUNS = seeded([_run("float32"), _run("mixed_bfloat16")], (1,))

"""Adaptive softmax by projection factor, dropout and biases, at convergence.

Reproduces: Müller 2017, figure 5.5 (section 5.1.2.2), the effect of projections before the tails at
several rates of dropout, which the thesis shows as a plot. Departures: those of `methods`. Runs
named `biases` have a bias for each word and each tail; the thesis and Grave et al. have none.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run projections --data=data/million

Hardware and hours: each run has one core and shares it with other work. results/benchmarks compares
speeds.
"""

from experiments.framework.panels import Panel
from experiments.framework.seeds import seeded_where_close
from experiments.tables.million import CUTOFFS, run

DROPOUTS = (0.25, 0.4, 0.5)
FACTORS = {"whole": None, "factor1": 1, "factor2": 2, "factor4": 4, "factor8": 8}


def _run(factor, dropout, **options):
    name = f"{factor}-dropout{dropout}" + "-biases" * bool(options)
    options = {"cutoffs": CUTOFFS, "projection_factor": FACTORS[factor], **options}
    return run(name, "adaptive", options, dropout=dropout)


CLOSE = ("factor1-dropout0.25", "factor2-dropout0.25")  # near others with one seed
RUNS = seeded_where_close([
    _run("factor4", 0.25, use_bias=True),
    *(_run(factor, dropout) for dropout in DROPOUTS for factor in FACTORS),
], CLOSE)

PANELS = (
    Panel("projections before the tails, figure 5.5", "projection factor", {
        f"dropout {dropout:.0%}": {
            factor.removeprefix("factor"): f"{factor}-dropout{dropout}" for factor in FACTORS
        } for dropout in DROPOUTS
    }),
)

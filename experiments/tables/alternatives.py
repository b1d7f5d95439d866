"""Spherical and Taylor softmax against full softmax, with the optimiser's steps and their own.

Reproduces: section 2.2.4.3 of Müller 2017, which reports of de Brébisson and Vincent that the two
"fail to be competitive on language modeling benchmarks", on the corpus and with the model of
`jiang`. The optimiser's rate is that of the preset. The rates of the heads' own steps, and ε, are
the best of the few that `python -m experiments.measurements.alternatives_steps` tries for 200 steps
of a model of 64 units: the choice of a short training, not of convergence. Cubic scores (equation
2.51) have no perplexity, which decides here when training ends; their accuracy is in the table of
that program.

The heads' own rate is constant: `tfsoftmax train` decays that of the optimiser only.

Commands, with data/million as in `jiang`:

    python -m experiments.run alternatives --data=data/million

Hardware and hours: not run to convergence.
"""

from experiments.tables.jiang import run

RUNS = [
    run("full", "full"),
    run("spherical", "spherical", epsilon=0.1),
    run("spherical-exact", "spherical", epsilon=0.1, sgd_learning_rate=300.0),
    run("taylor", "taylor"),
    run("taylor-exact", "taylor", sgd_learning_rate=1000.0),
]

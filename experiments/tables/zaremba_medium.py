"""Zaremba et al. 2014: the medium LSTM on Penn Treebank, regularised by dropout.

Reproduces: the row "medium regularized LSTM" of table 1 of Zaremba, Sutskever and Vinyals 2014
("Recurrent neural network regularization"): two layers of 650 units, full softmax, a dropout of
50 % before, between and after the layers, 20 streams of 35 steps, 39 epochs of stochastic gradient
descent with the rate 1, which is divided by 1.2 after the sixth epoch and each later one, weights
that begin within 0.05, and gradients that are clipped to a norm of 5. Departure: here the layers
compute in bfloat16 (results/precision compares it with float32).

    tfsoftmax prepare --corpus=ptb --manual_dir=simple-examples --streams=20 --time_steps=35 \\
        --out=data/ptb35
    python -m experiments.run zaremba_medium --data=data/ptb35

Hardware and hours: an epoch takes three minutes of two cores with bfloat16, a run two hours.
Without bfloat16, two threads of an AMD EPYC train at 595 words/s, and a run would take 17 hours.
"""

from experiments.framework.definition import Run
from experiments.framework.seeds import seeded

RUNS = seeded([
    Run(
        name="medium",
        model={
            "cell": "lstm", "layers": 2, "embedding_units": 650, "hidden_units": 650,
            "dropout": 0.5, "init_scale": 0.05, "precision": "mixed_bfloat16",
        },
        training={
            "optimizer": "sgd", "learning_rate": 1.0, "clip_norm": 5.0, "reduce": "stream",
            "decay": 1 / 1.2, "decay_after": 6, "epochs": 39, "checkpoint_steps": 1000,
        },
        paper={"perplexity": 86.2, "test_perplexity": 82.7},
    ),
], (1,))

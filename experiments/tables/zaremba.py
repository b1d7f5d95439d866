"""Zaremba et al. 2014: the small LSTM on Penn Treebank, to test the training loop by a known value.

Reproduces: the row "non-regularized LSTM" of table 1 of Zaremba, Sutskever and Vinyals 2014
("Recurrent neural network regularization"): two layers of 200 units, full softmax, no dropout, 20
streams of 20 steps, 13 epochs of stochastic gradient descent with the rate 1, which halves after
the fourth epoch and each later one, weights that begin within 0.1, and gradients that are clipped
to a norm of 5.

    tfsoftmax prepare --corpus=ptb --manual_dir=simple-examples --streams=20 --out=data/ptb20
    python -m experiments.run zaremba --data=data/ptb20

Hardware and hours: an epoch takes about a minute of two cores with bfloat16, a run a quarter of an
hour.

The paper's values: exact perplexities of the last epoch. Ours on the validation split is the best,
and on the test split that of the same weights: without dropout the last epochs overfit.
"""

from experiments.framework.definition import Run
from experiments.framework.seeds import seeded

RUNS = seeded([
    Run(
        name="small",
        model={
            "cell": "lstm", "layers": 2, "embedding_units": 200, "hidden_units": 200,
            "dropout": 0.0, "init_scale": 0.1,
        },
        training={
            "optimizer": "sgd", "learning_rate": 1.0, "clip_norm": 5.0, "reduce": "stream",
            "decay": 0.5, "decay_after": 4, "epochs": 13, "checkpoint_steps": 2000,
        },
        paper={"perplexity": 120.7, "test_perplexity": 114.5},
    ),
], (1, 2, 3))

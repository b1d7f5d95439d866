"""Full softmax: perplexity and speed of three model sizes, the baseline of every other head.

Reproduces: no table. It trains the full softmax of Müller 2017, section 3.1, at three sizes for two
epochs of a small corpus; the experiment `methods` trains to convergence, as table 5.2a does. It
departs from the hyper-parameters for Text8 of table 4.5: there is no dropout, the learning rate is
0.5, and gradients are clipped at a norm of 5, since two epochs of a small corpus end long before
regularisation matters.

Commands:

    tfsoftmax prepare --out=data/docstrings
    python -m experiments.run full_softmax --data=data/docstrings

Hardware and hours: 0.25 hours on two CPU cores with the docstrings corpus (2, 4 and 6 minutes). The
time of a step is proportional to vocabulary times units; it is about 0.3 s for 256 units and 18,829
words.

The paper's values: 22,110 words/s and validation perplexity 129.51 after 50 epochs of Text8
(vocabulary 44,370; 16.8 M tokens) with one LSTM layer of 512 units and a dropout of 40 %, on one
NVIDIA GeForce GTX 1080. Perplexities of different corpora cannot be compared. Words per second of
different hardware can be compared only roughly.
"""

from experiments.definition import Run

PAPER = {"perplexity": 129.51, "words_per_second": 22_110}


def _run(units, share):
    return Run(
        name=f"lstm{units}",
        preset="text8",
        model={"hidden_units": units, "embedding_units": units, "dropout": 0.0},
        training={"epochs": 2, "pseudo_epochs": 8, "learning_rate": 0.5, "clip_norm": 5.0},
        paper=PAPER,
        scale=f"{share} of the paper's units, 2 of its 50 epochs",
    )


RUNS = [_run(64, "1/8"), _run(128, "1/4"), _run(256, "1/2")]

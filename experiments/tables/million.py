"""What the experiments of Müller's thesis share on a corpus of a million words."""

from experiments.framework.definition import Run

CUTOFFS = [900, 5000]  # section 5.1.2.2: a shortlist of 9 %, half of the words in the last tail
# An epoch has 376 steps, where Text8 has 6,500. With the thesis's rate of 0.2 and its bound of 0.25
# on the norm of the gradient, so few steps do not converge in fifty epochs.
LARGE_STEPS = {"learning_rate": 0.5, "clip_norm": 5.0}


def run(name, head, options=None, paper=None, dropout=0.25, **training):
    """A run of table 4.5, but for units and steps, until two epochs bring no gain.

    The rate is halved after an epoch that gains less than one unit of perplexity. A gain of less
    than 0.1 counts as none: otherwise a run goes on for many epochs that gain little.
    """
    return Run(
        name=name,
        preset="text8",
        model={
            "head": head, "head_options": options or {}, "hidden_units": 128,
            "embedding_units": 128, "dropout": dropout,
        },
        training={
            "epochs": 50, "patience": 2, "min_delta": 0.1, "decay_when": 1.0, **LARGE_STEPS,
            **training,
        },
        paper=paper or {},
        scale="a quarter of the paper's units, a million words",
    )

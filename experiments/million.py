"""What the experiments of Müller's thesis share on a corpus of a million words."""

from experiments.definition import Run

CUTOFFS = [900, 5000]  # section 5.1.2.2: a shortlist of 9 %, half of the words in the last tail
SCALE = "half the paper's units, a million words"


def run(name, head, options=None, paper=None, dropout=0.25):
    """A run of the thesis's hyperparameters (table 4.5), at convergence, on half of its units."""
    return Run(
        name=name,
        preset="text8",
        model={
            "head": head, "head_options": options or {}, "hidden_units": 256,
            "embedding_units": 256, "dropout": dropout,
        },
        training={"epochs": 50, "patience": 2},
        paper=paper or {},
        scale=SCALE,
    )

"""What the experiments of Müller's thesis share on a corpus of a million words."""

from experiments.definition import Run

CUTOFFS = [900, 5000]  # section 5.1.2.2: a shortlist of 9 %, half of the words in the last tail
# An epoch has 376 steps, where Text8 has 6,500. With the thesis's rate of 0.2 and its bound of 0.25
# on the norm of the gradient, so few steps do not converge in fifty epochs.
LARGE_STEPS = {"learning_rate": 0.5, "clip_norm": 5.0}


def run(name, head, options=None, paper=None, dropout=0.25, units=256):
    """A run of table 4.5, but for units and steps, until two epochs bring no gain."""
    share = {256: "half", 128: "a quarter of"}[units]
    return Run(
        name=name,
        preset="text8",
        model={
            "head": head, "head_options": options or {}, "hidden_units": units,
            "embedding_units": units, "dropout": dropout,
        },
        training={"epochs": 50, "patience": 2, **LARGE_STEPS},
        paper=paper or {},
        scale=f"{share} the paper's units, a million words",
    )

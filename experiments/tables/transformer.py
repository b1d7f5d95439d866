"""A causal Transformer against an LSTM with as many parameters.

Reproduces: no table. Both models have 3.75 M parameters: four blocks of 256 units, or two layers of
416. Both have the adaptive output layer of Müller 2017, section 5.1.2.2, tied to an adaptive input
as in Baevski and Auli 2019. Optimiser, dropout and batches are the same for both and were tuned for
neither. As the LSTM carries its state from batch to batch, the Transformer carries the keys and
values of the last words, so that each of its layers attends to the 64 words before a word. A batch
has 20 words of each of 128 streams.

Commands, with data/million as in `jiang`:

    python -m experiments.run transformer --data=data/million
    python -m experiments.benchmarks.run speed --experiment=transformer --data=data/million

The last command measures [training speeds](speed/README.md). They can be compared, because the two
take turns.

Hardware and hours: each run has one core and shares it with other work.
"""

from experiments.framework.definition import Run
from experiments.tables.million import CUTOFFS

HEAD = {"head": "adaptive", "head_options": {"cutoffs": CUTOFFS}, "dropout": 0.3}
TRAINING = {"epochs": 10, "patience": 2}


def _run(name, **model):
    return Run(
        name=name, preset="transformer", model={**HEAD, **model}, training=TRAINING,
        scale="a million words",
    )


RUNS = [
    _run("lstm", cell="lstm", layers=2, hidden_units=416, embedding_units=416),
    _run("transformer"),
]

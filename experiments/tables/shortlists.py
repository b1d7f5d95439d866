"""Adaptive softmax by the size of its shortlist and by its number of tails, at convergence.

Reproduces: Müller 2017, figure 5.4 (section 5.1.2.2), perplexity and speed by the size of the
shortlist with two tails, which the thesis shows as a plot; and table 5.1, perplexity by the number
of tails, which the thesis measured on FDT, a corpus that is not public. Departures: those of
`methods`; in addition, for table 5.1, the thesis trains a model of 2,048 units by SGD, without
dropout and for two epochs.

Our shortlists for figure 5.4 hold the same shares of the vocabulary as the thesis's, and half of
the vocabulary is in the last tail. The cutoffs of table 5.1 are scaled in the same way; its last
cutoff, 155,026, is the size of the vocabulary. The thesis does not name the projection factor of
either; ours have no projections. The runs with one and with four tails have two seeds, and the
others have one.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run shortlists --data=data/million
    python -m experiments.benchmarks.run speed --experiment=shortlists --data=data/million

The last command measures training speeds. They can be compared, because the heads take turns.

Hardware and hours: each run has one core and shares it with other work. results/benchmarks compares
speeds.

The paper's values: perplexity on FDT (vocabulary 155,026) after two epochs, for the runs `tails`.
Perplexities of different corpora cannot be compared, but their order can.
"""

import dataclasses

from experiments.framework.panels import Panel
from experiments.framework.seeds import seeded
from experiments.tables.million import run

SHORTLISTS = (220, 500, 900, 2000, 4000)
TAILS = {  # table 5.1: its cutoffs by number of tails, for 10,000 words instead of 155,026
    1: ([323], 36.23, 36.029),
    2: ([258, 2580], 36.257, 36.081),
    3: ([129, 1613, 3225], 36.507, 36.346),
    4: ([39, 323, 968, 3225], 37.582, 37.412),
}


def _run(name, cutoffs, valid=None, test=None):
    options = {"cutoffs": cutoffs, "projection_factor": None}
    paper = {"perplexity": valid, "test_perplexity": test} if valid else {}
    made = run(name, "adaptive", options, paper)
    return dataclasses.replace(made, scale="a sixteenth of the units") if valid else made


SIZES = [_run(f"shortlist{size}", [size, 5000]) for size in SHORTLISTS]
BY_TAILS = [_run(f"tails{number}", *of) for number, of in TAILS.items()]
RUNS = [*seeded(SIZES + BY_TAILS, (1,)), *seeded([BY_TAILS[0], BY_TAILS[-1]], (2,))]

PANELS = (
    Panel("size of the shortlist, figure 5.4", "words in the shortlist",
          {"two tails": {size: f"shortlist{size}" for size in SHORTLISTS}}),
    Panel("number of tails, table 5.1", "tail clusters",
          {"tails": {number: f"tails{number}" for number in TAILS}}),
)

"""Shen et al. 2017: self-organised softmax and the methods that it is compared with, five epochs.

Reproduces: Shen et al. 2017, tables 1 and 2 (perplexity of full softmax, importance sampling,
classes by frequency, differentiated, adaptive and self-organised softmax after five epochs of
Text8, and minutes of training) and figure 1 (the five curves of the self-organised run). The preset
`shen` has the hyperparameters of section 4.2. Departures: the corpus is a million words with 10,000
types, in the order of the text, instead of Text8; there are 256 units instead of 512; the learning
rate is 0.5 and the clipping norm 5, because an epoch has only a seventeenth of the steps; the words
choose their clusters every 57 steps instead of every 1,000, which makes 32 times in five epochs, as
on Text8; and there is a validation after each quarter of an epoch, for the curves. The paper takes
the perplexities of the other methods from Grave et al. 2017 and does not say how many samples or
which bands they had. Our runs use the default number of samples, a projection factor of 4 and the
cutoffs of `methods`. The table below shows the best of twenty validations; the verdict in papers.md
compares those after the fifth epoch, as the paper does.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run shen --data=data/million
    python -m experiments.benchmarks.run speed --experiment=shen --only='*-seed1' \\
        --data=data/million

The last command measures training speeds. They can be compared, because the heads take turns.

Hardware and hours: each run has one core, shares it with other work, and was stopped at times.

The paper's values: validation perplexity on Text8 (vocabulary 44,370) after five epochs, where full
softmax is the authors' own run; 77 minutes of training with full softmax, 20 with self-organised
softmax. Perplexities of different corpora cannot be compared, but their ratios to full softmax can.
"""

from experiments.framework.definition import Run
from experiments.framework.seeds import seeded
from experiments.tables.million import CUTOFFS, LARGE_STEPS


def _run(name, head, paper, **options):
    choosing = {"reassign_steps": 57} if head == "self_organised" else {}
    return Run(
        name=name,
        preset="shen",
        model={
            "head": head, "head_options": options, "hidden_units": 256, "embedding_units": 256,
        },
        training={"pseudo_epochs": 4, **choosing, **LARGE_STEPS},
        paper={"perplexity": paper},
        scale="half the paper's units, a million words",
    )


RUNS = seeded([
    _run("self_organised", "self_organised", 144.77),
    _run("full", "full", 144.17),
    _run("sampled", "sampled", 166.0),
    _run("class", "class", 166.0, classes="frequency"),
    _run("differentiated", "differentiated", 195.0, cutoffs=CUTOFFS),
    _run("adaptive", "adaptive", 147.0, cutoffs=CUTOFFS),
], (1, 2, 3))

"""Full, adaptive and sampled softmax and NCE in one table, at convergence, by dropout.

Reproduces: the methods of Müller 2017, table 5.2a and figure 5.16 (section 5.3.2): full softmax,
adaptive softmax without and with projections, importance sampling and NCE, with a dropout of 25 %
and 40 %. The hyperparameters are those of table 4.5. Departures: a corpus of a million words with
10,000 types instead of Text8, in the order of the text; 128 units instead of 512; a learning rate
of 0.5 and a clipping norm of 5, since an epoch has a seventeenth of the steps; the rate is halved
after an epoch that gains less than one unit of perplexity instead of none, and training stops after
two epochs that gain less than 0.1 instead of after 30 or 50 epochs; NCE has Z = 10,000, the size of
the vocabulary, about as large a part of it as the thesis's 40,000. The 1,280 samples are 13 % of
the vocabulary instead of 3 %, and samples that equal a position's label stay, where the thesis's
function removes them. Table 5.2a names neither cutoffs nor projection factor; ours follow the
advice of section 5.1.2.2, a shortlist of 9 % and half of the words in the last tail, with a factor
of 2. Runs with a dropout of 40 %, and NCE with 25 %, have three seeds, the others one. The run
sampled-dropout0.25 began before the rules for the rate and the end were what they are, and trained
for more epochs.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run methods --data=data/million
    python -m experiments.benchmarks.run speed --experiment=methods --only='*0.4-seed1' \\
        --data=data/million

Hardware and hours: each run has one core, which it shares with other work (results/benchmarks
compares speeds).

The paper's values: validation perplexity on Text8 (vocabulary 44,370) with a dropout of 40 %. Its
words per second of an NVIDIA GeForce GTX 1080 are 22,110 for full softmax, 63,256 for NCE, 71,203
for importance sampling, 75,749 and 78,182 for adaptive softmax without and with projections; the
last command measures ours, with the heads taking turns. Perplexities of different corpora cannot be
compared, but their ratios to full softmax can.
"""

from experiments.framework.seeds import seeded, seeded_where_close
from experiments.tables.million import CUTOFFS, run

PAPER = {
    "full": 129.51, "adaptive-whole": 129.33, "adaptive": 132.69, "sampled": 129.17, "nce": 131.02,
}
HEADS = {
    "full": ("full", {}),
    "adaptive-whole": ("adaptive", {"cutoffs": CUTOFFS, "projection_factor": None}),
    "adaptive": ("adaptive", {"cutoffs": CUTOFFS, "projection_factor": 2}),
    "sampled": ("sampled", {}),
    "nce": ("nce", {}),
}


def _runs(dropout):
    return [
        run(f"{name}-dropout{dropout}", head, options,
            {"perplexity": PAPER[name]} if dropout == 0.4 else {}, dropout)
        for name, (head, options) in HEADS.items()
    ]


CLOSE = ("nce-dropout0.25",)  # near others with one seed
RUNS = [*seeded_where_close(_runs(0.25), CLOSE), *seeded(_runs(0.4), (1, 2, 3))]

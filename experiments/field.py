"""Every method of the survey on one corpus with one model, for the map of the field.

Reproduces: no table. Müller 2017, chapter 2, describes these methods one after the other; here they
train the same model on the same text. What `jiang` trains already is not trained again: full
softmax, NCE, BlackOut, classes by frequency and of Brown clusters, and binary trees. The preset, the
corpus and the end of training, two epochs without a gain, are those of `jiang`. Some runs were
stopped earlier, so that the map compares all of them after as many epochs as each has.

Commands, for a million words with one sentence on each line:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run jiang --data=data/million --only='*seed1'
    tfsoftmax cluster --method=splits --run=runs/jiang/tree-random-seed1 --data=data/million \\
        --out=data/million/splits.paths
    tfsoftmax cluster --method=soul --run=runs/jiang/full-seed1 --data=data/million \\
        --shortlist=1000 --out=data/million/soul.json
    python -m experiments.run field --data=data/million
    python -m experiments.benchmarks.run speed --experiment=field --data=data/million
    python -m experiments.field_map

Adaptive and differentiated softmax have the cutoffs 900 and 5,000. The trees and SOUL's classes come
from models that were trained to convergence on the same text, where the sources train a bootstrap
of their own. Heads that sample share 1,280 words in each batch, unless their name says otherwise.

Hardware and hours: each run has one core, which it shares with other work, so that its minutes and
words/s say nothing of the method; the speeds of the map are from the benchmark.
"""

import dataclasses

from experiments import jiang
from experiments.million import CUTOFFS


def run(name, head, **options):
    """A run of `jiang` with one seed, of which the poster has no value."""
    return dataclasses.replace(jiang.run(name, head, **options), scale="")


RUNS = [
    run("adaptive", "adaptive", cutoffs=CUTOFFS, projection_factor=2),
    run("two-level", "two_level", cutoffs=CUTOFFS[:1]),
    run("differentiated", "differentiated", cutoffs=CUTOFFS),
    run("shortlist", "shortlist", shortlist=2000),
    run("class-fastest", "class", classes="fastest"),
    run("tree-splits", "tree", tree="{data}/splits.paths"),
    run("soul", "nary", tree="{data}/soul.json"),
    run("self-organised", "self_organised"),
    run("sampled", "sampled"),
    run("negative", "negative"),
    run("self-normalised", "self_normalised"),
]

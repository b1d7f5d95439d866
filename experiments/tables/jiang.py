"""Jiang et al. 2017: perplexity of p-tHSM and its relatives, at convergence, by seed.

Reproduces: Penn Treebank's columns of both perplexity tables of Jiang et al. 2017 ("Exploration of
tree-based hierarchical softmax"), softmax, NCE, BlackOut, cHSM and p-tHSM, and p-tHSM with trees of
random, alphabetical, Huffman and Brown clusters: on Penn Treebank itself (results/ptb/jiang) and on
a corpus of its size, a million words of novels. The paper gives neither the units nor the
optimisation; the preset `jiang` has those of p-tHSM/main.py in the authors' published code (lmkit):
256 units, Adam at 0.001, a dropout of 10 %. Its model of trees does not read the name of the
optimiser and descends plainly (`sgd_trees`). Other departures from that code: it trains on batches
of five sentences for six epochs, ours on 128 streams, until two epochs bring no gain in validation
perplexity; its states begin with zeros in each sentence; its learning rate does not halve, ours
does after each epoch without a gain; it has a dropout of the output alone. Its other programs, for
NCE, BlackOut and cHSM, have other settings again, such as noise words for each position and counts
to the power of 0.75.

The text keeps its order, as in the published results on Penn Treebank: states are carried from
sentence to sentence.

Commands, for Penn Treebank in a folder, and for a million words with one sentence on each line:

    tfsoftmax prepare --corpus=ptb --manual_dir=simple-examples --out=data/ptb
    tfsoftmax cluster --data=data/ptb --classes=1000 --out=data/ptb/brown.paths
    python -m experiments.run jiang --data=data/ptb

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax cluster --data=data/million --classes=1000 --out=data/million/brown.paths
    python -m experiments.run jiang --data=data/million

The number of classes is 100, the square root of the vocabulary. Classes are made by frequency; the
poster does not say how its own are made, so `class-brown` has Brown clusters. In the tree of
Brown's bits the words of a cluster form a Huffman tree. NCE and BlackOut share a sample of 1,280
words in each batch.

On the novels one stream of 128 raises NCE's test perplexity with the first seed. It begins with the
rare word "resolute", after which the states of this model never come back to where they were
trained:

    python -m experiments.measurements.stream_nats --run=runs/jiang/nce-seed1 --split=test

prints 146.71, and 133.65 without the worst stream; for full-seed1 139.25 and 138.40. The second and
the third seed of NCE have 134.57 and 135.16 with all streams.

Hardware and hours: see the table; a run takes 6 to 40 minutes on one core. Of the novels the curves
of the first seed are not kept, so that the picture shows another. The benchmarks (results/poster,
results/benchmarks) compare speeds.

The paper's values: exact perplexities on Penn Treebank (vocabulary 10,000; 0.9 M tokens).
Perplexities of different corpora cannot be compared, but their ratios to full softmax can.
"""

import dataclasses

from experiments.framework.definition import Run
from experiments.framework.seeds import group, seeded

SEEDS = (1, 2, 3)


def run(name, head, valid=None, test=None, training=(), **options):
    """A run of the preset `jiang`, until two epochs bring no gain."""
    return Run(
        name=name,
        preset="jiang",
        model={"head": head, "head_options": options},
        training={"epochs": 40, "patience": 2, **dict(training)},
        paper={"perplexity": valid, "test_perplexity": test} if valid else {},
    )


BROWN = "{data}/brown.paths"

RUNS = seeded([
    run("tree-brown", "tree", 133.12, 128.78, tree=BROWN),
    run("tree-huffman", "tree", 134.33, 129.34, tree="huffman"),
    run("tree-alphabetical", "tree", 154.02, 149.12, tree="alphabetical"),
    run("tree-random", "tree", 199.62, 189.37, tree="random"),
    run("class", "class", 133.17, 125.05, classes="frequency"),
    run("class-brown", "class", classes=BROWN, num_classes=100),
    run("full", "full", 131.59, 125.10),
    run("nce", "nce", 139.79, 137.35),
    run("blackout", "blackout", 137.68, 135.49),
], SEEDS)


def trees_and_full(training):
    """Full softmax and the four trees, without their seeds, trained in another way."""
    names = ("tree-brown", "tree-huffman", "tree-alphabetical", "tree-random", "full")
    return [
        dataclasses.replace(run, name=group(run.name), training=training)
        for run in RUNS if run.name.endswith("seed1") and group(run.name) in names
    ]

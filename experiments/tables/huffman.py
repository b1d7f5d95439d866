"""Huffman trees with other ties and without biases, and the Brown tree of the poster's code.

Reproduces: no table. With p-tHSM, Jiang et al. 2017 have a Huffman tree as good as one of Brown
clusters (test perplexity 1.034 and 1.029 of full softmax's) and a random one far worse (1.514).
Ours are 1.142, 1.027 and 1.141 (experiment `jiang`). These runs look for the reason.

Ties, biases and batches are not the reason. Most words of a corpus of a million words share their
count with many others, and the counts leave open which of them become neighbours. In ours, words of
one count are in alphabetical order. In other runs they are in random order, as in the authors'
published code (lmkit), which ranks words by Python 2's `sorted` of a dictionary, and in the order
in which they first occur in the text. The published code has a variant without biases, too. None of
this moves the test perplexity by more than 0.2 %. With the authors' batches and epochs
(`small_batches`), too, a Huffman tree is no better than a random one.

The step sizes of rare and frequent nodes do matter, but little. Adam evens them out. By plain
gradient descent, with which the published model of trees trains, a random tree is worse than a
Huffman tree (`sgd_trees`): its validation perplexity is 1.11 of the Huffman tree's after one epoch,
and 1.03 after twelve (poster: 1.49).

Nor does the size of the model explain the poster's gap between random and Huffman trees. With 64
units instead of 256 and after forty epochs, the test perplexities of Brown's, the Huffman and the
random tree are 1.015, 1.139 and 1.143 of full softmax's.

That the poster's Huffman tree equals its Brown tree may lie in the latter, if it is that of the
published code. In two versions of it (p-tHSM/utils.py, load_brown_prefix) the row of the file
of Brown clusters, and not the word in it, decides whose code it is. As ids are ranks by frequency,
a tree of Brown's shape gets its words in the order of their counts, much as a Huffman tree does.
`brown-by-row` is this tree: Huffman's perplexity is 1.02 of its, and 1.11 of that of Brown's own
(poster: 1.004).

The rest is open. Ours, too, would be near the poster's ratio to full softmax if full softmax
had trained for little more than an epoch: with the authors' batches it has a validation perplexity
of 161 after one epoch and of 146 after two, and the Huffman tree, at its best in six, 158. But the
published versions of that program (original/main.py) train for one epoch and for twenty, and a
published log for thirty, so that this is no evidence. What the poster did is not known. The code
has no random tree either, so the poster's 1.514 stays unexplained. The page's run of full softmax
is that of `jiang`, which has the same settings.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax cluster --data=data/million --classes=1000 --out=data/million/brown.paths
    python -m experiments.inputs.corpus_files --data=data/million
    python -m experiments.run huffman --data=data/million

Hardware and hours: each run has one core, which it shares with other work and on which it was
stopped at times.
"""

import dataclasses

from experiments.framework.seeds import seeded
from experiments.tables import jiang


def _narrow(run):
    return dataclasses.replace(
        run, model={**run.model, "hidden_units": 64, "embedding_units": 64})


RUNS = seeded([
    jiang.run("huffman", "tree", tree="huffman"),
    jiang.run("huffman-ties-random", "tree", tree="{data}/huffman-random.paths"),
    jiang.run("huffman-ties-text", "tree", tree="{data}/huffman-text.paths"),
    jiang.run("huffman-no-biases", "tree", tree="huffman", use_bias=False),
    jiang.run("brown-by-row", "tree", tree="{data}/brown-by-row.paths"),
    jiang.run("random-no-biases", "tree", tree="random", use_bias=False),
    jiang.run("full", "full"),
    *map(_narrow, (
        jiang.run("brown-64-units", "tree", tree=jiang.BROWN),
        jiang.run("huffman-64-units", "tree", tree="huffman"),
        jiang.run("random-64-units", "tree", tree="random"),
        jiang.run("full-64-units", "full"),
    )),
], (1,))

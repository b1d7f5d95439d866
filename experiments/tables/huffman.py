"""Huffman trees with other ties and without biases, and the Brown tree of the poster's code.

Reproduces: no table. In Jiang et al. 2017, p-tHSM with a Huffman tree is as good as with a tree of
Brown clusters (test perplexity 1.034 and 1.029 of full softmax's), and with a random tree it is far
worse (1.514). Our ratios are 1.142, 1.027 and 1.141 (experiment `jiang`). These runs look for the
reason.

Ties, biases and batches are not the reason. In a corpus of a million words, most words share their
count with many others, and the counts leave open which of them become neighbours. In our trees,
words of the same count are in alphabetical order. In other runs they are in random order, as in the
authors' published code (lmkit), which ranks words by Python 2's `sorted` of a dictionary, or in the
order in which they first occur in the text. The published code also has a variant without biases.
None of this changes the test perplexity by more than 0.2 %. Nor is a Huffman tree any better than a
random one with the authors' batches and epochs (`small_batches`).

The step sizes of rare and frequent nodes do matter, but little. Adam evens them out. With plain
gradient descent, by which the published model of trees is trained, a random tree is worse than a
Huffman tree (`sgd_trees`): its validation perplexity is 1.11 of the Huffman tree's after one epoch,
and 1.03 after twelve (poster: 1.49).

Nor does the size of the model explain the poster's gap between random and Huffman trees. With 64
units instead of 256 and after forty epochs, the test perplexities of the Brown, the Huffman and the
random tree are 1.015, 1.139 and 1.143 of full softmax's.

The poster's Huffman tree may equal its Brown tree because of the latter, if that is the tree of the
published code. In two versions of that code (p-tHSM/utils.py, load_brown_prefix), the row of the
file of Brown clusters decides whose code it is, and the word in the row is ignored. Because ids are
ranks by frequency, a tree of Brown's shape then holds its words in the order of their counts, much
as a Huffman tree does. `brown-by-row` is this tree: the Huffman tree's perplexity is 1.02 of its
perplexity, and 1.11 of that of the proper Brown tree (poster: 1.004).

The rest is open. Our Huffman tree, too, would be near the poster's ratio to full softmax if full
softmax had been trained for little more than an epoch: with the authors' batches, full softmax has
a validation perplexity of 161 after one epoch and of 146 after two, and the Huffman tree, at its
best in six epochs, one of 158. But the published versions of that program (original/main.py) train
for one epoch and for twenty, and a published log for thirty, so this is no evidence. What the
poster did is not known. The code has no random tree either, so the poster's 1.514 remains
unexplained. The run of full softmax on this page is that of `jiang`, which has the same
settings.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax cluster --data=data/million --classes=1000 --out=data/million/brown.paths
    python -m experiments.inputs.corpus_files --data=data/million
    python -m experiments.run huffman --data=data/million

Hardware and hours: each run has one core, shares it with other work, and was stopped at times.
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

"""The trees of Jiang et al. 2017 with small batches and six epochs, as in the authors' code.

Reproduces: the table of clusterings of Jiang et al. 2017, as far as training goes. Our ratios to
full softmax differ from the poster's (experiment `jiang`: random 1.141 instead of 1.514, Huffman
1.142 instead of 1.034). The authors' code (lmkit, p-tHSM/main.py) trains for six epochs on batches
of five sentences, which are about 8,400 steps in an epoch of Penn Treebank; `jiang` has 376 steps
in an epoch and trains to convergence. Here there are five streams of 20 steps, or 9,610 batches in
an epoch, and six epochs; everything else is as in `jiang`. Departures from that code: states are
carried from batch to batch instead of starting each sentence with zeros, and the learning rate may
halve.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --streams=5 \\
        --train=train.txt.gz --valid=valid.txt.gz --test=test.txt.gz --out=data/million5
    tfsoftmax cluster --data=data/million5 --classes=1000 --out=data/million5/brown.paths
    python -m experiments.run small_batches --data=data/million5

The paper's values: exact perplexities on Penn Treebank (vocabulary 10,000; 0.9 M tokens).
Perplexities of different corpora cannot be compared, but their ratios to full softmax can.
"""

from experiments.framework.seeds import seeded_where_close
from experiments.tables import jiang

CLOSE = ("tree-brown",)  # near full softmax with one seed
RUNS = seeded_where_close(jiang.trees_and_full({"epochs": 6}), CLOSE)

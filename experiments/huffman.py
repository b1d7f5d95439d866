"""Huffman, random and Brown trees by optimiser, to see whether rare nodes take large enough steps.

Reproduces: no table. It looks for the reason why p-tHSM with a Huffman tree was hardly better than
with a random tree under Adagrad, while Jiang et al. 2017 have it as good as with Brown clusters
(test perplexity 129.34 against 128.78, random 189.37). Each tree and full softmax are trained for
six epochs: with Adagrad (rate 0.5, clipped at 5, accumulators that start at 0.1, as in the thesis),
with accumulators that start at 1e-6, and with Adam as in the published code of Jiang et al. The
hypothesis: most nodes of a Huffman tree belong to rare words, and their gradients are so small
against an accumulator of 0.1 that they hardly leave their initial weights.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax brown --data=data/million --classes=1000 --out=data/million/brown.paths
    python -m experiments.run huffman --data=data/million
"""

from experiments.definition import Run
from experiments.million import LARGE_STEPS
from experiments.seeds import seeded

ADAGRAD = {"optimizer": "adagrad", "reduce": "stream", **LARGE_STEPS}
OPTIMIZERS = {
    "adam": {},  # the preset's
    "adagrad": ADAGRAD,
    "adagrad-1e-6": {**ADAGRAD, "initial_accumulator": 1e-6},
}
TREES = {"huffman": "huffman", "random": "random", "brown": "{data}/brown.paths"}


def _run(name, head, optimizer, **options):
    return Run(
        name=f"{name}-{optimizer}",
        preset="jiang",
        model={"head": head, "head_options": options},
        training={"epochs": 6, **OPTIMIZERS[optimizer]},
        scale="six epochs, a million words",
    )


RUNS = seeded([
    *(_run(name, "tree", optimizer, tree=tree) for name, tree in TREES.items()
      for optimizer in OPTIMIZERS),
    *(_run("full", "full", optimizer) for optimizer in OPTIMIZERS),
], (1,))

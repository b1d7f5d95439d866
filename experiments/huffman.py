"""Huffman, random and Brown trees by optimiser, to see whether rare nodes take large enough steps.

Reproduces: no table. It looks for the reason why p-tHSM with a Huffman tree was hardly better than
with a random tree under the thesis's optimiser, while Jiang et al. 2017 have it as good as with
Brown clusters (test perplexity 129.34 against 128.78, random 189.37). Each tree and full softmax
are trained for six epochs, with the thesis's Adagrad (rate 0.2, clipped at 0.25, accumulators that
start at 0.1), with accumulators that start at 1e-6, and with Adam as in the published code of Jiang
et al. The hypothesis: most nodes of a Huffman tree belong to rare words, and their gradients are so
small against an accumulator of 0.1 that they hardly leave their initial weights.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax brown --data=data/million --classes=1000 --out=data/million/brown.paths
    python -m experiments.run huffman --data=data/million
"""

from experiments.definition import Run
from experiments.seeds import seeded

THESIS = {"optimizer": "adagrad", "learning_rate": 0.2, "clip_norm": 0.25, "reduce": "stream"}
OPTIMIZERS = {
    "adam": {},  # the preset's
    "adagrad": THESIS,
    "adagrad-1e-6": {**THESIS, "initial_accumulator": 1e-6},
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

"""Hierarchical heads: classes, trees of four clusterings, and clusters learned while training.

Reproduces: no table. It compares how fast the methods of Jiang et al. 2017 ("Exploration of
tree-based hierarchical softmax") and the self-organised softmax of Shen et al. 2017 learn at first
with a large vocabulary, in 1,500 steps of a GRU of 256 units. The experiments `jiang` and `shen`
train as long as the papers do. Departures from the papers: Adagrad has a learning rate of 0.5,
there is no dropout, and gradients are clipped at a norm of 5.

Commands, for text in lower case with one sentence on each line:

    tfsoftmax prepare --corpus=text --min_count=10 --train=novels/train.txt.gz \\
        --valid=novels/valid.txt.gz --test=novels/test.txt.gz --out=data/novels
    tfsoftmax cluster --data=data/novels --classes=1000 --out=data/novels/brown.paths
    python -m experiments.run hierarchical --data=data/novels
    tfsoftmax show_clusters --run=runs/hierarchical/self_organised | head -20

Hardware and hours: an hour on two CPU cores that were shared with other work, so words per second
are low and uneven. The speeds in results/hierarchical/speed can be compared, because the heads took
turns in one run:

    python -m experiments.benchmarks.run speed --experiment=hierarchical --data=data/novels

The number of classes is the square root of the vocabulary. Classes are made by frequency, or from
Brown's bits by joining those of Brown's 1,000 clusters whose bits begin alike. In the tree of
Brown's bits, the words of a cluster form a Huffman tree. Self-organised clusters are chosen anew
every 150 steps, ten times in all.

This early in training, expect the paper's order: random trees are the worst, and Brown's trees are
the best by far. Huffman trees, however, are no better than alphabetical ones. Their short paths
help only the most frequent words. They group rare words by frequency alone, whereas the alphabet
groups the forms of a word, so they lose on rare words what they gain on frequent ones.

The paper's values: exact perplexities on the validation split of Penn Treebank (vocabulary 10,000;
0.9 M tokens), with a GRU, at convergence. Perplexities of different corpora cannot be compared,
but their order can.
"""

from experiments.framework.definition import Run

STEPS = 1500


def _run(name, head, paper=None, training=(), **options):
    return Run(
        name=name,
        preset="text8",
        model={
            "cell": "gru", "head": head, "head_options": options, "hidden_units": 256,
            "embedding_units": 256, "dropout": 0.0,
        },
        training={
            "epochs": 1, "pseudo_epochs": 12, "max_steps": STEPS, "learning_rate": 0.5,
            "clip_norm": 5.0, **dict(training),
        },
        paper={"perplexity": paper} if paper else {},
        scale=f"{STEPS:,} steps",
    )


BROWN = "{data}/brown.paths"

RUNS = [
    _run("full", "full", 131.59),
    _run("class-frequency", "class", 133.17, classes="frequency"),
    _run("class-brown", "class", classes=BROWN, num_classes=170),
    _run("tree-random", "tree", 199.62, tree="random"),
    _run("tree-alphabetical", "tree", 154.02, tree="alphabetical"),
    _run("tree-huffman", "tree", 134.33, tree="huffman"),
    _run("tree-brown", "tree", 133.12, tree=BROWN),
    _run("self_organised", "self_organised", training={"reassign_steps": STEPS // 10}),
]

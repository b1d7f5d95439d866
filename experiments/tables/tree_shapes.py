"""Good and bad trees: Brown's order of the words and a random one, in trees of three shapes.

Reproduces: what Mao 2019 ("Hierarchical Softmax", caveats) and Jiang et al. 2017 say about good and
bad trees. A good tree keeps together words that belong together. These runs ask whether depth and
balance matter as well: the words stand in each of two orders in balanced trees and in skewed ones,
whose nodes put a tenth of their words on one side, so that a path is more than twice as long.
Otherwise the runs are those of `jiang`.

Commands, for a million words with one sentence on each line:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax cluster --data=data/million --classes=1000 --out=data/million/brown.paths
    python -m experiments.inputs.corpus_files --data=data/million --shapes
    python -m experiments.run tree_shapes --data=data/million

`corpus_files` writes the trees, and the page [shapes](shapes.md) of their depth and balance.

The test perplexity of random-skewed is due to two of the 128 streams: from the zeros with which a
stream begins, the states of this model move to where no word brings them back. The validation split
has no such stream. The following command first prints the test perplexity below, and last that
without the two streams, 159.33:

    python -m experiments.measurements.stream_nats --run=runs/tree_shapes/random-skewed-seed1 \\
        --split=test --worst=2

Hardware and hours: each run has one core and shares it with other work. results/benchmarks compares
speeds.
"""

from experiments.framework.seeds import seeded_where_close
from experiments.tables import jiang

TREES = {  # name: the option `tree` of the head
    "brown": "{data}/brown.paths",
    "brown-balanced": "{data}/brown-balanced.paths",
    "brown-skewed": "{data}/brown-skewed.paths",
    "random-balanced": "random",
    "random-skewed": "{data}/random-skewed.paths",
}

CLOSE = ("brown-balanced", "brown-skewed")  # near Brown's own tree with one seed
RUNS = seeded_where_close(
    [jiang.run(name, "tree", tree=tree) for name, tree in TREES.items()], CLOSE)

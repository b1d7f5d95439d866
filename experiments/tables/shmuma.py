"""Shmuma 2017: two-level, sampled and binary tree softmax on 65,000 words.

Reproduces: the speeds of Shmuma 2017 (readme): sampled softmax, whose candidates are the labels of
the batch and uniform words without a correction, two-level softmax and a balanced binary tree. The
preset `shmuma` has its model, an LSTM of 512 units with embeddings of 50. Departures: novels
instead of the Quora questions; the optimisation, the number of samples and the size of the
shortlist, which the readme does not give, are ours; 1,500 steps. The embeddings start at random,
since vectors are files of your own. To start one of the runs from GloVe's, train it by hand:

    tfsoftmax train --data=data/novels65k --preset=shmuma --head=two_level \\
        --head_options='{"cutoffs": [3000]}' --pretrained=glove.6B.50d.txt --run=runs/glove

Commands:

    tfsoftmax prepare --corpus=text --max_vocab=65000 --train=novels/train.txt.gz \\
        --valid=novels/valid.txt.gz --test=novels/test.txt.gz --out=data/novels65k
    python -m experiments.benchmarks.run speed --experiment=shmuma --data=data/novels65k
    python -m experiments.run shmuma --data=data/novels65k

The first of the last two measures training speeds that compare, since the heads take turns.

Without the correction, sampled softmax learns scores whose softmax is not the model's estimate of
the next word: frequent words come out too low. Expect its exact perplexity to be far behind.

The paper's values: sampled softmax is about 5 times as fast as full softmax, two-level softmax
about 3 times, and, on an NVIDIA GeForce GTX 1080 Ti with batches that are 30 times as large, 11
times, though the seconds that it gives for that, 2:50 and 30, have a ratio of 5.7; the balanced
binary tree gains nothing. There are no perplexities.
"""

from experiments.framework.definition import Run

STEPS = 1500


def _run(name, head, **options):
    return Run(
        name=name,
        preset="shmuma",
        model={"head": head, "head_options": options},
        training={"epochs": 1, "max_steps": STEPS, "pseudo_epochs": 15},
        scale=f"{STEPS:,} steps, random embeddings",
    )


RUNS = [
    _run("full", "full"),
    _run("two_level", "two_level", cutoffs=[3000]),
    _run("sampled-labels-and-uniform", "sampled", sampler="in_batch",
         sampler_options={"counts": None}),
    _run("tree-balanced", "tree", tree="balanced", mode="sequential"),
]

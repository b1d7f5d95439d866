"""Shmuma 2017: two-level, sampled and binary tree softmax on 65,000 words.

Reproduces: the speeds of Shmuma 2017 (readme) with sampled softmax, whose candidates are the labels
of the batch and uniformly drawn words without a correction, with two-level softmax, and with a
balanced binary tree. The preset `shmuma` has the readme's model, an LSTM of 512 units with
embeddings of 50 units. Departures: the text is novels instead of Quora questions; the readme does
not give the optimisation, the number of samples or the size of the shortlist, so these are ours;
and training stops after 1,500 steps. The embeddings start at random, because GloVe's vectors are
not part of this project. To start one of the runs from them, train it by hand:

    tfsoftmax train --data=data/novels65k --preset=shmuma --head=two_level \\
        --head_options='{"cutoffs": [3000]}' --pretrained=glove.6B.50d.txt --run=runs/glove

Commands:

    tfsoftmax prepare --corpus=text --max_vocab=65000 --train=novels/train.txt.gz \\
        --valid=novels/valid.txt.gz --test=novels/test.txt.gz --out=data/novels65k
    python -m experiments.benchmarks.run speed --experiment=shmuma --data=data/novels65k
    python -m experiments.run shmuma --data=data/novels65k

The command before the last measures training speeds. They can be compared, because the heads take
turns.

Without the correction, the softmax of the scores that sampled softmax learns is not the model's
estimate of the next word: the probabilities of frequent words are too low. Expect its exact
perplexity to be far behind.

The paper's values: sampled softmax is about 5 times as fast as full softmax, and two-level softmax
about 3 times. On an NVIDIA GeForce GTX 1080 Ti, with batches that are 30 times as large, two-level
softmax is said to be 11 times as fast, although the times of an epoch that it gives, 30 seconds and
2:50 minutes, have a ratio of 5.7. The balanced binary tree gains nothing. There are no
perplexities.
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

"""The methods of the survey on one corpus with one model, for the map of the field.

Reproduces: no table. Müller 2017 describes these methods one after the other in chapter 2; here
they train the same model on the same text. TAPAS, target sampling, the other penalties of the
normaliser and cubic scores are not among them. The preset and the corpus are those of `jiang`, and
training ends as there, after two epochs without a gain. Some runs were stopped earlier, so the map
compares each with full softmax after the same number of epochs.

Commands, for a million words with one sentence on each line:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax cluster --data=data/million --classes=1000 --out=data/million/brown.paths
    python -m experiments.run field --data=data/million --only='full,tree-random'
    tfsoftmax cluster --method=splits --run=runs/field/tree-random --data=data/million \\
        --out=data/million/splits.paths
    tfsoftmax cluster --method=soul --run=runs/field/full --data=data/million \\
        --shortlist=1000 --out=data/million/soul.json
    python -m experiments.inputs.corpus_files --data=data/million
    python -m experiments.run field --data=data/million
    python -m experiments.benchmarks.run speed --experiment=field --data=data/million
    python -m experiments.measurements.field_map

Runs that have the name of a run of `jiang` are the same as that run with the first seed, whose
folder may be copied. Adaptive and differentiated softmax have the cutoffs 900 and 5,000. The tree
of splits and SOUL's classes come from models that were trained to convergence on the same text; the
sources train a first model for this purpose. Heads that sample share 1,280 words in each batch,
unless their name says otherwise.

Hardware and hours: each run has one core and shares it with other work; the speeds on the map are
those of the benchmark, for which the tree of splits and SOUL's classes came from models that had
trained for two epochs.
"""

import dataclasses

from experiments.tables import jiang
from experiments.tables.million import CUTOFFS


def run(name, head, **options):
    """A run of `jiang` with one seed, of which the poster has no value."""
    return dataclasses.replace(jiang.run(name, head, **options), scale="")


def as_in_jiang(seeded):
    """A run of `jiang` with the first seed, without the seed in its name."""
    return dataclasses.replace(seeded, name=seeded.name.removesuffix("-seed1"), scale="", paper={})


RUNS = [
    *sorted(
        (as_in_jiang(seeded) for seeded in jiang.RUNS if seeded.name.endswith("-seed1")),
        key=lambda of_jiang: of_jiang.name != "full",
    ),
    run("full-drawn", "full", gradient_share=0.25),
    run("adaptive", "adaptive", cutoffs=CUTOFFS, projection_factor=2),
    run("two-level", "two_level", cutoffs=CUTOFFS[:1]),
    run("differentiated", "differentiated", cutoffs=CUTOFFS),
    run("shortlist", "shortlist", shortlist=2000),
    run("class-fastest", "class", classes="fastest"),
    run("class-unigram", "class_unigram", classes=jiang.BROWN),
    run("class-nce", "class_nce", classes=jiang.BROWN, num_classes=100),
    run("tree-splits", "tree", tree="{data}/splits.paths"),
    run("soul", "nary", tree="{data}/soul.json"),
    run("self-organised", "self_organised"),
    run("sampled", "sampled"),
    run("sampled-no-label", "sampled", label_in_sum=False),
    run("nce-context", "nce", train_z="context"),
    run("nce-unigram25", "nce", num_samples=25, shared_samples=False),
    run("nce-bigram25", "nce", num_samples=25, shared_samples=False, sampler="bigram",
        ngram="{data}/bigrams.arpa"),
    run("negative", "negative"),
    run("self-normalised", "self_normalised"),
    run("char-cnn-corrected", "char_cnn", characters={"correction_units": 32}),
    run("spherical", "spherical"),
    run("taylor", "taylor"),
]

"""Summaries by encoder-decoders with five output layers: perplexity and ROUGE, at convergence.

Reproduces: Shen et al. 2017, tables 4 to 6 (full softmax and self-organised softmax with clusters
that a language model has learnt from the titles), beside adaptive and sampled softmax and a Huffman
tree. Departures from section 5.2: docstrings and the sentences that sum them up instead of Gigaword
and DUC-2004; 20,000 pairs instead of 3.8 million, with the first 50 words of each source; 128 units
instead of 512; a learning rate of 0.002; a dropout of 25 %, because a model learns so few pairs by
heart; and training stops after two epochs without a gain.

Commands:

    tfsoftmax prepare_pairs --max_source=50 --out=data/pairs
    zcat data/pairs/train-texts.tsv.gz | cut -f2 > data/pairs-titles.txt
    zcat data/pairs/valid-texts.tsv.gz | cut -f2 > data/pairs-titles-valid.txt
    tfsoftmax prepare --corpus=text --min_count=2 --train=data/pairs-titles.txt \\
        --valid=data/pairs-titles-valid.txt --out=data/titles
    tfsoftmax train --data=data/titles --run=runs/titles --preset=shen --epochs=6 \\
        --hidden_units=256 --embedding_units=256 --learning_rate=0.5 --clip_norm=5 \\
        --reassign_steps=20
    tfsoftmax show_clusters --run=runs/titles --out=data/pairs-clusters.txt
    python -m experiments.run summaries --data=data/pairs
    python -m experiments.measurements.rouge_scores --data=data/pairs --runs=runs/summaries

The last command writes [the ROUGE scores](rouge.md) of the runs and of two ways to summarise that
need no training.

[Training speeds](speed/README.md) with 69,000 words, as many as in the paper, are measured on pairs
of a sentence and the one after it, from a text with a sentence on each line. The heads take turns.

    awk 'NR > 1 {print prev "\\t" $0} {prev = $0}' train.txt > next.tsv
    awk 'NR > 1 {print prev "\\t" $0} {prev = $0}' valid.txt > next-valid.tsv
    tfsoftmax prepare_pairs --corpus=text --max_source=50 --max_vocab=69000 \\
        --train=next.tsv --valid=next-valid.tsv --out=data/next
    python -m experiments.benchmarks.run speed --experiment=summaries --data=data/next

This needs data/next-clusters.txt, which is made in the same way as data/pairs-clusters.txt. The
times do not depend on what the clusters mean; here they come from 151 steps with --max_vocab=69000
and --reassign_steps=50. Batches of pairs differ in shape, and the slowest run had fewer samples
than the others, all from the first batches, so the ratios are rough.

Hardware and hours: each run has one core and shares it with other work.
"""

from experiments.framework.definition import Run
from experiments.framework.seeds import seeded


def _run(name, head, **options):
    return Run(
        name=name,
        preset="shen",
        pairs=True,
        model={
            "head": head, "head_options": options, "hidden_units": 128, "embedding_units": 128,
            "dropout": 0.25,
        },
        training={"epochs": 40, "patience": 2, "learning_rate": 0.002},
        scale="a quarter of the paper's units, 20,000 pairs",
    )


RUNS = seeded([
    _run("full", "full"),
    _run("self_organised", "self_organised", clusters="{data}-clusters.txt"),
    _run("adaptive", "adaptive", cutoffs=[500, 2500]),
    _run("sampled", "sampled"),
    _run("tree", "tree", tree="huffman"),
], (1,))

"""Words against pieces at equal bytes: what a text costs, in bits for each of its bytes.

Reproduces: no table. The model is a GRU of 256 units with full softmax over 10,000 words, over
10,000 pieces of a unigram or a BPE model, or over 2,000 pieces. All runs read the same text, and a
batch holds about the same number of its bytes in each, because the time steps are in proportion to
the number of tokens. The model and the optimisation are those of the experiment `jiang`.
Perplexities per token cannot be compared; see [bits per byte](bits_per_byte.md), which the last
command writes.

The run with 2,000 pieces ended early, after two validations that were much worse than the one
before them. Its result is that of the best validation.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/words-10000
    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --tokenizer=sentencepiece \\
        --time_steps=22 --train=train.txt.gz --valid=valid.txt.gz --test=test.txt.gz \\
        --out=data/unigram-10000
    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --tokenizer=sentencepiece_bpe \\
        --time_steps=22 --train=train.txt.gz --valid=valid.txt.gz --test=test.txt.gz \\
        --out=data/bpe-10000
    tfsoftmax prepare --corpus=text --order=text --max_vocab=2000 --tokenizer=sentencepiece \\
        --time_steps=29 --train=train.txt.gz --valid=valid.txt.gz --test=test.txt.gz \\
        --out=data/unigram-2000
    for name in words-10000 unigram-10000 bpe-10000 unigram-2000; do
        python -m experiments.run pieces --data=data/$name --only=$name-seed1
    done
    python -m experiments.measurements.bits_per_byte --train=train.txt.gz --test=test.txt.gz
"""

from experiments.framework.definition import Run
from experiments.framework.seeds import seeded

VOCABULARIES = ("words-10000", "unigram-10000", "bpe-10000", "unigram-2000")

RUNS = seeded([
    Run(
        name=name,
        preset="jiang",
        model={"head": "full"},
        training={"epochs": 40, "patience": 2},
        scale="a million words",
    )
    for name in VOCABULARIES
], (1,))

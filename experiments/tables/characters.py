"""Kernels computed from characters: parameters saved, and perplexity by the words' frequency.

Reproduces: no table. The thesis describes CNN softmax (section 2.2.4.1, equation 2.48: Jozefowicz
et al. 2016; Kim et al. 2015; Ling et al. 2015) without measuring it. The runs compare a kernel of
its own rows with rows from a CNN over the bytes of the words, with and without a correction of 32
units, from an LSTM, shared with the input, and trained on samples. The model and the optimisation
are those of the experiment `jiang`.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run characters --data=data/million
    tfsoftmax evaluate --run=runs/characters/char_cnn-seed1 --by_frequency

The last command gives the nats per token of words by their number of occurrences; their
differences to those of `full-seed1` say which words the characters help.
"""

from experiments.framework.definition import Run
from experiments.framework.seeds import seeded

CORRECTED = {"correction_units": 32}
HEADS = {
    "full": ("full", {}, False),
    "char_cnn": ("char_cnn", {}, False),
    "char_cnn-corrected": ("char_cnn", {"characters": CORRECTED}, False),
    "char_lstm-corrected": ("char_cnn", {"characters": {"encoder": "lstm", **CORRECTED}}, False),
    "char_cnn-corrected-tied": ("char_cnn", {"characters": CORRECTED}, True),
    "sampled": ("sampled", {}, False),
    "sampled-characters": ("sampled", {"characters": CORRECTED}, False),
}

RUNS = seeded([
    Run(
        name=name,
        preset="jiang",
        model={"head": head, "head_options": options, "tie_embeddings": tied},
        training={"epochs": 40, "patience": 2},
        scale="a million words",
    )
    for name, (head, options, tied) in HEADS.items()
], (1,))

"""Sampling heads: sampled softmax, NCE, negative sampling and BlackOut against full softmax.

Reproduces: no table. It compares how fast the methods of Müller 2017, section 5.2, learn at first
with a large vocabulary, by NCE's normalisation constant and by proposal distribution: a quarter of
an epoch with half of the units. The experiments `methods` and `proposals` train to convergence, as
table 5.2a and figures 5.6 and 5.9 to 5.11 do. It departs from table 4.5: there is no dropout, the
learning rate is 0.5, and gradients are clipped at a norm of 5.

Each batch shares a sample of 1,280 words, as in section 5.2.2. Words are drawn with replacement,
except by `sampled-unique`, which was trained before label and samples had one threshold. For
negative sampling softmax(s + ln k q) is the model's distribution.

Commands, for text files of your own:

    tfsoftmax prepare --corpus=text --train=train.txt --valid=valid.txt --test=test.txt \\
        --min_count=10 --out=data/text
    python -m experiments.run sampling --data=data/text

Hardware and hours: an hour and a half on two CPU cores that were shared with other work, so that
words per second are low and uneven (results/benchmarks compares speeds of heads that took turns).

So early in training, expect NCE with Z = 1 and negative sampling to fail. They begin with too much
mass on every word, 1 and k q(w) instead of 1 / V, and a word keeps that mass until it is drawn or
occurs as a label. Most of the vocabulary is rare and has hardly been drawn after a quarter of an
epoch, so that these words dominate the exact normaliser and therefore perplexity.
`tfsoftmax evaluate --normaliser` shows that ln Z is far above 0, where it should be. With uniform
sampling the opposite holds: rare words are drawn often, and frequent words hardly at all.
"""

from experiments.definition import Run

STEPS = 1500
GROWING = {
    "class_name": "PolynomialDecay",
    "config": {"initial_learning_rate": 0.8, "end_learning_rate": 1.0, "decay_steps": STEPS},
}


def _run(name, head, **options):
    return Run(
        name=name,
        preset="text8",
        model={
            "head": head, "head_options": options, "hidden_units": 256, "embedding_units": 256,
            "dropout": 0.0,
        },
        training={
            "max_steps": STEPS, "epochs": 1, "pseudo_epochs": 12, "learning_rate": 0.5,
            "clip_norm": 5.0,
        },
        scale=f"half the paper's units, {STEPS:,} steps instead of 30 epochs",
    )


RUNS = [
    _run("sampled-unigram", "sampled"),
    _run("nce-Z40000", "nce", Z=40000),
    _run("nce-Z1", "nce", Z=1),
    _run("blackout", "blackout", sampler_options={"alpha": 0.4}),
    _run("sampled-uniform", "sampled", sampler="uniform"),
    _run("negative", "negative"),
    _run("full", "full"),
    _run("nce-Z8103", "nce", Z=8103),
    _run(
        "sampled-interpolated", "sampled", sampler="interpolated",
        sampler_options={"unigram_weight": GROWING},
    ),
    _run("sampled-unique", "sampled", sampler_options={"unique": True}),
]

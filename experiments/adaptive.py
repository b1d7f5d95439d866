"""Adaptive softmax and its relatives: perplexity and speed on a hundred novels.

Reproduces: no table. It compares how fast full and adaptive softmax (Müller 2017, section 5.1) and
their relatives of sections 2.2.2.3 (differentiated softmax) and 2.2.2.4 (one tail: two levels)
learn at first with a large vocabulary: a quarter of an epoch of a corpus of novels about as large
as Text8, with half of the units. The experiments `methods`, `projections` and `shortlists` train
to convergence, as table 5.2a and figures 5.4 and 5.5 do. As in full_softmax, it departs from the
hyper-parameters for Text8 of table 4.5: there is no dropout, the learning rate is 0.5, and
gradients are clipped at a norm of 5, since a quarter of an epoch ends long before regularisation
matters.

Commands, for text in lower case with one sentence on each line:

    tfsoftmax prepare --corpus=text --min_count=3 --train=novels/train.txt.gz \\
        --valid=novels/valid.txt.gz --test=novels/test.txt.gz --out=data/novels
    python -m experiments.run adaptive --data=data/novels

Hardware and hours: an hour and a half on two CPU cores that were shared with other work, so that
words per second are low and uneven. The speeds in results/adaptive/speed can be compared, since the
heads took turns in one run:

    python -m experiments.benchmarks.run speed --experiment=adaptive --data=data/novels

The cutoffs are [4000, 22000] for about 47,500 words: a shortlist of 9 %, and about half of the
words in the last tail, as section 5.1.2.2 recommends. With two levels they are [4000]. The cutoffs
of `auto` are the cheapest on the training machine by the cost model of section 2.2.2.4, which
ignores perplexity. The tails have 128 and 64 units with a factor of 2, and 64 and 16 with a factor
of 4.

This early in training, expect adaptive softmax to be ahead of full softmax, most of all with the
smallest shortlist and the narrowest tails. It learns from all rare words at once how much mass they
have together and how they share it, while full softmax learns this word by word. In the paper,
full softmax is slightly ahead after 50 epochs.

The paper's values: Text8 (vocabulary 44,370; 16.8 M tokens), one LSTM layer of 512 units, a dropout
of 40 %, 50 epochs, one NVIDIA GeForce GTX 1080. The paper does not state the projection factor of
its second adaptive row; we compare that row with factor 4, beyond which figure 5.3 shows no gain.
Perplexities of different corpora cannot be compared. Words per second of different hardware can be
compared only roughly, and their ratios to full softmax somewhat better.
"""

from experiments.definition import Run

CUTOFFS = [4000, 22000]


def _run(name, head, options=None, paper=None):
    return Run(
        name=name,
        preset="text8",
        model={
            "head": head, "head_options": options or {}, "hidden_units": 256,
            "embedding_units": 256, "dropout": 0.0,
        },
        training={
            "epochs": 1, "pseudo_epochs": 15, "max_steps": 1500, "learning_rate": 0.5,
            "clip_norm": 5.0,
        },
        paper=paper or {},
        scale="1/2 of the paper's units, 1,500 steps instead of 50 epochs",
    )


RUNS = [
    _run("full", "full", paper={"perplexity": 129.51, "words_per_second": 22_110}),
    _run(
        "adaptive_whole", "adaptive", {"cutoffs": CUTOFFS, "projection_factor": None},
        {"perplexity": 129.33, "words_per_second": 63_256},
    ),
    _run("adaptive_factor2", "adaptive", {"cutoffs": CUTOFFS, "projection_factor": 2}),
    _run(
        "adaptive_factor4", "adaptive", {"cutoffs": CUTOFFS, "projection_factor": 4},
        {"perplexity": 132.69, "words_per_second": 71_203},
    ),
    _run("adaptive_auto", "adaptive", {"cutoffs": "auto", "projection_factor": 4}),
    _run("differentiated", "differentiated", {"cutoffs": CUTOFFS}),
    _run("two_level", "two_level", {"cutoffs": CUTOFFS[:1]}),
]

"""Proposals that depend on the word before, at few samples.

Reproduces: nothing of one paper; it asks what Müller 2017, section 2.2.3.2, reports of Labeau and
Allauzen 2017, that bigram noise helps NCE, section 2.2.3.1 of Bengio and Senécal 2003 and 2008,
that their proposal is an n-gram model that follows the model, and section 5.2.2 of Bengio et al.
2003, that a bigram proposal did not yield good results. Each position draws 5 or 25
words of its own; "shared" runs draw 1,280 words for all positions of a step. "interpolated" gives
the unigram distribution a weight of 0.3 after every word, and "bigram" what absolute discounting
gives it. "importance" leaves the label out of the sum (equation 2.26).

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.inputs.bigrams --data=data/million
    python -m experiments.run contexts --data=data/million

Hardware and hours: not run yet at this scale.
"""

from experiments.framework.seeds import seeded
from experiments.tables.million import run

NGRAM = {"sampler": "bigram", "ngram": "{data}/bigrams.arpa"}
PROPOSALS = {
    "unigram": {},
    "bigram": NGRAM,
    "interpolated": {**NGRAM, "sampler_options": {"unigram_weight": 0.3}},
    "online": {"sampler": "online_bigram"},
}
HEADS = {"nce": ("nce", {}), "sampled": ("sampled", {}),
         "importance": ("sampled", {"label_in_sum": False})}

RUNS = seeded([
    *(run(f"{name}-shared", head, options) for name, (head, options) in HEADS.items()),
    run("nce-context", "nce", {"train_z": "context"}),
    *(run(f"{name}-{proposal}{samples}", head,
          {**options, **PROPOSALS[proposal], "num_samples": samples, "shared_samples": False})
      for name, (head, options) in HEADS.items() for proposal in PROPOSALS for samples in (5, 25)),
], (1,))

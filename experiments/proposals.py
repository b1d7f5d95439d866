"""NCE's constant Z, proposal distributions and numbers of samples, at convergence.

Reproduces: Müller 2017, figures 5.6 (Z of NCE), 5.9 (distorted unigrams, for importance sampling
and for NCE at three Z), 5.10 (interpolation with the uniform distribution, fixed or by a schedule)
and 5.11 (number of samples), which the thesis gives as plots. Departures: those of `methods`. Z
is scaled with the vocabulary: for 10,000 words instead of 44,370 the thesis's e^9 = 8,103 becomes
1,826, and 20,000, 40,000 and 100,000 become 4,508, 9,015 and 22,538.
The unigram weight of the schedule grows from 0.8 to 1 in the first five epochs.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run proposals --data=data/million

Hardware and hours: each run has one core, which it shares with other work, so that its minutes and
words/s say nothing of the method (results/benchmarks compares speeds).
"""

from experiments.million import run
from experiments.seeds import seeded

CONSTANTS = (1, 1826, 4508, 9015, 22538)
ALPHAS = (0.0, 0.4, 0.75, 1.0)
SAMPLES = (80, 320, 1280, 2560)
FIVE_EPOCHS = 5 * 376  # steps of the million-word corpus with 128 streams of 20 words
GROWING = {
    "class_name": "PolynomialDecay",
    "config": {"initial_learning_rate": 0.8, "end_learning_rate": 1.0, "decay_steps": FIVE_EPOCHS},
}


def _interpolated(weight):
    return {"sampler": "interpolated", "sampler_options": {"unigram_weight": weight}}


RUNS = seeded([
    run("full", "full"),
    *(run(f"nce-Z{z}", "nce", {"Z": z}) for z in CONSTANTS),
    *(run(f"sampled-alpha{a}", "sampled", {"sampler_options": {"alpha": a}}) for a in ALPHAS),
    *(run(f"nce-Z{z}-alpha{a}", "nce", {"Z": z, "sampler_options": {"alpha": a}})
      for z in (1, 1826, 9015) for a in ALPHAS if a != 1.0),
    run("sampled-interpolated0.95", "sampled", _interpolated(0.95)),
    run("sampled-interpolated0.8", "sampled", _interpolated(0.8)),
    run("sampled-schedule", "sampled", _interpolated(GROWING)),
    *(run(f"{head}-samples{s}", head, {"num_samples": s})
      for head in ("sampled", "nce") for s in SAMPLES if s != 1280),
], (1,))

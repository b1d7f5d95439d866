"""NCE's constant Z, proposal distributions and numbers of samples, at convergence.

Reproduces: Müller 2017, figures 5.6 (Z of NCE), 5.9 (distorted unigrams, for importance sampling
and for NCE at several Z), 5.10 (interpolation with the uniform distribution, fixed or by a
schedule) and 5.11 (number of samples). The thesis shows these as plots and does not name the points
in its text. Departures: those of `methods`. Z is scaled with the vocabulary, from 44,370 words to
10,000: e^9 = 8,103, the Z of Chen et al., becomes 1,826; 20,000 becomes 4,508 and 100,000 becomes
22,538; and where the thesis has 40,000 elsewhere, Z is 10,000, as in `methods`. The numbers of
samples are not scaled. In the schedule, the unigram weight grows from 0.8 to 1 in the first five
epochs. Runs that are the same as those of `methods` are not trained twice.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.run proposals --data=data/million

Hardware and hours: each run has one core and shares it with other work. results/benchmarks compares
speeds.
"""

from experiments.framework.panels import Panel
from experiments.framework.seeds import seeded_where_close
from experiments.tables.million import run

CONSTANTS = (1, 1826, 4508, 10000, 22538)
DISTORTED = (1, 1826, 10000)  # of the constants, those with distorted unigrams
ALPHAS = (0.0, 0.4, 0.75, 1.0)
SAMPLES = (80, 320, 1280, 2560)
FIVE_EPOCHS = 5 * 376  # steps of the million-word corpus with 128 streams of 20 words
GROWING = {
    "class_name": "PolynomialDecay",
    "config": {"initial_learning_rate": 0.8, "end_learning_rate": 1.0, "decay_steps": FIVE_EPOCHS},
}


def _interpolated(weight):
    return {"sampler": "interpolated", "sampler_options": {"unigram_weight": weight}}


def _constant(z):
    return {} if z == 10000 else {"Z": z}  # of itself Z is the size of the vocabulary


def _distorted(alpha):
    return {} if alpha == 1.0 else {"sampler_options": {"alpha": alpha}}


CLOSE = ("nce-Z1826", "sampled-samples80", "sampled-samples320")  # near others with one seed
RUNS = seeded_where_close([
    run("full", "full"),
    *(run(f"nce-Z{z}", "nce", _constant(z)) for z in CONSTANTS),
    *(run(f"sampled-alpha{a}", "sampled", _distorted(a)) for a in ALPHAS),
    *(run(f"nce-Z{z}-alpha{a}", "nce", {**_constant(z), **_distorted(a)})
      for z in DISTORTED for a in ALPHAS if a != 1.0),
    run("sampled-interpolated0.95", "sampled", _interpolated(0.95)),
    run("sampled-interpolated0.8", "sampled", _interpolated(0.8)),
    run("sampled-schedule", "sampled", _interpolated(GROWING)),
    *(run(f"{head}-samples{s}", head, {"num_samples": s})
      for head in ("sampled", "nce") for s in SAMPLES if s != 1280),
], CLOSE)

_BY_ALPHA = {a: f"sampled-alpha{a}" for a in ALPHAS}
PANELS = (
    Panel("NCE's constant, figure 5.6", "normalisation constant Z",
          {"NCE": {z: f"nce-Z{z}" for z in CONSTANTS}}),
    Panel("distorted unigrams, figure 5.9", "distortion α", {
        "importance sampling": _BY_ALPHA,
        **{f"NCE, Z = {z:,}": {**{a: f"nce-Z{z}-alpha{a}" for a in ALPHAS}, 1.0: f"nce-Z{z}"}
           for z in DISTORTED},
    }),
    Panel("interpolation with uniform, figure 5.10", "weight of the unigram λ",
          {"importance sampling": {
              "0.8": "sampled-interpolated0.8", "0.95": "sampled-interpolated0.95",
              "0.8 to 1": "sampled-schedule", "1": "sampled-alpha1.0",
          }}),
    Panel("number of samples, figure 5.11", "samples", {
        "importance sampling": {s: f"sampled-samples{s}" for s in SAMPLES} | {
            1280: "sampled-alpha1.0"},
        "NCE, Z = 10,000": {s: f"nce-samples{s}" for s in SAMPLES} | {1280: "nce-Z10000"},
    }),
)

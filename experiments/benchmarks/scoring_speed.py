#!/usr/bin/env python3
"""How many sentences a second `Scorer` scores, against simpler ways to the same numbers.

    python -m experiments.benchmarks.scoring_speed

Sentences of words drawn from Zipf's distribution, their lengths from a negative binomial
distribution of mean 17 (novels: 17.6); untrained weights, on which the speed does not depend.

    Scorer             as `tfsoftmax score` uses it: sorted by length, 128 side by side
    one by one         the same, a sentence at a time
    full logits        batches of 128 in the order of the file, padded to the longest; softmax
                       over the vocabulary of every position, of which the word's is taken
    n-best, shared     20 hypotheses a sentence, which differ from it in one word each, in one
                       call: common beginnings are scored once
    n-best, apart      the same hypotheses, those of a sentence in different calls

Ways take turns; medians of --repeats, and of `Scorer` also sentences a second of processor time,
all threads together, which other work on the machine disturbs less. Writes
experiments/results/scoring_speed/README.md.
"""

import pathlib
import statistics
import sys
import time

import numpy as np
from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "scoring_speed"
BATCH, HYPOTHESES = 128, 20
ALONE, NAIVE, SHARED, APART = "one by one", "full logits", "n-best, shared", "n-best, apart"
# (head, normalisation, V, units)
MODELS = (
    ("full", "exact", 10_000, 128),
    ("full", "exact", 30_000, 256),
    ("adaptive", "exact", 30_000, 256),
    ("tree", "exact", 30_000, 256),
    ("nce", "constant", 30_000, 256),
)

flags.DEFINE_integer("sentences", 2048, "number of sentences; a sixteenth of them one by one")
flags.DEFINE_integer("repeats", 3, "timed runs of each way")


def build(head, vocab_size, units):
    """A vocabulary with Zipf counts, and models of BATCH streams and of one, of like weights."""
    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.model import language_model
    from tfsoftmax.vocabulary import Vocabulary

    words = ["<eos>", "<unk>", *(f"w{i}" for i in range(vocab_size - 2))]
    vocabulary = Vocabulary(words, (1e7 / np.arange(1, vocab_size + 1)).astype(int) + 1)
    options = {"cutoffs": [3000, 12000]} if head == "adaptive" else {}
    config = ModelConfig(
        head=head, head_options=options, embedding_units=units, hidden_units=units, dropout=0.0
    )
    wide, narrow = (language_model(config, vocabulary, streams) for streams in (BATCH, 1))
    narrow.set_weights(wide.get_weights())
    return vocabulary, wide, narrow


def text(vocabulary, count):
    """Sentences of words by Zipf's distribution."""
    rng = np.random.default_rng(0)
    lengths = 1 + rng.negative_binomial(2, 2 / 18, count)
    mass = vocabulary.counts / vocabulary.counts.sum()
    drawn = rng.choice(len(mass) - 2, lengths.sum(), p=mass[2:] / mass[2:].sum()) + 2
    return [vocabulary.decode(ids) for ids in np.split(drawn, np.cumsum(lengths)[:-1])]


def hypotheses_of(sentences, vocabulary):
    """HYPOTHESES of each sentence, each with another word in one place."""
    rng, lists = np.random.default_rng(1), []
    for words in sentences:
        of_sentence = []
        for _ in range(HYPOTHESES):
            changed = list(words)
            changed[rng.integers(len(words))] = vocabulary.words[rng.integers(2, 1000)]
            of_sentence.append(changed)
        lists.append(of_sentence)
    return lists


def ways(vocabulary, wide, narrow, normalisation, sentences):
    """{way: (a function to time, number of sentences that it scores)}."""
    from tfsoftmax.lm.scoring import Scorer

    scorer, alone = (Scorer(model, vocabulary, normalisation) for model in (wide, narrow))
    few = sentences[: len(sentences) // 16]
    lists = hypotheses_of(few, vocabulary)
    together = [words for of_sentence in lists for words in of_sentence]
    functions = {
        "Scorer": (lambda: scorer.sentences(sentences), len(sentences)),
        ALONE: (lambda: [alone.sentences([words]) for words in few], len(few)),
        SHARED: (lambda: scorer.sentences(together), len(together)),
        APART: (
            lambda: [scorer.sentences(list(of_rank)) for of_rank in zip(*lists)], len(together)
        ),
    }
    if normalisation == "exact":
        functions[NAIVE] = (padded_logits(wide, vocabulary, few), len(few))
    return functions


def padded_logits(model, vocabulary, sentences):
    """A function that scores sentences by logits of all words and positions."""
    import tensorflow as tf

    from tfsoftmax.lm.model import reset_states

    @tf.function(reduce_retracing=True)
    def step(words, labels):
        log_probs = tf.nn.log_softmax(model(words, training=False))
        return tf.gather(log_probs, labels, batch_dims=2)

    def score():
        for start in range(0, len(sentences), BATCH):
            ids = [vocabulary.encode(words) for words in sentences[start : start + BATCH]]
            shape = (BATCH, max(map(len, ids)) + 1)
            words, labels = np.full((2, *shape), vocabulary.eos_id, np.int32)
            for row, of_sentence in enumerate(ids):
                words[row, 1 : len(of_sentence) + 1] = of_sentence
                labels[row, : len(of_sentence)] = of_sentence
            reset_states(model)
            step(words, labels).numpy()

    return score


def measure(functions):
    """Median sentences a second, and a second of processor time, of each way."""
    seconds = {name: [] for name in functions}
    for function, _ in functions.values():
        function()
    for _ in range(flags.FLAGS.repeats):
        for name, (function, _) in functions.items():
            start = time.perf_counter(), time.process_time()
            function()
            end = time.perf_counter(), time.process_time()
            seconds[name].append([b - a for a, b in zip(start, end)])
    return [
        {name: functions[name][1] / statistics.median(s) for name, s in of_clock.items()}
        for of_clock in ({n: [s[clock] for s in v] for n, v in seconds.items()} for clock in (0, 1))
    ]


def main(_):
    from tfsoftmax.hardware import hardware

    columns = ("Scorer", ALONE, NAIVE, SHARED, APART)
    heading = "| head | normalisation | V | units | Scorer, words/s | per CPU second | "
    lines = [heading + " | ".join(columns) + " |", "|---|---|" + "---:|" * (4 + len(columns))]
    for head, normalisation, vocab_size, units in MODELS:
        vocabulary, wide, narrow = build(head, vocab_size, units)
        sentences = text(vocabulary, flags.FLAGS.sentences)
        tokens = sum(len(words) + 1 for words in sentences) / len(sentences)
        rates, of_processor = measure(ways(vocabulary, wide, narrow, normalisation, sentences))
        cells = [f"{rates[c]:,.0f}" if c in rates else "–" for c in columns]
        lines.append(
            f"| {head} | {normalisation} | {vocab_size:,} | {units} | "
            f"{tokens * rates['Scorer']:,.0f} | {of_processor['Scorer']:,.0f} | "
            + " | ".join(cells) + " |"
        )
        print(lines[-1], flush=True)
    explained = __doc__.partition("    Scorer")[2].partition("\n\nWays")[0]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text("\n".join([
        "# Sentences scored a second", "",
        f"`python -m experiments.benchmarks.scoring_speed` on {hardware()}: one LSTM layer, "
        f"sentences of {tokens:.1f} tokens, `<eos>` included. Words/s are tokens; the other "
        "columns are sentences, or hypotheses, a second, the first of them a second of processor "
        f"time. Medians of {flags.FLAGS.repeats} runs that take turns.", "",
        "```", "    Scorer" + explained, "```", "", *lines, "",
    ]), encoding="utf-8")


if __name__ == "__main__":
    app.run(main)

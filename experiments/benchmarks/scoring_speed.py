"""How many sentences `Scorer` scores in a second, compared with simpler ways to the same numbers.

    python -m experiments.benchmarks.scoring_speed

The words of the sentences are drawn from Zipf's distribution, and their lengths from a negative
binomial distribution of mean 17 (the mean of novels is 17.6). The weights are untrained, on which
the speed does not depend.

    Scorer             as `tfsoftmax score` uses it: sorted by length, 128 side by side
    one by one         the same scorer with one sentence at a time
    full logits        batches of 128 in the order of the file, padded to the longest sentence; a
                       softmax over the vocabulary at every position, from which the probability
                       of the word is taken
    n-best, shared     20 hypotheses for each sentence, which differ from it in one word each, in
                       one call: common beginnings are scored once
    n-best, apart      the same hypotheses, those of one sentence in different calls

The ways take turns, and the medians of --repeats runs count. For `Scorer` the table also has
sentences per second of processor time of all threads together, which other work on the machine
disturbs less. Writes experiments/results/scoring_speed/README.md.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.measure import medians
from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/scoring_speed")
BATCH, HYPOTHESES = 128, 20
SCORER, ALONE, NAIVE = "Scorer", "one by one", "full logits"
SHARED, APART = "n-best, shared", "n-best, apart"
# (head, normalisation, V, units)
MODELS = (
    ("full", "exact", 10_000, 128),
    ("full", "exact", 30_000, 256),
    ("adaptive", "exact", 30_000, 256),
    ("tree", "exact", 30_000, 256),
    ("nce", "constant", 30_000, 256),
)


def build(head, vocab_size, units):
    """A vocabulary with Zipf counts, and models of BATCH streams and of one with equal weights."""
    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.model import language_model
    from tfsoftmax.support.vocabulary import Vocabulary

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
    """Sentences of words that are drawn from Zipf's distribution."""
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
    """Two dicts by the name of the way: functions to time, and how many sentences each scores."""
    from tfsoftmax.lm.scoring import Scorer

    scorer, alone = (Scorer(model, vocabulary, normalisation) for model in (wide, narrow))
    few = sentences[: len(sentences) // 16]
    lists = hypotheses_of(few, vocabulary)
    together = [words for of_sentence in lists for words in of_sentence]
    functions = {
        SCORER: lambda: scorer.sentences(sentences),
        ALONE: lambda: [alone.sentences([words]) for words in few],
        SHARED: lambda: scorer.sentences(together),
        APART: lambda: [scorer.sentences(list(of_rank)) for of_rank in zip(*lists)],
    }
    if normalisation == "exact":
        functions[NAIVE] = padded_logits(wide, vocabulary, few)
    sizes = {SCORER: len(sentences), ALONE: len(few), NAIVE: len(few), SHARED: len(together),
             APART: len(together)}
    return functions, sizes


def padded_logits(model, vocabulary, sentences):
    """A function that scores sentences from the logits of all words at all positions."""
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


def main():
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    columns = (SCORER, ALONE, NAIVE, SHARED, APART)
    rows = [["head", "normalisation", "V", "units", "Scorer, words/s", "per CPU second", *columns]]
    for head, normalisation, vocab_size, units in MODELS:
        vocabulary, wide, narrow = build(head, vocab_size, units)
        sentences = text(vocabulary, flags.FLAGS.sentences)
        tokens = sum(len(words) + 1 for words in sentences) / len(sentences)
        functions, sizes = ways(vocabulary, wide, narrow, normalisation, sentences)
        seconds = medians(functions, flags.FLAGS.repeats)
        rates = {name: sizes[name] / wall for name, (wall, _) in seconds.items()}
        rows.append([
            head, normalisation, f"{vocab_size:,}", str(units), f"{tokens * rates[SCORER]:,.0f}",
            f"{sizes[SCORER] / seconds[SCORER][1]:,.0f}",
            *(f"{rates[c]:,.0f}" if c in rates else "–" for c in columns),
        ])
        print(*rows[-1], sep=" | ", flush=True)
    write(rows, tokens, hardware(), flags.FLAGS.repeats)


def write(rows, tokens, hardware, repeats):
    """Writes the page of results."""
    explained = __doc__.partition("    Scorer")[2].partition("\n\nThe ways")[0]
    markdown.write(
        RESULTS / "README.md", "# Sentences scored in a second",
        f"`python -m experiments.benchmarks.scoring_speed` on {hardware}: one LSTM layer, and "
        f"sentences of {tokens:.1f} tokens on average, `<eos>` included. Words/s counts tokens. "
        "The other columns count sentences or hypotheses in a second; the first of them counts "
        f"sentences in a second of processor time. Medians of {repeats} runs that take turns.",
        f"```\n    Scorer{explained}\n```", markdown.table(rows, text_columns=2),
    )


if __name__ == "__main__":
    flags.DEFINE_integer("sentences", 2048, "Number of sentences; a sixteenth goes one by one.")
    flags.DEFINE_integer("repeats", 3, "Number of timed runs of each way.")
    program.run(main, __doc__, sys.argv)

"""Log-probabilities of sentences, and of their words, under a trained model.

    tfsoftmax score --run=runs/first --input=sentences.txt > scores.txt
    echo "returns the number of bytes" | tfsoftmax score --run=runs/first --words

Input: one sentence a line, words between blanks, UTF-8, plain or .gz, .xz, .bz2. A line without
words is a sentence without words: it scores ln P(<eos>).

Output, in the order of the input, 4,096 sentences at a time: a line a sentence, its score, a tab,
the sentence. With --words a line for each word and for <eos> behind the last: score, tab, word;
words that the vocabulary lacks have a third column, <unk>; an empty line follows each sentence.
A sentence's score is the sum of its words' and of <eos>'s.

The last line on standard error is JSON: perplexity, nats_per_token (natural logarithm, whatever
--base), sentences, tokens (words, and one <eos> a sentence), oov_tokens, sentences_per_second,
words_per_second (tokens; start-up not counted).

Each sentence is scored by itself, as if a text began with it; with --stream the file is one text,
states carried over from sentence to sentence, as in training and in tfsoftmax evaluate. Words that
the vocabulary lacks:

    --oov=unk      P(<unk>), the probability that any such word follows
    --oov=skip     count for nothing, in score and perplexity, but are read as <unk>
    --oov=spread   P(<unk>) / K, if --unseen_words=K words share it: comparable with models of
                   larger vocabularies

--normalisation=constant takes the scores of nce, negative and self_normalised heads, and of full
with a z_loss, for log-probabilities, as they are meant to be. That is faster and not exact, so
that the totals are called self_normalised_nats, and there is no perplexity.
"""

import io
import itertools
import json
import math
import sys
import time

from absl import flags

from tfsoftmax.commands import dataclass_flags
from tfsoftmax.commands.program import load_tensorflow

BATCH = 128
WINDOW = 4096  # sentences that are sorted by length together


def define_flags():
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("input", "-", "file of sentences, one a line; - for standard input")
    flags.DEFINE_bool("words", False, "also score each word")
    flags.DEFINE_enum("base", "e", ["e", "10"], "of the logarithms")
    flags.DEFINE_bool("stream", False, "score the sentences as one text instead of each by itself")
    dataclass_flags.define_scoring()


def main():
    options = flags.FLAGS
    lines = sentences(options.input)
    window = list(itertools.islice(lines, WINDOW))  # a missing file is named at once
    if not window:
        raise ValueError(f"`input` must hold sentences. Received: input={options.input!r}")
    load_tensorflow()
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.scoring import Scorer, Totals

    streams = 1 if options.stream else BATCH
    model, vocabulary, _ = runs.load(options.run, streams)
    scorer = Scorer(model, vocabulary, options.normalisation, options.oov, options.unseen_words)
    score = scorer.stream if options.stream else scorer.sentences
    score([[]])  # the first call traces; that is not scoring
    scorer.restart()
    totals, seconds, unit = Totals(scorer), 0.0, math.log(10) if options.base == "10" else 1.0
    show = words_of if options.words else sentence_of
    while window:
        start = time.perf_counter()
        scores = score(window)
        seconds += time.perf_counter() - start
        for words, log_probs in zip(window, scores):
            totals.add(words, log_probs)
            print(show(words, log_probs / unit, scorer))
        sys.stdout.flush()
        window = list(itertools.islice(lines, WINDOW))
    rates = {
        "sentences_per_second": round(totals.sentences / seconds, 1),
        "words_per_second": round(totals.tokens / seconds, 1),
    }
    print(json.dumps({**totals.result(), **rates}), file=sys.stderr)


def sentences(path):
    """The words of each line of a file, or of standard input."""
    if path == "-":
        blocks = [io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="\n")]
    else:
        from tfsoftmax.corpora.text import TextFiles

        # A block ends with a line's end, behind which there is no line.
        blocks = (block[:-1] if not block[-1] else block for block in TextFiles([path]))
    for block in blocks:
        for line in block:
            yield line.split()


def sentence_of(words, log_probs, _):
    return f"{log_probs.sum():.6f}\t{' '.join(words)}"


def words_of(words, log_probs, scorer):
    lines = [
        f"{log_prob:.6f}\t{word}" + ("\t<unk>" if unknown else "")
        for word, log_prob, unknown in zip([*words, "<eos>"], log_probs, scorer.unknown(words))
    ]
    return "\n".join([*lines, ""])

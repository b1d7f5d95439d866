"""Scores sentences and their words with a trained model.

    tfsoftmax score --run=runs/first --input=sentences.txt > scores.txt
    echo "returns the number" | tfsoftmax score --run=runs/first --words

The input has one sentence per line, with words between blanks, in UTF-8, plain or compressed (.gz,
.xz, .bz2). A line without words is a sentence without words, whose score is ln P(<eos>). A line has
at most 1 MiB, or 16 MiB with --stream. Sentence markers such as <s> and </s> at the beginning and
end of a line are left out, with a note, unless the run is on pieces; elsewhere they are an error.

The output keeps the order of the input and appears 4,096 sentences at a time. Each line holds the
score of a sentence, a tab and the sentence. The score is the sum of the log-probabilities of its
words and of <eos>. With --words each line holds the score of a word, a tab and the word, and for
words that the vocabulary lacks a third column, <unk>; <eos> follows the last word, and an empty
line follows each sentence. A run on pieces (tfsoftmax prepare --tokenizer) scores text in the same
way: a word has the sum of the scores of its pieces, and of the blanks before it.

The last line on standard error is JSON: perplexity, nats_per_token (natural logarithms with any
--base), sentences, tokens (the words and one <eos> for each sentence), oov_tokens, oov_rate (their
share of the words), sentences_per_second and words_per_second (tokens, without the startup time).
An infinite number is null. A run on pieces counts these as tokens, and adds words, word_perplexity
and, if the pieces restore the text exactly, bits_per_byte, with a byte for the end of each line. If
the vocabulary lacks more than a fifth of the words, a warning precedes this line; --lowercase helps
if only the case differs.

Each sentence is scored separately, as if a text began with it. With --stream the file is one text:
the model carries its states from sentence to sentence, as in training and in tfsoftmax evaluate.
Words that the vocabulary lacks are read as <unk>, and scored according to --oov:

    --oov=unk      with P(<unk>), the probability that any such word follows
    --oov=skip     with nothing; they do not count in scores and perplexity
    --oov=spread   with P(<unk>) / K, if --unseen_words=K words share <unk>, so that one can
                   compare the model with models of larger vocabularies

With --strategy=mirrored, all devices of the machine share the sentences. With --workers=N, or in a
cluster (--strategy=multiworker), processes with one device each share them, and the first process
prints. Each reads the whole --input, which then must be a file.

--open_vocabulary gives each word of --input that the vocabulary lacks its own probability, if the
rows of the output layer come from characters (--head=char_cnn, or "characters" among the options of
a head). The probabilities of all words, including these, sum to one, so each added word takes some
probability from all others, and the score of a sentence depends on the unseen words in the rest of
--input. Compare only sentences of the same file, or models on the same file. The last line counts
the added_words. <unk> remains one of the words.

--normalisation=constant takes the scores of nce, negative and self_normalised heads, and of full
with a z_loss, as log-probabilities, which these heads learn to approximate. This is faster but
not exact; therefore the total is called self_normalised_nats, and there is no perplexity.
"""

import dataclasses
import itertools
import math
import sys
import time

from tfsoftmax.commands.program import printable
from tfsoftmax.commands.shared import Processes, Scoring, fork_workers, started_workers
from tfsoftmax.support.arguments import expect, refusing
from tfsoftmax.support.textio import LINE_BYTES, is_read_once, json_line, lines, name_of

BATCH = 128
WINDOW = 4096  # the number of sentences that are sorted by length together
TEXT_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class ScoreOptions:
    """Run, text and what is printed.

    Attributes:
        run: Directory of a training run.
        input: File of sentences, one per line; - for standard input.
        words: Print the score of each word.
        base: Base of the logarithms that are printed.
        stream: Score the sentences as one text instead of separately.
        open_vocabulary: Score words that the vocabulary lacks by their characters. The scores
            depend on all such words in the file.
    """

    CHOICES = {"base": ("e", "10")}

    run: str
    input: str = "-"
    words: bool = False
    base: str = "e"
    stream: bool = False
    open_vocabulary: bool = False


def main(options: ScoreOptions, scoring: Scoring, shared: Processes):
    processes = shared.workers > 1 or shared.strategy == "multiworker"
    several = processes or shared.strategy != "none"
    once = is_read_once(options.input)
    expect(not (processes and once or options.stream and several), "workers",
           "be 1 for a stream, standard input or a pipe, since processes share a file",
           received={"workers": shared.workers, "strategy": shared.strategy,
                     "input": options.input, "stream": options.stream})
    expect(not options.open_vocabulary or (not once and shared.strategy != "mirrored"),
           "open_vocabulary", "be used with a file, and not with strategy=mirrored",
           received=f"input={options.input!r}, strategy={shared.strategy!r}")
    fork_workers(shared)
    text = sentences(options.input, options.stream, scoring.lowercase)
    first = next(text, None)  # before TensorFlow, to fail at once
    expect(first is not None, "input", "hold sentences", options.input)
    workers = started_workers(shared)
    from tfsoftmax.corpora.counting import Tally
    from tfsoftmax.lm.evaluation import Totals, text_measures
    from tfsoftmax.lm.sentences import MUCH_OOV, WORDS, oov_report, unmarked, windows
    from tfsoftmax.runs import runs
    from tfsoftmax.runs.shared_scoring import SharedScorer, load
    from tfsoftmax.support.marks import Marks

    streams = 1 if options.stream else BATCH
    tokenizer, tally = runs.Run(options.run).tokenizer(), Tally()
    in_pieces = tokenizer.pieces is not None
    marks = Marks(are_text=in_pieces)
    model, vocabulary, _ = load(workers, options.run, streams)
    unseen = {}
    if options.open_vocabulary:
        from tfsoftmax.lm.open_vocabulary import with_unseen_words
        from tfsoftmax.support.vocabulary import OTHER_SPELLINGS

        expect(not in_pieces, "open_vocabulary", "be used with a run on words", received="pieces")
        again = sentences(options.input, options.stream, scoring.lowercase)
        known = {*vocabulary.words, *OTHER_SPELLINGS.values()}  # <UNK> is no word
        again = unmarked(again, Marks())
        unseen = dict.fromkeys(word for line in again for word in line.split() if word not in known)
        rule = "be used with a run whose head reads characters"
        with refusing(ValueError, "open_vocabulary", rule):
            model, vocabulary = with_unseen_words(model, vocabulary, list(unseen))
    scorer = SharedScorer(
        workers, model, vocabulary, scoring.normalisation, scoring.oov, scoring.unseen_words
    )
    score = scorer.stream if options.stream else scorer.sentences
    score([[]])  # traces the model before the clock starts
    scorer.restart()
    totals, seconds, unit = Totals(scorer), 0.0, math.log(10) if options.base == "10" else 1.0
    show = words_of if options.words else sentence_of
    lines_of_text = unmarked(itertools.chain([first], text), marks)
    given = tokenized(lines_of_text, tokenizer, tally)
    warned, shown = False, printable if sys.stdout.isatty() else str
    for window in windows(given, WINDOW, WORDS):
        start = time.perf_counter()
        scores = score(window)
        seconds += time.perf_counter() - start
        for words, log_probs in zip(window, scores, strict=True):
            totals.add(words, log_probs)
            print(shown(show(words, log_probs / unit, scorer, tokenizer)))
        sys.stdout.flush()
        if workers.first and totals.oov_tokens > MUCH_OOV * totals.words and not warned:
            report = oov_report(name_of(options.input), totals.words, totals.oov_tokens)
            print(report, file=sys.stderr, flush=True)
            warned = True
    measures = {"added_words": len(unseen)} if options.open_vocabulary else {}
    if in_pieces and scoring.normalisation == "exact" and scoring.oov != "skip":
        tally.oov = totals.oov_tokens
        measures = {"words": tally.words, **text_measures(tally, -totals.log_prob)}
    rates = {
        "sentences_per_second": round(totals.sentences / seconds, 1),
        "words_per_second": round(totals.tokens / seconds, 1),
    }
    if workers.first:
        if report := marks.report(name_of(options.input)):
            print(f"note: {report}", file=sys.stderr)
        print(json_line({**totals.result(), **measures, **rates}), file=sys.stderr)


def sentences(path, is_one_text, lowercase):
    """Yields the places and the lines of a file, or of standard input."""
    # The lines of one text are read one after the other; others wait for the longest.
    for where, line in lines(path, TEXT_BYTES if is_one_text else LINE_BYTES):
        yield where, line.lower() if lowercase else line


def tokenized(sentences, tokenizer, tally):
    """Yields the words or pieces of each sentence, and counts them."""
    for sentence in sentences:
        pieces = tokenizer.encode(sentence)
        tally.add(sentence, pieces, tokenizer)
        yield pieces


def sentence_of(words, log_probs, _, tokenizer):
    """A sentence and its score, as a line."""
    return f"{log_probs.sum():.6f}\t{tokenizer.decode(words)}"


def words_of(words, log_probs, scorer, tokenizer):
    """The words of a sentence and their scores, a line for each, and an empty line."""
    unknown = scorer.unknown(words)
    if tokenizer.pieces is not None:
        words, log_probs, unknown = of_words(tokenizer, words, log_probs, unknown)
    rows = zip([*words, "<eos>"], log_probs, unknown, strict=True)
    lines = [
        f"{log_prob:.6f}\t{word}" + ("\t<unk>" if unknown else "")
        for word, log_prob, unknown in rows
    ]
    return "\n".join([*lines, ""])


def of_words(tokenizer, pieces, log_probs, unknown):
    """The words of a sentence in pieces, and the scores of the words, as those of its pieces."""
    import numpy as np

    from tfsoftmax.corpora.tokenizers import word_numbers

    words, numbers = word_numbers(tokenizer, pieces)
    places = [*numbers, len(words)]
    scores = np.bincount(places, log_probs, len(words) + 1)
    return words, scores, np.bincount(places, unknown, len(words) + 1) > 0

"""Writes a summary of each text with a model that was trained on pairs.

    tfsoftmax summarise --run=runs/pairs --input=articles.txt > titles.txt
    echo "china is expected" | tfsoftmax summarise --run=runs/pairs --nbest=3
    tfsoftmax summarise --run=runs/pairs --input=input.txt --exact_words=30
    tfsoftmax summarise --run=runs/pairs --input=one.txt --attention=a.png

Each line of the input is a text, in words separated by blanks and spelt as in the corpus. Its
summary is a line of the output, written as soon as it is found, in the same order; an empty line
has an empty summary. Words that the model does not know are read as <unk>, and so is the word
<eos>. Texts are cut to the same number of words as those of the corpus. A note on standard error
says how many were cut. If the model writes <unk>, it is replaced with the word of the text that the
model attends to most.

--beam searches for the likeliest summaries; with --beam=1 the likeliest word is taken each time.
With --nbest=3 there are up to three lines for each text, with its number, ln P and the summary,
separated by tabs, and none for an empty line. --exact_words=30 makes each summary exactly 30 words
long, as is usual for DUC-2004.
"""

import dataclasses
import itertools
import os
import sys

from tfsoftmax.commands.program import check_plot, load_tensorflow, printable, save_plot
from tfsoftmax.pairs.commands.search import Search
from tfsoftmax.support.arguments import check_at_least, expect
from tfsoftmax.support.progress import bar
from tfsoftmax.support.textio import line_blocks, name_of

DRAWN_WORDS = 200  # of a text and of a summary


@dataclasses.dataclass(frozen=True)
class SummariseOptions:
    """Run, texts and what is printed.

    Attributes:
        run: Directory of a training run.
        input: File of texts, one per line; - for standard input.
        nbest: Number of summaries of each text, at most the beam.
        keep_unk: Leave <unk> in the summaries.
        attention: Picture of how the words of the first summary attend to the first 200 words of
            its text, drawn after all texts: a PNG file, or another format by its extension. Needs
            matplotlib.
        overwrite: Replace a file that exists.
    """

    run: str
    input: str = "-"
    nbest: int = 1
    keep_unk: bool = False
    attention: str | None = None
    overwrite: bool = False


def main(options: SummariseOptions, search: Search):
    check_at_least(1, nbest=options.nbest)
    expect(options.nbest <= search.beam, "nbest", f"be at most `beam`, {search.beam}",
           options.nbest)
    if options.attention is not None:
        check_plot(options.attention, "attention")
    blocks = line_blocks(options.input)
    first = next(blocks, None)  # before TensorFlow, to fail at once
    expect(first is not None, "input", "hold texts", options.input)
    load_tensorflow()
    from tfsoftmax.pairs.summaries import Summariser
    from tfsoftmax.pairs.task import PAIRS
    from tfsoftmax.runs import runs
    from tfsoftmax.support.marks import Marks

    model, vocabulary, config = runs.load(options.run, None, task=PAIRS)
    summariser = Summariser(model, vocabulary, config["corpus"]["max_source"])
    first_found, counts = None, {"texts": 0, "empty": 0, "cut": 0, "words": 0, "unknown": 0}
    ended_at_once = 0
    marks = Marks()
    shown = bar(None, None, "texts", not sys.stdout.isatty())
    for number, lines in itertools.chain([first], blocks):  # from a pipe, those that are there
        sources = [marks.words(line.split()) for line in lines]
        _count(counts, sources, summariser, vocabulary)
        summaries = summariser.stream(sources, **search.arguments(), nbest=options.nbest)
        for i, (source, found) in enumerate(zip(sources, summaries, strict=True), start=number):
            _write(i, source, found, options)
            ended_at_once += bool(found) and not found[0].words
            shown.update()
            first_found = first_found or (source, found)
    shown.close()
    if ended_at_once:
        print(
            f"warning: {ended_at_once:,} of {counts['texts']:,} texts got a summary without words, "
            "as the likeliest one ends at once; train longer, or give --exact_words",
            file=sys.stderr,
        )
    if report := marks.report(name_of(options.input)):
        print(f"note: {report}", file=sys.stderr)
    print(_report(options.input, counts, summariser), file=sys.stderr)
    if options.attention is not None:
        _draw(options.attention, *first_found)


def _write(number, source, found, options):
    shown = printable if sys.stdout.isatty() else str
    for summary in found:
        words = summary.words if options.keep_unk else summary.copied(source)
        text = " ".join(words)
        if options.nbest > 1:
            text = f"{number}\t{summary.log_prob:.4f}\t{text}"
        print(shown(text), flush=True)
    if not found and options.nbest == 1:
        print(flush=True)


def _count(counts, sources, summariser, vocabulary):
    from tfsoftmax.support.vocabulary import EOS

    counts["texts"] += len(sources)
    counts["empty"] += sum(not words for words in sources)
    counts["cut"] += sum(len(words) > summariser.max_source for words in sources)
    counts["words"] += sum(map(len, sources))
    counts["unknown"] += sum(
        word not in vocabulary or word == EOS for words in sources for word in words
    )


def _report(path, counts, summariser):
    """What the summaries were made from, as a line for standard error."""
    from tfsoftmax.lm.sentences import oov_report

    words = oov_report(name_of(path), counts["words"], counts["unknown"])
    texts = "text" if counts["texts"] == 1 else "texts"
    return (
        f"{words}; {counts['texts']:,} {texts}, of which {counts['empty']:,} were empty and "
        f"{counts['cut']:,} were cut to {summariser.max_source} words"
    )


def _draw(path, source, found):
    """Draws the attention of the best summary of a text, a row for each of its first words."""
    if not found or not found[0].words:
        print("warning: the first summary has no words, whose attention could be drawn",
              file=sys.stderr)
        return
    from matplotlib.figure import Figure

    summary, attention = found[0], found[0].attention[:DRAWN_WORDS, :DRAWN_WORDS]
    read, written = source[: attention.shape[1]], summary.copied(source)[:DRAWN_WORDS]
    size = 2 + 0.3 * len(read), 1.5 + 0.3 * len(written)
    axes = Figure(figsize=size, layout="constrained").subplots()
    axes.imshow(attention, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(read)), map(_label, read), rotation=90)
    axes.set_yticks(range(len(written)), map(_label, written))
    axes.xaxis.tick_top()
    save_plot(axes.figure, path, format=os.path.splitext(path)[1][1:] or "png", dpi=120)


def _label(word):
    return printable(word[:40]).replace("$", r"\$")  # which would begin a formula

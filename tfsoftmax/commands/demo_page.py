"""The page of `tfsoftmax demo`: its boxes, buttons and tables, and what the runs answer."""

import random
import threading
from collections.abc import Callable

from tfsoftmax.commands.program import load_gradio, printable
from tfsoftmax.lm.evaluation import perplexity_and_nats
from tfsoftmax.runs.shown_run import BEAM, MISTAKES, SEARCHES, ShownRun
from tfsoftmax.support.arguments import brief
from tfsoftmax.support.vocabulary import EOS, UNK

NEXT = 12  # next words of a run
COSTS = ("run", "output layer", "words", "best step", "ms", "parameters, M", "memory, MB")
GROUPS = ("number", "P", "of tokens", "words", "most frequent words")
BRANCHES = ("node", "way", "P", "so far", "words", "likeliest words")
BARS, BAR = {"P", "ln P"}, "#6366f150"  # columns with bars, and their colour
IN_TURN = {"show_progress": "minimal", "concurrency_id": "models"}  # so the last answer stays
NOTICE = (
    "**The runs have different vocabularies.** `<unk>` stands for other words in each, so their "
    "perplexities do not compare."
)


class Page:
    """What the page answers to what is typed into it.

    Args:
        runs: the runs by their names; a sentence stands for one that cannot be read.
    """

    def __init__(self, runs: dict[str, ShownRun | str]):
        self.runs = runs
        self.readable = {name: r for name, r in runs.items() if isinstance(r, ShownRun)}
        self._lock = threading.Lock()  # the models have states, and waiting is no time of a head

    def lowercase(self) -> bool:
        """Whether texts are turned into lower case at first, as no vocabulary has upper case."""
        return not any(run.is_cased for run in self.readable.values())

    def ask(self, question: Callable, name: str, text: str, lowercase: bool, *more) -> tuple:
        """The answer of a run to a question, one of the functions below, about a text.

        Returns:
            A note, the rows of a table, and `{cell: text}`: what the click on a row with this cell
            writes into a box. A mistake is a note without rows.
        """
        run, text = self.runs[name], " ".join((text.lower() if lowercase else text).split())
        try:
            if isinstance(run, str):
                raise ValueError(run)
            with self._lock:
                words = run.split(text)
                note, rows, picks = question(run, words, *more)
        except MISTAKES as error:
            return printable(str(error)), [], {}
        place = f"After “{_short(text)}”" if text else "At the beginning of a sentence"
        unknown = " ".join(run.unknown(words))
        told = f"\nRead as <unk>: {_short(unknown)}" if unknown else ""
        return f"{place}: {note}{told}", rows, picks

    def costs(self) -> list[list]:
        """What the output layer of each run that can be read costs."""
        with self._lock:
            return [
                [printable(name), type(run.head).__name__, len(run.vocabulary), run.step,
                 *(float(f"{cost:.3g}") for cost in (
                     run.milliseconds(NEXT), run.parameters / 1e6, run.megabytes
                 ))]
                for name, run in self.readable.items()
            ]


def next_words(run, words):
    """The likeliest next words. A click goes on with one, but for `<eos>` and `<unk>`."""
    found, given = run.next_words(words, NEXT), run.added([], words)
    picks = {printable(word): given + run.added(words, [word])
             for word, _ in found if word not in (EOS, UNK)}
    rest = max(0.0, 1 - sum(p for _, p in found))
    return f"all other words {rest:.2%}", [[printable(word), p] for word, p in found], picks


def score(run, words):
    """ln P of the text as a whole sentence."""
    found = run.score(words)
    total = sum(log_prob for _, log_prob, _ in found)
    perplexity = perplexity_and_nats(-total / len(found))["perplexity"]
    note = f"ln P = {total:.3f} nats, perplexity {perplexity:,.6g}"
    return note, [[printable(w) + " → <unk>" * unknown, p] for w, p, unknown in found], {}


def continuations(run, words, search, most):
    """Sentences that begin with the text, with ln P of what is new."""
    found = run.continuations(words, search, int(most), seed=random.getrandbits(31))
    given = run.added([], words)
    return "“…” stands for what is cut", [
        [printable(given + run.added(words, each.words)) + " …" * (not each.ended), each.log_prob]
        for each in found
    ], {}


def groups(run, words, word):
    """The groups of words, or that of one word. A click shows that of its most frequent word."""
    rows, picks = [], {}
    for *numbers, frequent in run.groups(words, word=word.strip() or None):
        shown = printable(" ".join(frequent))
        rows.append([*numbers, shown])
        picks[shown] = frequent[0]
    return f"how likely each {run.grouping.kind} is", rows, picks


def path(run, words, word):
    """The way to a word in the tree, or to the likeliest. A click goes to the likeliest below."""
    word = word.strip() or run.next_words(words, 1)[0][0]
    rows, picks, product = [], {}, 1.0
    for node, branches in enumerate(run.path(words, word), start=1):
        product *= next(branch.probability for branch in branches if branch.taken)
        for branch in branches:
            below = run.vocabulary.decode(branch.likeliest)
            shown = printable(" ".join(below))
            way, so_far = ("→", percent(product)) if branch.taken else ("", "")
            rows.append([node, way, branch.probability, so_far, branch.words, shown])
            picks[shown] = below[0]
    return f"P of “{_short(word)}” is {percent(product)}", rows, picks


def percent(p: float) -> str:
    """A probability in digits that say something."""
    return f"{p:.2%}" if p >= 1e-3 or p == 0 else f"{100 * p:.2g}%"


def _short(text):
    return brief(printable(text), 120)


def blocks(page: Page):
    """The page as gradio's `Blocks`."""
    gr = load_gradio()
    vocabularies = {run.vocabulary.sha256 for run in page.readable.values()}
    with gr.Blocks(title="tfsoftmax demo", analytics_enabled=False) as layout:
        gr.Markdown("## tfsoftmax: output layers side by side")
        gr.Markdown(NOTICE, visible=len(vocabularies) > 1)
        with gr.Row():
            text = gr.Textbox(
                "", label="Beginning of a sentence; click a word below to go on with it",
                placeholder="the old man", scale=8, min_width=300, elem_id="text", autofocus=True,
                max_length=20_000,
            )
            with gr.Column(scale=1, min_width=140):
                read = gr.Button("Read", variant="primary", elem_id="read")
                lowercase = gr.Checkbox(page.lowercase(), label="lower case", container=False)
        given = [text, lowercase]
        with gr.Tab("Next words"):
            likeliest = _tables(gr, page, next_words, page.runs, ("word", "P"), given)
            gr.Dataframe(page.costs, headers=COSTS, interactive=False, buttons=[])
        with gr.Tab("Sentence"):
            asked = [likeliest, _tables(gr, page, score, page.runs, ("word", "ln P"), given)]
        with gr.Tab("Continue"):
            with gr.Row():
                search = gr.Radio(
                    list(SEARCHES), value="greedy", label="Search",
                    info=f"greedy takes the likeliest word, beam keeps {BEAM} sentences, "
                    "draw follows the distribution.",
                )
                longest = gr.Slider(1, 60, 20, step=1, label="Words at most")
                go = gr.Button("Continue", scale=0, min_width=140, elem_id="continue")
            sentences = _tables(
                gr, page, continuations, page.runs, ("sentence", "ln P"), [*given, search, longest]
            )
            go.click(*sentences, **IN_TURN)
        for title, attribute, question, columns, all_words in (
            ("Clusters", "grouping", groups, GROUPS, "all"),
            ("Trees", "tree", path, BRANCHES, "the likeliest next word"),
        ):
            names = [n for n, run in page.readable.items() if getattr(run, attribute) is not None]
            if not names:
                continue
            with gr.Tab(title):
                word = gr.Textbox(
                    "", label="Word", placeholder=all_words, max_length=200, elem_id=title.lower()
                )
                asked.append(_tables(gr, page, question, names, columns, [*given, word]))
                for ask in (word.submit, *_clicks(gr, asked[-1], word)):
                    ask(*asked[-1], **IN_TURN)
        for ask in (read.click, text.submit, layout.load, *_clicks(gr, likeliest, text)):
            for each in asked:
                ask(*each, **IN_TURN)
    return layout


def _tables(gr, page, question, names, columns, inputs):
    """A note and a table for each run, and what a click on its rows picks.

    Returns:
        The function that fills them, its inputs, and its outputs, as events of gradio want them.
    """
    outputs, narrow = [], len(columns) == 2
    with gr.Row():
        for name in names:
            with gr.Column(min_width=280 if narrow else 560):
                outputs += [
                    gr.Textbox(label=printable(name), interactive=False, lines=2, max_lines=8),
                    gr.Dataframe(
                        headers=columns, interactive=False, buttons=[], max_height=1000,
                        wrap=narrow, column_widths=["65%", "35%"] if narrow else None,
                    ),
                    gr.State({}),
                ]

    def answer(*values):
        found = [page.ask(question, name, *values) for name in names]
        numbers = [number for _, rows, _ in found for row in rows
                   for title, number in zip(columns, row, strict=True) if title in BARS]
        ends = min([0.0, *numbers]), max([0.0, *numbers])  # of the bars of all runs
        filled = []
        for note, rows, picks in found:
            table = gr.Dataframe(_with_bars(rows, columns, *ends), visible=bool(rows))
            filled += [note, table, picks]
        return filled

    return answer, inputs, outputs


def _with_bars(rows, columns, least, most):
    """Rows with probabilities as percentages, and with bars between two ends behind numbers."""
    from pandas import DataFrame  # which gradio itself needs

    table = DataFrame(rows, columns=list(columns))
    formats = {"P": percent, "of tokens": percent, "ln P": "{:.3f}"}
    bars = [title for title in columns if title in BARS]
    return table.style.format(formats).bar(subset=bars, color=BAR, vmin=least, vmax=most)


def _clicks(gr, asked, box):
    """What follows the clicks on tables, which write what they pick into a box."""
    def picked(before, picks, clicked: gr.SelectData):
        return next((picks[cell] for cell in clicked.row_value if cell in picks), before)

    _, _, outputs = asked
    return [table.select(picked, [box, picks], box).then
            for table, picks in zip(outputs[1::3], outputs[2::3], strict=True)]

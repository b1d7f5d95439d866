"""The page of `tfsoftmax demo`: its boxes and buttons, and what the runs answer to each."""

import random
import threading
from collections.abc import Sequence

from tfsoftmax.commands import demo_html
from tfsoftmax.commands.program import load_gradio
from tfsoftmax.runs.shown_run import (
    BEAM,
    MISTAKES,
    MOST_WORDS,
    SEARCHES,
    ShownRun,
    Unreadable,
)
from tfsoftmax.support.arguments import refusal

NEXT = 12  # next words in a card
MOST_CHARACTERS = 20_000
FONT = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
MONO = ("ui-monospace", "Menlo", "Consolas", "monospace")
# A click on a word writes it into a box, and presses the button that belongs to it.
CLICKS = """() => document.addEventListener('click', event => {
  const word = event.target.closest('.pick');
  if (!word) return;
  const [where] = Object.keys(word.dataset);
  const [box, button] = {next: ['text', 'read'], group: ['group_word', 'group_show'],
                         tree: ['tree_word', 'tree_show']}[where];
  const field = document.querySelector(`#${box} textarea, #${box} input`);
  const before = where === 'next' ? field.value.trimEnd() : '';
  field.value = (before + word.dataset[where]).trimStart();
  field.dispatchEvent(new Event('input', {bubbles: true}));
  setTimeout(() => document.getElementById(button).click(), 50);
})"""


class Page:
    """What the page does with what is typed into it. All methods return HTML.

    Args:
        runs: the runs, side by side, of which some may be `Unreadable`.
    """

    def __init__(self, runs: Sequence[ShownRun | Unreadable]):
        self.runs = runs
        self._lock = threading.Lock()  # the models have states, and waiting is no time of a head
        self.readable = [run for run in runs if isinstance(run, ShownRun)]

    def named(self, attribute: str) -> dict[str, ShownRun]:
        """The runs that have a grouping, or a tree, by their names."""
        return {run.name: run for run in self.readable if getattr(run, attribute) is not None}

    def lowercase(self) -> bool:
        """Whether texts are turned into lower case at first, as no vocabulary has upper case."""
        return not any(run.is_cased for run in self.readable)

    def notice(self) -> str:
        """A warning that perplexities do not compare, if vocabularies differ."""
        if len({run.vocabulary.sha256 for run in self.readable}) < 2:
            return ""
        return demo_html.error(
            "The runs have different vocabularies. <unk> stands for other words in each, so their "
            "perplexities do not compare."
        )

    def next_words(self, text: str, lowercase: bool) -> str:
        """The likeliest next words of each run, with bars of one scale."""
        def shown():
            given = _checked(text, lowercase)
            found = {}
            for run in self.readable:
                try:
                    found[run] = run.next_words(run.split(given), NEXT)
                except MISTAKES as error:  # of this run alone: its card says so
                    found[run] = error
            shares = [p for each in found.values() if not isinstance(each, MISTAKES)
                      for _, p in each.words]

            def body(run, words):
                if isinstance(found[run], MISTAKES):
                    raise found[run]
                return demo_html.next_words(run, words, found[run], max(shares))

            return demo_html.cards(self.runs, given, body)

        return self._or_error(shown)

    def scores(self, text: str, lowercase: bool) -> str:
        """The score of the text as a sentence."""
        return self._or_error(lambda: demo_html.cards(
            self.runs, _checked(text, lowercase),
            lambda run, words: demo_html.score(run.score(words)),
        ))

    def continuations(self, text: str, lowercase: bool, search: str, max_words: int) -> str:
        """Sentences that begin with the text."""
        def shown():
            given, seed = _checked(text, lowercase), random.getrandbits(31)
            return demo_html.cards(
                self.runs, given, lambda run, words: demo_html.continuations(
                    run, given, words, run.continuations(words, search, int(max_words), seed)
                )
            )

        return self._or_error(shown)

    def groups(self, text: str, lowercase: bool, name: str, word: str) -> str:
        """The groups of a run's words, or that of one word."""
        def shown():
            run, given = self.named("grouping")[name], _checked(text, lowercase)
            found = run.groups(run.split(given), word=word.strip() or None)
            return demo_html.groups(run, given, found)

        return self._or_error(shown)

    def path(self, text: str, lowercase: bool, name: str, word: str) -> str:
        """The path to a word in a run's tree; without a word, to the likeliest one."""
        def shown():
            run, given = self.named("tree")[name], _checked(text, lowercase)
            words = run.split(given)
            wanted = word.strip() or run.next_words(words, 1).words[0][0]
            return demo_html.path(run, given, wanted, run.path(words, wanted))

        return self._or_error(shown)

    def _or_error(self, shown):
        """What a function returns, or its mistake as a sentence. Only one runs at a time."""
        try:
            with self._lock:
                return shown()
        except MISTAKES as error:
            return demo_html.error(str(error))


def blocks(page: Page):
    """The page as gradio's `Blocks`."""
    gr = load_gradio()
    with gr.Blocks(title="tfsoftmax demo", analytics_enabled=False) as layout:
        gr.Markdown("## tfsoftmax: output layers side by side")
        with gr.Row(equal_height=False):
            text = gr.Textbox(
                "", label="Beginning of a sentence; click a word below to go on with it",
                placeholder="the old man", scale=8, elem_id="text", autofocus=True,
                max_length=MOST_CHARACTERS,
            )
            with gr.Column(scale=1, min_width=140):
                read = gr.Button("Read", variant="primary", elem_id="read")
                lowercase = gr.Checkbox(page.lowercase(), label="lower case", container=False)
        gr.HTML(page.notice(), visible=bool(page.notice()))
        given = [text, lowercase]
        asked = [(page.next_words, _tab_of_cards(gr, "Next words"), given)]
        asked.append((page.scores, _tab_of_cards(gr, "Sentence"), given))
        with gr.Tab("Continue"):
            with gr.Row(equal_height=False):
                search = gr.Radio(
                    list(SEARCHES), value="greedy", label="Search",
                    info=f"greedy takes the likeliest word, beam keeps {BEAM} sentences, "
                    "draw follows the distribution.",
                )
                longest = gr.Slider(1, 60, 20, step=1, label="Words at most")
                go = gr.Button("Continue", scale=0, min_width=140, elem_id="continue")
            sentences = gr.HTML(elem_id="sentences")
            go.click(page.continuations, [*given, search, longest], sentences)
        asked += _tab_of_one_run(
            gr, "Clusters", page.named("grouping"), page.groups, "group", "any", given
        )
        asked += _tab_of_one_run(
            gr, "Trees", page.named("tree"), page.path, "tree", "the likeliest next word", given
        )
        for ask in (read.click, text.submit, layout.load):
            for answer, shown, inputs in asked:
                ask(answer, inputs, shown, show_progress="minimal")
    return layout


def _tab_of_cards(gr, title):
    with gr.Tab(title):
        return gr.HTML(elem_id=title.lower().replace(" ", "_"))


def _tab_of_one_run(gr, title, runs, answer, name, any_word, given):
    """A tab that shows one of the runs that have a grouping or a tree, if there is one."""
    if not runs:
        return []
    with gr.Tab(title):
        with gr.Row(equal_height=False):
            run = gr.Dropdown(
                list(runs), value=next(iter(runs)), label="Run", scale=3, elem_id=f"{name}_run"
            )
            word = gr.Textbox(
                "", label="Word", placeholder=any_word, scale=3, elem_id=f"{name}_word",
                max_length=200,
            )
            show = gr.Button("Show", scale=0, min_width=140, elem_id=f"{name}_show")
        shown = gr.HTML(elem_id=f"{name}_shown")
        inputs = [*given, run, word]
        for ask in (show.click, word.submit, run.change):
            ask(answer, inputs, shown, show_progress="minimal")
    return [(answer, shown, inputs)]


def launch(page: Page, port: int):
    """Serves the page to this machine in the background, and returns it with its address."""
    gr = load_gradio()
    layout = blocks(page)
    theme = gr.themes.Default(primary_hue="indigo", font=FONT, font_mono=MONO)
    try:
        _, address, _ = layout.launch(
            server_name="127.0.0.1", server_port=port, prevent_thread_lock=True, quiet=True,
            inbrowser=False, share=False, ssr_mode=False, footer_links=[], theme=theme,
            css=demo_html.STYLE, js=CLICKS, show_error=True,
        )
    except OSError as error:
        raise refusal("port", "be free", port) from error
    return layout, address


def _checked(text, lowercase):
    """A text with single blanks, or a ValueError if it is too long."""
    text = text or ""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"A text must have at most {MOST_CHARACTERS:,} characters, and {MOST_WORDS} words, "
            f"here. Received: {len(text):,} characters; use `tfsoftmax score` for longer ones"
        )
    return " ".join((text.lower() if lowercase else text).split())

"""What `tfsoftmax demo` shows of the answers of runs, as HTML that loads nothing."""

import html
import math
from collections.abc import Callable, Sequence

from tfsoftmax.commands.program import printable
from tfsoftmax.lm.decoding import Hypothesis
from tfsoftmax.runs.shown_run import MISTAKES, Group, NextWords, Score, ShownRun, Unreadable
from tfsoftmax.vocabulary import EOS, UNK

LONGEST = 40  # characters of a word that are shown
MOST_GROUPS = 40
STYLE = """
.cards {display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem}
.card {border: 1px solid var(--border-color-primary); border-radius: 8px; padding: .8rem 1rem;
       background: var(--background-fill-primary)}
.card h3 {margin: 0; font-size: 1.05rem}
.facts, .note, .figures div, .unknown {color: var(--body-text-color); opacity: .68}
.facts, .note {font-size: .85rem; margin: .1rem 0 .5rem}
.figures {display: flex; gap: 1.2rem; margin: .2rem 0 .6rem}
.figures div {font-size: .8rem; opacity: 1}
.figures b {display: block; font-size: 1rem}
.figures, .whole {white-space: nowrap}
.bars {width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums}
.bars, .bars tr, .bars td {border: 0 !important}
.bars td {padding: .12rem .3rem !important; vertical-align: middle}
.bars td.number {text-align: right; white-space: nowrap; width: 1%}
.bars td.word {width: 1%; white-space: nowrap}
.bar {height: .8rem; min-width: 1px; border-radius: 3px; background: var(--color-accent)}
.bar.other {background: var(--border-color-primary)}
.pick {cursor: pointer; border: 0; background: none; padding: 0; color: inherit; font: inherit}
.pick:hover {text-decoration: underline}
.unknown {font-style: italic}
.words {line-height: 1.6}
.error {color: var(--error-text-color, #b91c1c)}
.level {box-shadow: -3px 0 var(--border-color-primary); margin: 0 0 .6rem 3px}
.level .taken {font-weight: 600}
"""


def cards(
    runs: Sequence[ShownRun | Unreadable], text: str,
    body: Callable[[ShownRun, list[str]], str],
) -> str:
    """A card for each run, with `body(run, words)` in it, or the reason why there is none."""
    shown = "".join(_card(run, text, body) for run in runs)
    return f'{after(text)}<div class="cards">{shown}</div>'


def after(text: str, who: str = "All runs") -> str:
    """A line that says who answers, and after which text the answers hold."""
    place = f"after “{_text(text, 120)}”" if text else "at the beginning of a sentence"
    return f'<p class="note">{_text(who, 200)}, {place}:</p>'


def next_words(
    run: ShownRun, words: Sequence[str], answers: NextWords, widest: float
) -> str:
    """What the head costs, and the likeliest next words with bars; `widest` fills the column."""
    call = _figures([
        (f"{answers.milliseconds:.2f} ms", "head's call"),
        (f"{run.parameters / 1e6:.2f} M", "parameters"), (f"{run.megabytes:.1f} MB", "memory"),
    ])
    rows = [
        (word, p, _text(word) if word in (EOS, UNK)
         else _pick(word, "next", run.added(words, [word])))
        for word, p in answers.words
    ]
    rest = max(0.0, 1 - sum(p for _, p, _ in rows))
    note = f'<p class="note">all other words: {rest:.2%}</p>'
    return call + _bars([(shown, p) for _, p, shown in rows], widest) + note


def score(answer: Score) -> str:
    """The score of a sentence, and ln P of each word."""
    figures = _figures([
        (f"{answer.log_prob:.3f}", "ln P, nats"), (_short(answer.perplexity), "perplexity"),
        (str(len(answer.words)), "words and end"),
    ])
    worst = max((-log_prob for _, log_prob, _ in answer.words), default=1.0)
    rows = "".join(
        f'<tr><td class="word{" unknown" * unknown}">{_text(word)}</td>'
        f'<td>{_bar(-log_prob, worst)}</td><td class="number">{log_prob:.3f}</td></tr>'
        for word, log_prob, unknown in answer.words
    )
    return f'{figures}<table class="bars">{rows}</table>'


def continuations(
    run: ShownRun, text: str, words: Sequence[str], answers: Sequence[Hypothesis]
) -> str:
    """Sentences that continue a text, with ln P of what is new."""
    given, parts = _text(text, 400), []
    for each in answers:
        new = _text(run.added(words, each.words), 4000) + ("" if each.ended else " …")
        known = f"ln P = {each.log_prob:.3f}" + ("" if each.ended else ", cut")
        parts.append(f'<p class="words"><span class="unknown">{given}</span>{new}'
                     f'<br><span class="note">{known}</span></p>')
    return "".join(parts)


def groups(run: ShownRun, text: str, found: Sequence[Group]) -> str:
    """A table of groups with the probability of each after the text."""
    shown = found[:MOST_GROUPS]
    widest = max(group.probability for group in shown)
    rows = "".join(
        f'<tr><td class="number">{group.number}</td>'
        f'<td class="number">{group.probability:.2%}</td>'
        f'<td style="width: 16%">{_bar(group.probability, widest)}</td>'
        f'<td class="number">{group.token_share:.2%}</td><td class="number">{group.words:,}</td>'
        f'<td>{" ".join(_pick(word, "group") for word in group.frequent)}'
        f'{" …" * (group.words > len(group.frequent))}</td></tr>'
        for group in shown
    )
    left = len(found) - len(shown)
    rest = sum(group.probability for group in found[len(shown) :])
    note = f'<p class="note">and {left} more, together {rest:.2%}</p>' if left else ""
    head = "".join(f'<td class="whole"><b>{title}</b></td>' for title in (
        run.grouping.kind, "P now", "", "of tokens", "words", "most frequent words"
    ))
    return f'{after(text, run.name)}<table class="bars"><tr>{head}</tr>{rows}</table>{note}'


def path(run: ShownRun, text: str, word: str, steps: Sequence) -> str:
    """The branches at each node on the way to a word, and the product of those that are taken."""
    parts, product = [], 1.0
    for branches in steps:
        product *= next(b.probability for b in branches if b.taken)
        rows = "".join(_branch(run, branch, product) for branch in branches)
        parts.append(f'<table class="bars level">{rows}</table>')
    figures = _figures([(_percent(product), f"P of “{_text(word)}”"), (str(len(steps)), "nodes")])
    return after(text, run.name) + figures + "".join(parts)


def error(reason: str) -> str:
    """A sentence that says what is wrong."""
    return f'<p class="error">{_text(reason, 1000)}</p>'


def _card(run, text, body):
    if isinstance(run, Unreadable):
        return f'<div class="card"><h3>{_text(run.name, 200)}</h3>{error(run.reason)}</div>'
    facts = (
        f"{type(run.head).__name__}, {len(run.vocabulary):,} words<br>"
        f"best weights, of step {run.step:,}"
    )
    words = run.split(text)
    unknown = run.unknown(words)
    note = f"read as &lt;unk&gt;: {_text(' '.join(unknown), 200)}" if unknown else ""
    try:
        shown = body(run, words)
    except MISTAKES as problem:
        shown = error(str(problem))
    return (
        f'<div class="card"><h3>{_text(run.name, 200)}</h3><p class="facts">{facts}</p>'
        f'{f"<p class=note>{note}</p>" * bool(note)}{shown}</div>'
    )


def _branch(run, branch, product):
    examples = " ".join(_pick(w, "tree") for w in run.vocabulary.decode(branch.likeliest))
    more = f" … ({branch.words:,} words)" if branch.words > len(branch.likeliest) else ""
    return (
        f'<tr class="{"taken" * branch.taken}"><td class="number">{_percent(branch.probability)}'
        f'</td><td style="width: 20%">{_bar(branch.probability, 1.0, not branch.taken)}</td>'
        f'<td>{examples}{more}</td><td class="number">'
        f'{f"so far {_percent(product)}" * branch.taken}</td></tr>'
    )


def _figures(pairs):
    shown = "".join(f"<div><b>{number}</b>{name}</div>" for number, name in pairs)
    return f'<div class="figures">{shown}</div>'


def _bars(rows, widest):
    return '<table class="bars">' + "".join(
        f'<tr><td class="word">{shown}</td><td>{_bar(p, widest)}</td>'
        f'<td class="number">{_percent(p)}</td></tr>' for shown, p in rows
    ) + "</table>"


def _bar(value, widest, other=False):
    width = 100 * value / widest if widest > 0 else 0
    return f'<div class="bar{" other" * other}" style="width: {min(width, 100):.1f}%"></div>'


def _pick(word, where, value=None):
    """A word that does something when it is clicked, with a value: see `demo_page.CLICKS`."""
    value = html.escape(word if value is None else value, quote=True)
    return f'<button class="pick" data-{where}="{value}">{_text(word)}</button>'


def _percent(p):
    return f"{p:.2%}" if p >= 1e-3 or p == 0 else f"{100 * p:.2g}%"


def _short(number):
    return f"{number:,.1f}" if math.isfinite(number) and number < 1e6 else f"{number:.2e}"


def _text(text, longest=LONGEST):
    text = printable(text)
    return html.escape(text if len(text) <= longest else text[: longest - 1] + "…")

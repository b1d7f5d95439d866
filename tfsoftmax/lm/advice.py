"""Which head for a vocabulary: a step of each that fits is run on this machine, and compared."""

import dataclasses
import math
import textwrap
import time
from collections.abc import Sequence

import numpy as np

from tfsoftmax.lm.head_options import WordCounts
from tfsoftmax.lm.measured_heads import CANDIDATES, Measured, measure, unmeasured
from tfsoftmax.partitions.cost_model import zipf
from tfsoftmax.support.arguments import (
    ArrayLike,
    check_at_least,
    check_positive,
    checks_arguments,
    expect,
)
from tfsoftmax.support.counts import checked_counts
from tfsoftmax.support.hardware import hardware
from tfsoftmax.support.progress import Progress

TASKS = "text", "items"
WIDTH = 80
LSTM_PRODUCTS = 8  # times D², of an LSTM of D units for a position; a full softmax has V D
LEAST_GAIN = 2 / 3  # of the time of a full softmax, above which another head is not worth its price
MANY_WORDS = 1_000_000  # from which sampled softmax is recommended for texts too
NOT_RUN = (
    "Not run: CharCnnSoftmax needs the spelling of the words, NarySoftmax a hierarchy of yours, "
    "and ShardedSoftmax several devices."
)


@dataclasses.dataclass
class Advice:
    """Heads that were compared, and one of them with the reason to take it.

    Attributes:
        problem: what was measured, in words.
        rows: list of `Measured`, the fastest first, then those that were not run.
        recommended: the name of a head, a key of `tfsoftmax.HEADS`; or "dense" if it ran alone.
        reason: why this one.

    Example:
        advice = tfsoftmax.advise(500, units=8, positions=16, only=["full"])
        assert advice.recommended == "full" and advice.reason
    """

    problem: str
    rows: list[Measured]
    recommended: str
    reason: str

    def __str__(self):
        by = {row.name: row for row in self.rows}
        full = by["full"].milliseconds if "full" in by else math.nan
        lines = [*textwrap.wrap(self.problem, WIDTH), "",
                 f"{'head':<23}{'ms':>9}{'of full':>9}{'MiB':>7}  exact  gives up"]
        for row in self.rows:
            if row.why_not:
                lines.append(f"{row.layer:<25}{row.why_not}")
                continue
            shown = f"{'<' if row.most else ''}{row.milliseconds:,.{int(row.milliseconds < 100)}f}"
            share = "" if math.isnan(full) else f"{row.milliseconds / full:.3f}"
            lines += [
                f"{row.layer:<23}{shown:>9}{share:>9}{row.bytes / 2**20:>7,.0f}  "
                f"{'yes' if row.trains_exactly else 'no':<7}{row.gives_up}",
                f"    {row.code}",
            ]
        chosen = by[self.recommended]
        for text in (NOT_RUN, f"Take {chosen.layer}: {self.reason}"):
            lines += ["", *textwrap.wrap(text, WIDTH)]
        return "\n".join([*lines, "", f"    {chosen.code}"])


@checks_arguments
def advise(
    vocab_size: int, units: int = 512, positions: int = 2560, counts: ArrayLike | None = None,
    seconds: float = 60.0, task: str = "text", only: Sequence[str] = (), progress: bool = False,
) -> Advice:
    """Runs a few steps of every head that fits into memory, and recommends one.

    A step is the loss, all gradients and Adagrad's update, of the output layer alone. The heads do
    not take turns: other work on the machine disturbs some of them more than others.

    Args:
        vocab_size: V, the number of words, items or labels.
        units: D, the size of the hidden state, at least 3.
        positions: N, the labels in a step: the batch times its time steps.
        counts: (V,) how often each label occurs; None: by Zipf's law.
        seconds: about how long this may take. Heads whose turn does not come are listed without
            their times.
        task: what matters: perplexity ("text"), or the order of the labels ("items").
        only: names in `tfsoftmax.HEADS`, or "dense", to run no others.
        progress: whether to show on standard error what is measured.

    Returns:
        An `Advice`, which prints as a table.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        advice = tfsoftmax.advise(3000, units=16, positions=64, seconds=5)
        print(advice)
        head = tfsoftmax.HEADS[advice.recommended]
    """
    check_positive(vocab_size=vocab_size, units=units, positions=positions)
    check_at_least(100, vocab_size=vocab_size)
    check_at_least(3, units=units)  # as DifferentiatedSoftmax is run with three bands
    expect(seconds > 0, "seconds", "be above 0", seconds)
    expect(task in TASKS, "task", f"be one of {', '.join(TASKS)}", task)
    names = list(CANDIDATES)
    for name in only:
        expect(name in names, "only", f"name heads of {', '.join(names)}", name)
    counts = 1e8 * zipf(vocab_size, 1.0) if counts is None else checked_counts(counts, vocab_size)
    counts = counts.astype(np.float64)  # in which their sum cannot overflow
    rng = np.random.default_rng(0)
    labels = rng.choice(vocab_size, positions, p=counts / counts.sum()).astype(np.int32)
    hidden = 0.3 * rng.standard_normal((positions, units), np.float32)
    chosen = [name for name in names if not only or name in only]
    rows, end = [], time.monotonic() + seconds
    with Progress(progress).phase("measuring", len(chosen), "heads") as done:
        for number, name in enumerate(chosen):
            now = time.monotonic()
            own_end = now + (end - now) / (len(chosen) - number)
            rows.append(unmeasured(name, vocab_size))
            measure(rows[-1], WordCounts(counts), hidden, labels, own_end, end)
            done(1)
    rows.sort(key=lambda row: (bool(row.why_not), row.milliseconds))
    frequent = np.sort(counts)[::-1][: vocab_size // 10].sum() / counts.sum()
    problem = (
        f"V = {vocab_size:,}, D = {units:,}, N = {positions:,} labels a step, of which "
        f"{frequent:.0%} are among the most frequent tenth of the words; float32, Adagrad, "
        f"{hardware()}."
    )
    return Advice(problem, rows, *_recommendation(rows, vocab_size, units, frequent, task))


def _recommendation(rows, vocab_size, units, frequent, task):
    """The name of a head, and the reason.

    Args:
        rows: list of `Measured`.
        vocab_size: V.
        units: D.
        frequent: the share of the labels that are among the tenth of words with the most.
        task: one of TASKS.
    """
    by = {row.name: row for row in rows if not row.why_not}
    expect(by, "seconds", "be enough for one head, and so must the memory",
           received="; ".join(f"{row.layer} {row.why_not}" for row in rows))
    share = {
        name: row.milliseconds / by["full"].milliseconds if "full" in by else 0.0
        for name, row in by.items()
    }
    if "full" in by and vocab_size <= LSTM_PRODUCTS * units:
        return "full", (
            "with so few words it costs no more than an LSTM of D units, and it gives up nothing."
        )
    others = [share[name] for name in ("adaptive", "sampled") if name in by]
    if "full" in by and others and min(others) > LEAST_GAIN:
        return "full", (
            "the heads to take in its place gain less than a third of its time, and it gives up "
            "nothing."
        )
    of_tenth = f"{frequent:.0%} of the labels are among the most frequent tenth of the words"
    if task == "text" and "adaptive" in by and frequent >= 0.5 and vocab_size < MANY_WORDS:
        if share["adaptive"] <= LEAST_GAIN:
            of_full = f" in {share['adaptive']:.1%} of the time of FullSoftmax" * ("full" in by)
            return "adaptive", (
                f"it trains on exact probabilities{of_full}, and {of_tenth}, which keep all units."
            )
    if "sampled" in by:
        if task == "items":
            why = "the order of items is what matters"
        elif vocab_size >= MANY_WORDS:
            why = "a step of an exact head grows with so many words"
        elif frequent < 0.5:
            why = f"only {of_tenth}"
        else:
            gains = "gains too little here" if "adaptive" in by else "was not run"
            why = f"AdaptiveSoftmax {gains}"
        return "sampled", (
            f"{why}. What a step costs depends on the samples, not on V, and the head still "
            "evaluates exactly."
        )
    kept = [row.name for row in rows if row.name in by and "perplexity" not in row.gives_up]
    return (kept or list(by))[0], "it is the fastest that was run and gives up little."

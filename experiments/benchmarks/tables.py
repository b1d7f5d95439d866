"""The tables of the benchmarks' page, a function for each kind of suite."""

import itertools
import math

from experiments.benchmarks.cases import (
    FORWARD,
    GRADIENTS,
    MODULES,
    PARTS,
    PEERS,
    POSTER,
    STEP,
    WHOLE,
)
from experiments.benchmarks.suites import SUITES
from experiments.framework import markdown

POSTER_NOTE = """\
*Forward* is the training loss without gradients, *total* a step. KiB a position is the memory at
the peak divided by N, besides weights, slots and batch. The formula is the poster's for one word,
in floats of four bytes. That of softmax counts the weights, which all positions share. The second
table has the gradients of each module of a language model with full softmax."""
POSTER_FLOATS = {  # the poster's runtime memory for a word, in floats, of H units and V words
    "Softmax": ("H V", lambda h, v: h * v),
    "cHSM": ("2 H sqrt(V)", lambda h, v: 2 * h * math.sqrt(v)),
    "tHSM": ("H", lambda h, v: h),
    "p-tHSM": ("H log2 V", lambda h, v: h * math.log2(v)),
}
BESIDE = ("scoring", "logits", "padding", "excluding", "serving")  # whose cases have other ways


def table(suite, rows):
    """The table of a suite: vocabularies in rising order, cases in the order of the suite."""
    if suite in TABLES:
        return TABLES[suite](rows)
    columns = [name for name in (GRADIENTS, STEP) if any(row["measure"] == name for row in rows)]
    moves = any(row.get("moves_ms") for row in rows)
    expected = any("expected_ms" in row["facts"] for row in rows) and suite == "shortlists"
    head = ["V", "case"]
    for name in columns:
        head += [f"{name}, ms", "to floor", "to peers", "MiB", "samples"]
    head += ["to floor and moves"] * moves
    head += ["words/s", "parameters"] + ["cutoffs", "expected ms"] * expected
    head += ["of FullSoftmax"] * (suite == "heads")
    full = {row["V"]: row["median_ms"] for row in rows
            if row["case"] == "FullSoftmax" and row["measure"] == columns[-1]}
    lines = [head]
    for (size, _), subset in _by_case(suite, rows):
        by = {row["measure"]: row for row in subset}
        cells = [f"{size:,}", subset[0]["case"]]
        for name in columns:
            cells += _measured(by.get(name))
        last = by.get(columns[-1]) or subset[0]
        cells += [to_moves(last)] * moves
        cells += [f"{last['words_per_second']:,.0f}", f"{last['parameters']:,}"]
        if expected:
            own = subset[0]["facts"]
            cells += [", ".join(f"{c:,}" for c in own["cutoffs"]), f"{own['expected_ms']:,.1f}"]
        if suite == "heads":
            cells.append(f"{last['median_ms'] / full[size]:.3f}" if size in full else "")
        lines.append(cells)
    return markdown.table(lines, text_columns=2)


def to_floors(rows):
    """Steps over the floor: one row for each head, one column for each V."""
    sizes = sorted({row["V"] for row in rows})
    by_case = {}
    for (size, name), subset in _by_case("heads", rows):
        ratios = [row["to_floor"] for row in subset if row["measure"] == STEP and row["to_floor"]]
        if name not in PEERS and ratios:
            by_case.setdefault(name, {})[size] = f"{ratios[0]:.2f}"
    lines = [["step over the floor", *(f"V = {size:,}" for size in sizes)]]
    lines += [[name, *(own.get(size, "") for size in sizes)] for name, own in by_case.items()]
    return markdown.table(lines)


def to_moves(row):
    """The time over that of the bare products and moves together, as a cell."""
    if not row.get("moves_ms"):
        return ""
    return f"{row['median_ms'] / (row['floor_ms'] + row['moves_ms']):.2f}"


def _measured(row):
    if row is None:
        return [""] * 5
    return [
        _time(row), "" if row["to_floor"] is None else f"{row['to_floor']:.2f}", _peers(row),
        _mib(row), str(row["samples"]),
    ]


def _mib(row):
    return "" if row["peak_mib"] is None else f"{row['peak_mib']:,.0f}"


def _time(row):
    form = ",.1f" if row["median_ms"] < 1000 else ",.0f"
    low, middle, high = (
        format(row[name], form) for name in ("quartile1_ms", "median_ms", "quartile3_ms")
    )
    return f"{middle} [{low}–{high}]"


def _peers(row):
    return ", ".join(f"{ratio:.2f} of {name}" for name, ratio in row["to_peers"].items())


def _plain(rows):
    """One line for each measure, without V where it plays no part."""
    lines = [["V", "case", "measure", "ms", "to floor", "to peers", "MiB", "samples", "words/s"]]
    for row in sorted(rows, key=lambda r: r["V"]):
        lines.append([
            f"{row['V']:,}" if row["V"] else "", row["case"], row["measure"], *_measured(row),
            f"{row['words_per_second']:,.0f}" if row["words_per_second"] else "",
        ])
    return markdown.table(lines, text_columns=3)


def _beside(rows):
    """One line for each measure of a case of ours, with other ways to do the same beside it."""
    by = {(row["V"], row["case"], row["measure"]): row for row in rows}
    peers = {peer for row in rows for peer in row["to_peers"]}
    own = sorted((row for row in rows if row["case"] not in peers), key=lambda row: row["V"])
    ways = dict.fromkeys(_way(row, peer) for row in own for peer in row["to_peers"])
    lines = [["V", "case", "measure", "ms", "MiB",
              *(heading for way in ways for heading in (f"{way}, ms", "ratio"))]]
    for row in own:
        others = {_way(row, peer): by[row["V"], peer, row["measure"]] for peer in row["to_peers"]}
        lines.append([f"{row['V']:,}", row["case"], row["measure"], _time(row), _mib(row)])
        for way in ways:
            cells = "", ""
            if way in others:
                ratio = row["median_ms"] / others[way]["median_ms"]
                cells = _time(others[way]), f"{ratio:.2f}"
            lines[-1] += cells
    return markdown.table(lines, text_columns=3)


def _way(row, peer):
    """What a peer does otherwise; its name begins with that of the row's case."""
    return peer.removeprefix(f"{row['case']}, ")


def _parts(rows):
    lines = [["V", "case", "whole, ms", *(f"{part}, ms" for part in PARTS), "whole / sum",
              "MiB", "samples", "words/s"]]
    for (size, name), subset in _by_case("parts", rows):
        by = {row["measure"]: row for row in subset}
        lines.append([
            f"{size:,}", name, _time(by[WHOLE]), *(f"{by[p]['median_ms']:,.1f}" for p in PARTS),
            f"{to_parts(by):.2f}", *_measured(by[WHOLE])[3:],
            f"{by[WHOLE]['words_per_second']:,.0f}",
        ])
    return markdown.table(lines, text_columns=2)


def to_parts(by):
    """The time of the whole step over the sum of its parts, from {measure: row}."""
    return by[WHOLE]["median_ms"] / sum(by[part]["median_ms"] for part in PARTS)


def _speed(rows):
    lines = [["V", "run", "words/s", "step, ms", "step, to the first run of its session", "MiB",
              "samples"]]
    for row in rows:
        lines.append([
            f"{row['V']:,}", row["case"], f"{row['words_per_second']:,.0f}", _time(row),
            _peers(row), *_measured(row)[3:],
        ])
    return markdown.table(lines, text_columns=2)


def _poster(rows):
    """Two tables: heads, with the poster's formulas of memory, and cells."""
    full = {(row["V"], row["measure"]): row["median_ms"] for row in rows
            if row["case"] == "FullSoftmax"}
    heads = [["V", "case", "the poster's", *(
        column for name in ("forward", "total")
        for column in (f"{name}, ms", "of FullSoftmax", "KiB a position")
    ), "formula", "KiB a word"]]
    cells = [["V", "cell", *(f"{name}, ms" for name in MODULES)]]
    for (size, name), subset in _by_case("poster", rows):
        by = {row["measure"]: row for row in subset}
        if name not in POSTER:
            cells.append([f"{size:,}", name, *(_time(by[module]) for module in MODULES)])
            continue
        formula, floats = POSTER_FLOATS[POSTER[name]]
        line = [f"{size:,}", name, POSTER[name]]
        for measure in (FORWARD, STEP):
            row = by[measure]
            ratio = row["median_ms"] / full[size, measure] if (size, measure) in full else None
            line += [_time(row), "" if ratio is None else f"{ratio:.3f}",
                     "" if row["peak_mib"] is None else f"{1024 * row['peak_mib'] / row['N']:,.1f}"]
        heads.append([*line, formula, f"{4 * floats(subset[0]['D'], size) / 1024:,.1f}"])
    return "\n\n".join((
        markdown.table(heads, text_columns=3), POSTER_NOTE, markdown.table(cells, text_columns=2),
    ))


TABLES = {
    "parts": _parts, "speed": _speed, "poster": _poster,
    **dict.fromkeys(("evaluation", "recurrent", "models", "uses", "hub"), _plain),
    **dict.fromkeys(BESIDE, _beside),
}


def _by_case(suite, rows):
    """Yields (V, case) and its rows, with V rising and the cases in the order of the suite."""
    sizes = sorted({row["V"] for row in rows})
    for size in sizes:
        own = [row for row in rows if row["V"] == size]
        names = [case.name for case in SUITES[suite][0](size)]
        own.sort(key=lambda row: names.index(row["case"]) if row["case"] in names else len(names))
        for name, subset in itertools.groupby(own, key=lambda row: row["case"]):
            yield (size, name), list(subset)

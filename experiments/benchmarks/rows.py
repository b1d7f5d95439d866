"""Rows of results: each measurement is a row, kept as a line of JSON and as a line of CSV."""

import csv
import json
import statistics
import time

import numpy as np

from experiments.benchmarks.cases import FLOOR, FORWARD, GRADIENTS, MOVES, NATS, STEP, WHOLE
from tfsoftmax.support.textio import records_of
from tfsoftmax.support.whole_files import append_line, sync

COLUMNS = (
    "suite", "case", "kind", "head", "measure", "V", "D", "N", "T", "labels", "precision",
    "jit", "median_ms", "quartile1_ms", "quartile3_ms", "fastest_ms", "samples", "words_per_second",
    "floor_ms", "to_floor", "moves_ms", "to_peers", "peak_mib", "parameters", "value", "facts",
    "device", "hardware", "load_average", "others", "versions", "time",
)
KEY = ("suite", "case", "measure", "V", "D", "N", "labels", "precision", "jit", "hardware")


def quartiles(values):
    """The quartiles of one or more values, interpolated between neighbours."""
    return tuple(np.percentile(values, (25, 50, 75)).tolist())


def rows_of(suite, problem, labels, results, hardware, load_average, others=None):
    """The rows of a group that was measured in one interleaved run.

    Args:
        suite: name of the suite.
        problem: `Problem`.
        labels: a word that says where the labels come from.
        results: what `measure_group` returns.
        hardware: the hardware, in words.
        load_average: load average of the machine before the group was measured.
        others: share of the cores that other processes took meanwhile; None if unknown.

    Returns:
        List of {column: value}, one row for each case and each of its measures except the floor.
    """
    medians = {case.name: {m: statistics.median(s) for m, s in seconds.items() if s}
               for case, _, seconds, _, _ in results}
    devices = {case.name: answer["device"] for case, answer, *_ in results}
    rows = []
    for case, answer, seconds, peaks, values in results:
        for measure, taken in seconds.items():
            if measure in (FLOOR, MOVES):
                continue
            low, middle, high = quartiles(taken)
            floor = None  # the floor has the products of the gradients, too
            if measure != FORWARD:
                floor = floor_of(case, medians, [result[0] for result in results])
            peers = {p: middle / medians[p][measure] for p in case.peers
                     if measure in medians.get(p, ()) and devices[p] == answer["device"]}
            moves = medians[case.name].get(MOVES)
            row = {
                "suite": suite, "case": case.name, "kind": case.kind, "head": case.head,
                "measure": measure, "V": problem.vocab_size, "D": problem.units,
                "N": problem.positions, "T": problem.steps, "labels": labels,
                "precision": case.precision, "jit": case.jit, "samples": len(taken),
                "words_per_second": words_of(problem, answer, measure, middle),
                "median_ms": 1000 * middle, "quartile1_ms": 1000 * low,
                "quartile3_ms": 1000 * high, "fastest_ms": 1000 * min(taken),
                "floor_ms": floor and 1000 * floor, "to_floor": floor and middle / floor,
                "moves_ms": moves and 1000 * moves, "to_peers": peers,
                "parameters": answer["parameters"],
                "peak_mib": None if peaks[measure] is None else peaks[measure] / 2**20,
                "value": values[measure], "facts": answer["facts"], "device": answer["device"],
                "hardware": hardware, "load_average": load_average, "others": others,
                "versions": answer["versions"],
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            rows.append({column: rounded(row[column]) for column in COLUMNS})
    return rows


def words_of(problem, answer, measure, seconds):
    """Words/s of a measure; None for parts of a step, calls for few positions, starts."""
    of_all = problem.positions if measure in (GRADIENTS, STEP, WHOLE, NATS) else None
    words = answer["facts"].get("words", of_all)
    return words and words / seconds


def floor_of(case, medians, cases):
    """Seconds of the floor of a case, or of a case that has it as a peer; None without a floor."""
    owners = [case.name, *(c.name for c in cases if case.name in c.peers)]
    return next((medians[o][FLOOR] for o in owners if FLOOR in medians.get(o, ())), None)


def rounded(value):
    """A value whose floats, also those inside a dict, have five digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def key_of(row):
    """What tells a row from the others; a row with the same key replaces an older one."""
    return tuple(row[name] for name in KEY)


def read(path):
    """The rows of a file: the last of each key."""
    rows = {}
    for row in records_of(path):
        rows.pop(key_of(row), None)
        rows[key_of(row)] = row
    return list(rows.values())


def append(path, rows):
    """Appends rows to a file, each on a line of its own even after a line that was cut short."""
    for row in rows:
        append_line(path, json.dumps(row))
    sync(path)


def write_csv(path, rows):
    """Writes all rows as CSV, dicts as name=value;..."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow([_cell(row.get(column)) for column in COLUMNS])


def _cell(value):
    if isinstance(value, dict):
        return ";".join(f"{name}={item}" for name, item in value.items())
    return "" if value is None else value


def line(row):
    """A row as a line of progress."""
    parts = [f"{row['case']}, {row['measure']}: {row['median_ms']:,.1f} ms"]
    if row["to_floor"] is not None:
        parts.append(f"{row['to_floor']:.2f} of the floor")
    parts += [f"{ratio:.2f} of {name}" for name, ratio in row["to_peers"].items()]
    if row["peak_mib"] is not None:
        parts.append(f"{row['peak_mib']:,.0f} MiB")
    return ", ".join([*parts, f"{row['samples']} samples"])

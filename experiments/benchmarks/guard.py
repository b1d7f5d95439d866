"""Five ratios against those of the page, for whoever changes a head: about two minutes.

    python -m experiments.benchmarks.guard      # make speed-guard

Each ratio is measured as on the page of the benchmarks: the case and what it is compared with take
turns. A case is slower if its ratio is more than 1.15 times that of the page. The command then ends
with status 1. It is measured again first, in other processes, and the lower ratio counts. Run this
on the machine of the page: other hardware has other ratios.
"""

import dataclasses
import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks import quiet
from experiments.benchmarks import rows as of_rows
from experiments.benchmarks.cases import KERAS, STEP, TF_SAMPLED, WHOLE
from experiments.benchmarks.measure import measure_group
from experiments.benchmarks.problem import Problem
from experiments.benchmarks.suites import SUITES
from tfsoftmax.commands import program

PAGE = Path("experiments/results/benchmarks/rows.jsonl")
SLOWER = 1.15  # of the page's ratio
GUARDED = (  # suite, V, case, measure, and the peer of the ratio; None for the floor
    ("heads", 10_000, "FullSoftmax", STEP, KERAS),
    ("heads", 44_370, "AdaptiveSoftmax", STEP, None),
    ("heads", 200_606, "SampledSoftmax", STEP, TF_SAMPLED),
    ("heads", 200_606, "TreeSoftmax (p-tHSM)", STEP, None),
    ("models", 10_000, "LSTM and AdaptiveSoftmax", WHOLE, None),
)


def main():
    """Measures the ratios and compares them; exits with status 1 if one is slower."""
    options = flags.FLAGS
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    page, here = of_rows.read(options.page), hardware()
    share = quiet.wait(quiet.MOST_SHARE, print)
    if share > quiet.MOST_SHARE:
        print(f"Other processes take {share:.0%} of the cores: ratios may be off.")
    slower = False
    for suite, size, name, measure, peer in GUARDED:
        row = suite, size, name, measure, peer
        now = measured(*row, options.seconds)
        before, where = on_page(page, *row, here)
        if before is not None and now > options.slower * before:
            now = min(now, measured(*row, options.seconds))
        what = f"{name}, V = {size:,}, {measure} to {peer or 'its floor'}"
        if before is None:
            print(f"{what}: {now:.2f}; the page has no such row", flush=True)
            continue
        verdict = "slower" if now > options.slower * before else "as on the page"
        slower |= verdict == "slower"
        print(f"{what}: {now:.2f}, on the page {before:.2f}{where}: {verdict}", flush=True)
    sys.exit(slower)


def measured(suite, size, name, measure, peer, seconds):
    """The ratio of a case to its peer or floor, which take turns with it."""
    cases = {case.name: case for case in SUITES[suite][0](size)}
    own = dataclasses.replace(cases[name], peers=(peer,) if peer else (), measures=(measure,))
    group = [own, *([cases[peer]] if peer else [])]
    results = measure_group(group, Problem(size), seconds)
    rows = of_rows.rows_of(suite, Problem(size), "zipf", results, "here", 0.0)
    return ratio_of(next(row for row in rows if row["case"] == name), peer)


def on_page(page, suite, size, name, measure, peer, here):
    """The ratio of the page's row, and a note if it is of another machine; (None, "") without."""
    found = [row for row in page if (row["suite"], row["V"], row["case"], row["measure"])
             == (suite, size, name, measure) and ratio_of(row, peer)]
    found.sort(key=lambda row: row["hardware"] == here)
    if not found:
        return None, ""
    where = "" if found[-1]["hardware"] == here else f" ({found[-1]['hardware']})"
    return ratio_of(found[-1], peer), where


def ratio_of(row, peer):
    """The ratio of a row to a peer, or to its floor."""
    return row["to_peers"].get(peer) if peer else row["to_floor"]


if __name__ == "__main__":
    flags.DEFINE_float("seconds", 4.0, "Seconds to spend on each measure.")
    flags.DEFINE_float("slower", SLOWER, "Ratio to the page's ratio from which a case is slower.")
    flags.DEFINE_string("page", str(PAGE), "Rows of the page.")
    program.run(main, __doc__, sys.argv)

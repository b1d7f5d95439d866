import csv
import dataclasses
import signal
import types

import pytest

from experiments.benchmarks import (
    cases,
    floor,
    head_suites,
    measure,
    plots,
    programs,
    report,
    rows,
    run,
    tables,
)
from experiments.benchmarks.cases import FLOOR, FORWARD, GRADIENTS, PARTS, STEP, WHOLE, Case
from experiments.benchmarks.problem import Problem
from experiments.benchmarks.suites import ONE_RUN, SUITES
from tfsoftmax.lm.config import BACKENDS

SIZES = (30, *cases.VOCAB_SIZES)
PROBLEM = Problem(1000, units=8, streams=4, steps=5)
OURS = Case("ours", "head", "full", group="g", peers=("theirs",))
THEIRS = Case("theirs", "torch", "full", group="g")


class FakeWorker:
    """Stands in for a process: seconds as given, runs written down."""

    def __init__(self, case, seconds, log, fails_in=None):
        self.case, self.seconds, self.log, self.fails_in = case, seconds, log, fails_in
        self.closed = False

    def build(self):
        if self.fails_in == "build":
            return {"missing": "No module named 'torch'"}
        return {"measures": list(self.seconds), "parameters": 7, "facts": {}, "device": "CPU",
                "memory": True, "versions": {"numpy": "2"}}

    def run(self, name, memory=False):
        runs = self.log.count((self.case.name, name))
        if self.fails_in in (name, f"{name} after {runs}"):
            raise measure.Failed(f"{self.case.name}: killed")
        self.log.append((self.case.name, name))
        peak = 2**20 if memory else None
        return {"seconds": self.seconds[name], "value": 1.5, "peak_bytes": peak}

    def close(self):
        self.closed = True


def group(fails_in=None):
    """Results of a group of two: ours of 2 and 3 seconds over a floor of 1, theirs of 4 and 5."""
    log, workers = [], []

    def start(case, problem):
        own = {GRADIENTS: 2.0, STEP: 3.0, FLOOR: 1.0} if case is OURS else {
            GRADIENTS: 4.0, STEP: 5.0}
        workers.append(FakeWorker(case, own, log, None if case is OURS else fails_in))
        return workers[-1]

    results = measure.measure_group([OURS, THEIRS], PROBLEM, 10.0, start, say=lambda text: None)
    assert all(worker.closed for worker in workers)
    return results, log


def made_rows(suite="heads", size=1000):
    problem = dataclasses.replace(PROBLEM, vocab_size=size)
    return rows.rows_of(suite, problem, "zipf", group()[0], "a machine", 0.5)


@pytest.mark.parametrize("head", head_suites.BUDGETS)
def test_the_step_of_a_head_reads_the_budgets_that_are_measured_with_it(head, monkeypatch):
    from tfsoftmax.support import budgets

    read = set()

    class Recorded(type(budgets)):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    problem = dataclasses.replace(PROBLEM, vocab_size=1000)
    (case, *_) = [c for c in head_suites.budgets(1000) if c.head == head]
    program = programs.head(case, problem)
    monkeypatch.setattr(budgets, "__class__", Recorded)
    program.functions[cases.STEP]()
    assert set(head_suites.BUDGETS[head]) <= read


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("size", SIZES)
def test_cases_have_names_of_their_own_and_peers_in_their_group(suite, size):
    some = SUITES[suite][0](size)
    for group_name in {case.group for case in some}:
        own = [case for case in some if case.group == group_name]
        names = [case.name for case in own]
        assert len(set(names)) == len(names)
        assert all(set(case.peers) <= set(names) - {case.name} for case in own)
    assert all(0 < c < size for case in some for c in case.options.get("cutoffs", ()))


def test_recurrent_layers_are_measured_with_every_backend():
    assert {case.head for case in programs.recurrent_suite(0)} == set(BACKENDS) - {"auto"}


def test_ratios_are_of_medians_to_the_floor_and_to_the_peer():
    by = {(row["case"], row["measure"]): row for row in made_rows()}
    ours = by["ours", GRADIENTS]
    assert (ours["median_ms"], ours["floor_ms"], ours["to_floor"]) == (2000, 1000, 2.0)
    assert ours["to_peers"] == {"theirs": 0.5}
    assert by["ours", STEP]["to_peers"] == {"theirs": 0.6}
    assert ours["words_per_second"] == PROBLEM.positions / 2
    assert ours["peak_mib"] == 1.0


def test_a_forward_pass_is_not_held_against_the_floor_of_gradients():
    by = {row["measure"]: row for row in suite_rows("poster", 100) if row["head"] == "tree"}
    assert by[FORWARD]["to_floor"] is None and by[FORWARD]["floor_ms"] is None
    assert by[STEP]["to_floor"] is not None


def test_the_poster_has_its_four_heads_at_its_largest_vocabulary():
    heads = [case for case in head_suites.poster(267_735) if STEP in case.measures]
    assert len(heads) == 4 and all(case.up_to >= 267_735 for case in heads)


def test_the_table_of_the_poster_has_its_formulas_beside_the_memory_of_a_position():
    own = [{**row, "median_ms": 30.0 if row["head"] == "full" else 3.0, "peak_mib": 2.0}
           for row in suite_rows("poster", 10_000)]
    lines = [[cell.strip() for cell in line.split("|")] for line in
             tables.table("poster", own).splitlines()]
    (full,), (tree,) = ([line for line in lines if line[3:4] == [name]]
                        for name in ("Softmax", "p-tHSM"))
    assert PROBLEM.positions == 20 and PROBLEM.units == 8
    assert full[5:7] == ["1.000", "102.4"] and tree[5:7] == tree[8:10] == ["0.100", "102.4"]
    assert full[10:12] == ["H V", "312.5"]  # 4 · 8 · 10,000 / 1024
    assert tree[10:12] == ["H log2 V", "0.4"]


def test_a_peer_without_a_floor_is_held_against_that_of_the_case_it_is_compared_with():
    theirs = [row for row in made_rows() if row["case"] == "theirs"]
    assert [row["to_floor"] for row in theirs] == [4.0, 5.0]


def test_no_ratio_is_between_devices():
    (ours, theirs), _ = group()
    theirs = (theirs[0], {**theirs[1], "device": "GPU"}, *theirs[2:])
    some = rows.rows_of("heads", PROBLEM, "zipf", [ours, theirs], "a machine", 0.5)
    assert all(row["to_peers"] == {} for row in some)


def test_quartiles_lie_between_neighbours():
    assert rows.quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert rows.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)
    assert rows.quartiles([1.0, 2.0]) == (1.25, 1.5, 1.75)


def test_the_budget_says_how_often_and_three_is_the_least():
    assert measure.samples_wanted(100.0, 3.0) == 3
    assert measure.samples_wanted(0.5, 3.0) == 6
    assert measure.samples_wanted(1e-6, 3.0) == measure.MOST_SAMPLES


def test_turns_spread_the_rarer_evenly():
    order = list(measure.turns({"slow": 2, "fast": 6}))
    assert order.count("slow") == 2 and order.count("fast") == 6
    assert order == ["fast"] * 2 + ["slow", "fast"] + ["fast"] * 2 + ["slow", "fast"]
    assert list(measure.turns({})) == []


def test_functions_take_turns_and_the_first_call_does_not_count(monkeypatch):
    log, clock = [], [0.0]
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])

    def function(name, seconds):
        def run():
            log.append(name)
            clock[0] += 100 if log.count(name) == 1 else seconds
        return run

    found = measure.medians({"fast": function("fast", 1.0), "slow": function("slow", 3.0)}, 3)
    assert log == ["fast", "slow"] * 4
    assert {name: wall for name, (wall, _) in found.items()} == {"fast": 1.0, "slow": 3.0}


def test_cases_take_turns_and_slow_ones_are_sampled_less():
    _, log = group()
    after_warm_up = log[10:]
    counts = {key: after_warm_up.count(key) for key in set(log)}
    last_round = [("ours", GRADIENTS), ("ours", STEP), ("ours", FLOOR),
                  ("theirs", GRADIENTS), ("theirs", STEP)]
    assert after_warm_up[-5:] == last_round
    # Each ran twice to warm up. The second run counts as a sample of a case that takes a second.
    assert counts["ours", FLOOR] == 9
    assert counts["ours", GRADIENTS] == 4
    assert counts["ours", STEP] == counts["theirs", STEP] == 2


@pytest.mark.parametrize("fails_in", ["build", GRADIENTS, f"{GRADIENTS} after 3"])
def test_a_case_that_cannot_run_leaves_the_others_alone(fails_in):
    results, _ = group(fails_in)
    assert [result[0].name for result in results] == ["ours"]
    some = rows.rows_of("heads", PROBLEM, "zipf", results, "a machine", 0.5)
    assert [row["to_peers"] for row in some] == [{}, {}]


def test_rows_are_kept_as_they_come_and_a_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    first, second = made_rows(size=1000), made_rows(size=2000)
    rows.append(path, first)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"suite": "heads", "ca')
    assert rows.read(path) == first
    rows.append(path, second)
    assert rows.read(path) == first + second


def test_a_row_that_was_measured_again_replaces_the_old_one(tmp_path):
    path, old = tmp_path / "rows.jsonl", made_rows()
    rows.append(path, old)
    rows.append(path, [{**old[0], "median_ms": 7.0}])
    assert [row["median_ms"] for row in rows.read(path)] == [3000, 4000, 5000, 7.0]


def test_only_cases_without_a_row_are_measured_with_their_peers():
    def left(known):
        keys = {rows.key_of(row) for row in known}
        some = run.missing([OURS, THEIRS], "heads", PROBLEM, "zipf", "a machine", keys)
        return [case.name for case in some]

    known = made_rows()
    assert left([]) == ["ours", "theirs"]
    assert left(known) == []
    assert left([row for row in known if row["case"] == "theirs"]) == ["ours", "theirs"]
    assert left(made_rows(suite="variants")) == ["ours", "theirs"]


def test_a_new_peer_has_the_others_measured_again_for_whose_ratios_its_owner_stands():
    owner = dataclasses.replace(OURS, peers=("theirs", "others"))
    group = [owner, THEIRS, dataclasses.replace(THEIRS, name="others")]
    keys = {rows.key_of(row) for row in made_rows()}  # of ours and theirs
    some = run.missing(group, "heads", PROBLEM, "zipf", "a machine", keys)
    assert [case.name for case in some] == ["ours", "theirs", "others"]


def test_a_process_that_was_killed_is_named_and_can_be_closed():
    worker = measure.Worker(THEIRS, PROBLEM)
    with pytest.raises(measure.Failed, match="theirs: BrokenProcessPool, "):
        worker._ask(signal.raise_signal, signal.SIGKILL)
    with pytest.raises(measure.Failed, match="theirs: BrokenProcessPool, "):
        worker.run(GRADIENTS)
    worker.close()


def test_a_case_that_cannot_be_built_says_why():
    unknown = measure.Worker(dataclasses.replace(THEIRS, kind="none"), PROBLEM)
    with pytest.raises(measure.Failed, match="theirs: KeyError, 'none'"):
        unknown.build()
    unknown.close()


def options(**given):
    defaults = {"vocab_sizes": [], "only": [], "units": 8, "streams": 4, "steps": 5, "data": ""}
    return types.SimpleNamespace(**{**defaults, **given})


def test_suites_cases_and_vocabularies_can_be_chosen():
    work = run.planned(["heads"], options(vocab_sizes=["1000"], only=["*Softmax", "NCE"]))
    assert {suite for suite, _, _ in work} == {"heads"}
    names = {case.name for _, problem, some in work for case in some if problem.vocab_size == 1000}
    assert {"FullSoftmax", "NCE"} <= names and "BlackOut" not in names
    assert {problem.vocab_size for _, problem, _ in run.planned(["heads"], options())} == set(
        cases.VOCAB_SIZES)
    assert {suite for suite, _, _ in run.planned(["all"], options())} == set(ONE_RUN)
    with pytest.raises(ValueError, match=r"SUITE must be one of models.*Received: 'nothing'"):
        run.planned(["nothing"], options())


def test_large_vocabularies_leave_out_what_does_not_fit():
    work = run.planned(["heads"], options(vocab_sizes=["793471"], only=["*Dense", "FullSoftmax"]))
    assert [case.name for _, _, some in work for case in some] == ["FullSoftmax"]


def test_csv_has_the_columns_and_a_line_a_row(tmp_path):
    some = made_rows()
    rows.write_csv(tmp_path / "results.csv", some)
    with open(tmp_path / "results.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == rows.COLUMNS
    assert len(lines) == len(some)
    assert lines[0]["to_peers"] == "theirs=0.5"


def test_the_report_shows_times_ratios_and_the_machine(tmp_path):
    some = made_rows()
    text = report.write(tmp_path, some)
    assert "## a machine; D = 8, N = 20, labels zipf; load average 0.5 to 0.5; numpy 2;" in text
    line = next(line for line in text.splitlines() if line.startswith("| 1,000 | ours"))
    assert "| 2,000 [2,000–2,000] | 2.00 | 0.50 of theirs | 1 | 5 |" in line
    assert "| step over the floor | V = 1,000 |" in text
    assert "| ours | 3.00 |" in text


def test_the_command_of_a_page_has_its_folder_and_the_sizes_that_are_not_the_usual(tmp_path):
    start = "python -m experiments.benchmarks.run heads"
    usual = [{"suite": "heads", "D": 512, "N": 2560}]
    assert report.command(tmp_path / "benchmarks", usual) == start
    rest = f"--units=8 --streams=4 --steps=5 --results={tmp_path}"
    assert report.command(tmp_path, made_rows()) == f"{start} {rest}"


def test_other_ways_to_do_the_same_stand_beside_the_librarys(tmp_path):
    text = report.write(tmp_path, made_rows("padding"))
    assert text.startswith("# Padded positions\n")
    assert "A *ratio* is the library's time" in " ".join(text.split())
    headings, _, *lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert headings == "| V | case | measure | ms | MiB | theirs, ms | ratio |"
    assert lines[0].startswith("| 1,000 | ours |") and len(lines) == 2
    assert lines[0].endswith("| 2,000 [2,000–2,000] | 1 | 4,000 [4,000–4,000] | 0.50 |")


def test_a_whole_step_is_held_against_the_sum_of_its_parts():
    by = {part: {"median_ms": 2.0} for part in PARTS} | {WHOLE: {"median_ms": 10.0}}
    assert tables.to_parts(by) == 1.25


def test_turns_of_a_product_make_up_all_its_words():
    product = floor.Product(1000, 8, 600_001)
    parts = floor.turns(product)
    assert sum(part.words * times for part, times in parts) == product.words
    assert all(part.rows * part.words <= floor.MOST_SCORES for part, _ in parts)
    assert floor.turns(floor.Product(0, 8, 5)) == []


def suite_rows(suite, size):
    """A row of made-up times for every case and measure of a suite."""
    problem = dataclasses.replace(PROBLEM, vocab_size=size)
    some = SUITES[suite][0](size)
    results = []
    for case in some:
        times = {m: [0.5, 1.0, 2.0] for m in (*case.measures, FLOOR)}
        facts = {"cutoffs": case.options.get("cutoffs", [1] * case.options.get("tails", 1)),
                 "expected_ms": 1.0, "words": 9}
        answer = {"parameters": 7, "facts": facts, "device": "CPU", "versions": {}}
        results.append((case, answer, times, dict.fromkeys(times, 2**20), dict.fromkeys(times, 0)))
    return rows.rows_of(suite, problem, "zipf", results, "a machine", 0.5)


def test_every_case_of_the_heads_is_in_one_panel_of_the_pictures():
    panels = [group for groups in plots.FAMILIES.values() for group in groups]
    groups = {case.group for case in head_suites.heads(44_370)}
    assert len(plots.FAMILIES) <= 6, "the picture has six panels"
    assert len(panels) == len(set(panels)), "a group is in two families"
    differing = set(panels) ^ groups
    assert not differing, f"`FAMILIES` in benchmarks/plots.py or the cases lack {differing}"
    assert set(plots.HEADLINE) <= {case.name for case in head_suites.heads(44_370)}


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_has_a_table_with_all_its_cases_and_its_plots(suite, tmp_path):
    pytest.importorskip("matplotlib")
    some = suite_rows(suite, 44_370) + suite_rows(suite, 200_606)
    text = report.write(tmp_path, some)
    cases_of = SUITES[suite][0](44_370)
    ways = {peer: f"{peer.removeprefix(case.name)[2:]}, ms" for case in cases_of
            for peer in case.peers if suite in tables.BESIDE}
    for case in cases_of:
        assert f"| {ways.get(case.name, case.name)} |" in text
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert all(f"({name})" in text for name in pictures)
    expected = {"heads": 3, "shortlists": 1, "projections": 1, "samples": 1, "models": 1}
    assert len(pictures) == expected.get(suite, 0)

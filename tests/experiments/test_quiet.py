"""Benchmarks refuse a machine that is busy, and the guard compares with the page."""

import subprocess
import sys
import time
import types

import pytest

from experiments.benchmarks import guard, quiet, run
from experiments.benchmarks.cases import KERAS, STEP
from tfsoftmax.support import hardware


class Clock:
    """Stands in for `Others._now`: seconds, busy seconds of all cores, our own seconds."""

    def __init__(self, monkeypatch, cores, *moments):
        moments = iter(moments)
        monkeypatch.setattr(quiet.os, "cpu_count", lambda: cores)
        monkeypatch.setattr(quiet.Others, "_now", staticmethod(lambda: next(moments)))
        monkeypatch.setattr(quiet.time, "sleep", lambda seconds: None)


def test_our_own_work_and_that_of_our_children_are_not_the_work_of_others(monkeypatch):
    Clock(monkeypatch, 4, (10.0, 100.0, 5.0), (20.0, 130.0, 33.0))
    assert quiet.Others().share() == pytest.approx((30 - 28) / 40)


def test_a_child_that_has_ended_counts_as_ours():
    busy = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"
    before = quiet.Others._now()
    subprocess.run([sys.executable, "-c", busy], check=True)
    after = quiet.Others._now()
    assert after[2] - before[2] >= 0.9 and after[1] - before[1] >= 0.9


def test_a_busy_machine_is_waited_for_and_then_measured(monkeypatch):
    Clock(monkeypatch, 1, (0, 0, 0), (1, 1, 0), (1, 1, 0), (2, 1, 0))
    said = []
    assert quiet.wait(0.1, said.append, seconds=time.monotonic()) == 0
    assert said == ["  Waiting: other processes take 100% of the cores."]


def test_the_wait_ends(monkeypatch):
    Clock(monkeypatch, 1, (0, 0, 0), (1, 0.5, 0))
    assert quiet.wait(0.1, print, seconds=0) == 0.5


class Shares:
    """Stands in for the shares before and during measurements."""

    def __init__(self, monkeypatch, before, during):
        self.before, self.during, self.runs = iter(before), iter(during), 0
        monkeypatch.setattr(run.quiet, "wait", lambda most, say: next(self.before))
        monkeypatch.setattr(run.quiet, "Others", lambda: self)

    def share(self):
        return next(self.during)

    def __call__(self):
        self.runs += 1
        return self.runs


def test_a_disturbed_group_is_measured_once_more(monkeypatch):
    shares = Shares(monkeypatch, [0.0, 0.0], [0.3, 0.01])
    said = []
    assert run.undisturbed(shares, 0.05, said.append) == (2, 0.01)
    assert said == ["  Measured again: other processes took 30% of the cores."]


@pytest.mark.parametrize("before, during, runs", [([0.4], [], 0), ([0.0, 0.0], [0.4, 0.4], 2)])
def test_nothing_is_returned_from_a_busy_machine(monkeypatch, before, during, runs):
    shares = Shares(monkeypatch, before, during)
    with pytest.raises(SystemExit, match="took 40% of the cores, more than --others=0.05"):
        run.undisturbed(shares, 0.05, lambda text: None)
    assert shares.runs == runs


def page_row(to_peer, hardware="here", to_floor=1.5):
    return {"suite": "heads", "V": 10, "case": "FullSoftmax", "measure": STEP,
            "to_peers": {KERAS: to_peer}, "to_floor": to_floor, "hardware": hardware}


def test_the_guard_prefers_the_row_of_this_machine_and_names_another():
    rows = [page_row(0.8), page_row(0.9, "there")]
    wanted = "heads", 10, "FullSoftmax", STEP
    assert guard.on_page(rows, *wanted, KERAS, "here") == (0.8, "")
    assert guard.on_page(rows, *wanted, None, "here") == (1.5, "")
    assert guard.on_page(rows[1:], *wanted, KERAS, "here") == (0.9, " (there)")
    assert guard.on_page(rows, *wanted, "another peer", "here") == (None, "")


@pytest.mark.parametrize("ratios, now, status, verdict", [
    ([0.9], 0.9, 0, "as on the page"), ([0.95, 0.9], 0.9, 0, "as on the page"),
    ([0.99, 0.95], 0.95, 1, "slower"), ([0.95, 0.99], 0.95, 1, "slower"),
])
def test_the_guard_fails_if_a_ratio_rose_twice(monkeypatch, capsys, ratios, now, status, verdict):
    monkeypatch.setattr(guard, "GUARDED", [("heads", 10, "FullSoftmax", STEP, KERAS)])
    monkeypatch.setattr(guard.of_rows, "read", lambda path: [page_row(0.8)])
    monkeypatch.setattr(guard, "measured", lambda *given: ratios.pop(0))
    monkeypatch.setattr(guard.quiet, "wait", lambda most, say: 0.0)
    monkeypatch.setattr(hardware, "hardware", lambda: "here")
    options = types.SimpleNamespace(page="", seconds=1.0, slower=1.15)
    monkeypatch.setattr(guard.flags, "FLAGS", options)
    with pytest.raises(SystemExit) as left:
        guard.main()
    assert bool(left.value.code) == bool(status)
    said = f"FullSoftmax, V = 10, step to Keras Dense: {now:.2f}, on the page 0.80: {verdict}"
    assert said in capsys.readouterr().out and not ratios


def test_guarded_ratios_are_of_cases_that_exist():
    from experiments.benchmarks.suites import SUITES

    for suite, size, name, measure, peer in guard.GUARDED:
        cases = {case.name: case for case in SUITES[suite][0](size)}
        assert measure in cases[name].measures
        assert peer is None or peer in cases[name].peers

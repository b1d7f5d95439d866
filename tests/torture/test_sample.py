"""A sample of what `make torture` runs."""

import warnings

import pytest

from tfsoftmax import HEADS
from tfsoftmax.commands import program

from . import flags, processes, public, run
from .cases import VERDICTS, verdict


@pytest.mark.parametrize("kind, fraction", [("arguments", 0.1), ("public", 0.1), ("damage", 0.1)])
def test_wrong_input_comes_to_a_clear_sentence_or_to_nothing(kind, fraction):
    _kept, cases = run.cases_of(kind, 5, fraction)
    assert len(cases) > 90
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [(case.name, *verdict(case)) for case in cases]
    assert [each for each in found if each[1] not in VERDICTS[:2]] == []


def test_every_public_name_has_entries_in_the_table_of_valid_arguments():
    listed, entries = public.public_names(), public.table()
    others = {name for name, value in listed.items() if value in HEADS.values()}
    missing = {*listed} - {*entries} - others - public.RESULTS - public.BASES
    assert not missing, f"add valid arguments to `table` of tests/torture/valid.py: {missing}"
    gone = {name for name in entries if not name.startswith("partitions.")} - {*listed}
    assert not gone, f"take from `table` of tests/torture/valid.py: {gone}"


def test_every_command_has_flags_that_make_it_work():
    assert {*flags.SOUND} == {*program.COMMANDS} - flags.SERVING


def test_the_arguments_of_the_table_are_valid():
    for name, uses in public.table().items():
        for use in uses:
            try:
                use.then(use.call(**public.with_paths(use.valid)))
            except Exception as error:
                raise AssertionError(f"the arguments of {name} are refused") from error


@pytest.mark.skipif(not processes.can_fault(), reason="needs Linux and a C compiler")
def test_a_disturbed_tool_ends_well_or_with_a_clear_sentence_and_can_go_on():
    found = list(run.results("prepare", 5, 0.3))
    assert len(found) > 20
    assert [each for each in found if each[2] not in VERDICTS[:2]] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind, fraction, count", [("flags", 0.03, 30), ("pairs", 0.2, 15)])
def test_wrong_flags_and_pairs_come_to_a_clear_sentence_or_to_nothing(kind, fraction, count):
    """In a process of its own, as it forks."""
    found = list(run.results(kind, 5, fraction))
    assert len(found) > count
    assert [each for each in found if each[2] not in VERDICTS[:2]] == []

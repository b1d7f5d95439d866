"""The map of the field: what is written into its page, from curves and times."""

import json

from experiments.benchmarks import rows as of_rows
from experiments.measurements import field_map
from experiments.tables import field

CURVES = {
    "full": [[n, 100.0 - n] for n in range(1, 9)],
    "class": [[n, 110.0 - n] for n in range(1, 8)],
    "taylor": [[1, 198.0], [2, 196.0]],
}


def test_runs_are_compared_at_the_same_epoch():
    assert field_map.compared("class", CURVES) == (5, 105.0, 105 / 95)
    assert field_map.compared("taylor", CURVES) == (2, 196.0, 2.0)


def test_sentences_and_the_table_tell_what_was_measured():
    table = "<!-- table -->\n| run |\n| --- |\n\n"
    page = f"# A\n\n{table}## B\n<!-- measured: class taylor x -->\nold\n\nC\n"
    times = {"full": 1.0, "class": 0.25, "taylor": 0.5}
    text = field_map.written(page, CURVES, times)
    assert "`class` 105.0, 1.11 × full softmax, step time 0.25 ×; " in text
    assert "after epoch 2, 2.00 × full softmax, step time 0.50 ×; `x` has" in text
    assert "| full | 5 | 95.0 | 1.00 | 1.00 |" in text and "old" not in text
    assert "| taylor | 2 | 196.0 | 2.00 | 0.50 |" in text
    assert text.startswith("# A\n\n<!-- table -->\n| run |") and text.endswith("\n\nC\n")
    assert field_map.written(text, CURVES, times) == text


def test_the_page_that_is_committed_is_the_one_that_is_written():
    curves = json.loads((field_map.RESULTS / "curves.json").read_text(encoding="utf-8"))
    times = field_map.step_times(of_rows.read(field_map.RESULTS / "speed" / "rows.jsonl"))
    page = field_map.PAGE.read_text(encoding="utf-8")
    assert field_map.written(page, curves, times) == page


def test_the_page_and_the_picture_name_runs_of_the_experiment():
    runs = {run.name for run in field.RUNS}
    page = field_map.PAGE.read_text(encoding="utf-8")
    named = {name for found in field_map.MARK.findall(page) for name in found.split()}
    drawn = {name for names in field_map.FAMILIES.values() for name in names}
    assert named == runs and drawn == runs - {"full"}

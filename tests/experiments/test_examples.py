"""The examples run from top to bottom, at a smaller size, and print their tables."""

import contextlib
import io
import pathlib
import re
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "experiments" / "examples"
SMALL = {
    "WORDS": 600, "CLASSES": 7, "UNITS": 8, "SENTENCES": 300, "STEPS": 5, "ITEMS": 900,
    "TOPICS": 6, "USERS": 500, "HELD_OUT": 150, "HISTORY": 4, "BATCH": 32, "NEAREST": 10,
    "LABELS": 800, "TEXTS": 400, "LENGTH": 8, "SEEDS": 1, "EPOCHS": 1,
}
FILMS = "".join(f"{i}::Film no {i % 13} (19{50 + i % 50})::Drama|War\n" for i in range(1, 60))
RATINGS = "".join(f"{i % 97}::{1 + i % 97 % 4 + 4 * (i // 97)}::4::{i}\n" for i in range(97 * 13))


def test_every_example_is_run():
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(ROWS)


ROWS = {"language_model": 5, "recommender": 5, "text_classifier": 4}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_example_prints_a_row_for_each_model(name):
    check_table(run(name), name)


@pytest.mark.slow
def test_the_recommender_reads_movielens(tmp_path, monkeypatch):
    (tmp_path / "movies.dat").write_text(FILMS)
    (tmp_path / "ratings.dat").write_text(RATINGS)
    monkeypatch.setattr(sys, "argv", ["recommender", f"--manual_dir={tmp_path}"])
    printed = run("recommender")
    assert printed.startswith("59 items")
    check_table(printed, "recommender")


def run(name):
    """What a smaller copy of the example prints."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    for constant, value in SMALL.items():
        source = re.sub(rf"(?m)^{constant} = [\d_.]+", f"{constant} = {value}", source)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, f"{name}.py", "exec"), {})
    return printed.getvalue()


def check_table(printed, name):
    table = [line.split("|")[1:-1] for line in printed.splitlines() if "|" in line]
    header, _, *rows = table
    assert header[0].strip() == "" and len(rows) == ROWS[name]
    for row in rows:
        numbers = [float(cell.strip().rstrip("%").replace(",", "")) for cell in row[1:]]
        assert len(numbers) == len(header) - 1 and numbers[0] > 0
        assert all(number >= 0 for number in numbers)
    assert "steps with batches of" in printed

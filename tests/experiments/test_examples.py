"""The examples run from top to bottom, at a smaller size, and print their tables."""

import contextlib
import io
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "experiments" / "examples"
SMALL = {
    "WORDS": 600, "CLASSES": 7, "UNITS": 8, "SENTENCES": 300, "STEPS": 5, "ITEMS": 900,
    "TOPICS": 6, "USERS": 500, "HELD_OUT": 150, "HISTORY": 4, "BATCH": 32, "NEAREST": 10,
    "LABELS": 800, "TEXTS": 400, "NEGATIVES": 50, "LENGTH": 8, "SEEDS": 1, "EPOCHS": 1,
    "BEFORE": 500, "NEW": 200, "DAY": 300, "GENRES": 6, "JUDGED": 64,
}
FILMS = "".join(f"{i}::Film no {i % 13} (19{50 + i % 50})::Drama|War\n" for i in range(1, 60))
RATINGS = "".join(f"{i % 97}::{1 + i % 97 % 4 + 4 * (i // 97)}::4::{i}\n" for i in range(97 * 13))


def test_every_example_is_run():
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(ROWS)


ROWS = {
    "language_model": 5, "new_items": 4, "recommender": 5, "sequential_recommender": 3,
    "text_classifier": 4,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_example_prints_a_row_for_each_model(name):
    check_table(run(name), name)


@pytest.mark.slow
def test_new_items_are_found_at_once_if_ids_were_left_out_in_training():
    """With one seed. Without dropout an id that is zero never occurred in training."""
    names = names_of("new_items", r"(?m)^SEEDS = 3", "SEEDS = 1", small=False)
    always, half, *_ = (np.mean(values, axis=0) for values in names["results"].values())
    assert half[0] > always[0] + 0.1  # new items, before anybody had them
    assert np.sum(names["found"] == "item 3") == 0 and (names["new"] > 0)
    assert half[3] > names["results"]["a new model, one day"][0][3]


@pytest.mark.slow
def test_a_sequential_recommender_reads_sequences_in_which_users_take_items_again(
    tmp_path, monkeypatch
):
    lines = [f"{i} " + " ".join(str(1 + (i + j) % 13) for j in range(20)) for i in range(90)]
    (tmp_path / "Tea.txt").write_text("\n".join([*lines, "90 7 7"]))
    argv = [f"--data={tmp_path / 'Tea.txt'}", "--models=SASRec, Full", "--length=6", "--blocks=2"]
    monkeypatch.setattr(sys, "argv", ["sequential_recommender", *argv])
    printed = run("sequential_recommender")
    assert printed.startswith("left out: users with fewer than 3 items, 1 of all\n13 items, 90")
    (row,) = re.findall(r"(?m)^\| SASRec, FullSoftmax .*", printed)
    assert row.split("|")[3].strip() == "100.0%"  # all but the label are excluded


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recommender", "sequential_recommender"])
def test_recommenders_read_movielens(name, tmp_path, monkeypatch):
    (tmp_path / "movies.dat").write_text(FILMS)
    (tmp_path / "ratings.dat").write_text(RATINGS)
    monkeypatch.setattr(sys, "argv", [name, f"--manual_dir={tmp_path}"])
    printed = run(name)
    assert printed.startswith("59 items")
    check_table(printed, name)


def test_a_sequential_recommender_is_judged_on_last_items_without_seen_ones():
    """With one of its models: the others are in the slow tier."""
    names = names_of("sequential_recommender", r'(?m)^    "(SASRec, .*|GRU4Rec, Full.*)": .*\n', "")
    (items, following), users = names["train"], names["users"]
    items, seen = (items[name] for name in ("items", "seen"))
    inside = following[:, :-1] > 0  # the first item of a row is no label
    np.testing.assert_array_equal(items[:, 1:][inside], following[:, :-1][inside])
    np.testing.assert_array_equal(items > 0, following > 0)
    assert not seen.any() and (items[:, -1] > 0).all()
    for place, batches in ((-2, names["validation"]), (-1, names["test"])):
        judged = list(batches.unbatch().as_numpy_iterator())
        assert len(judged) == len(users) > names["JUDGED"]  # the widths of two batches differ
        for (inputs, labels), user in zip(judged, users):
            row, had, label = inputs["items"], inputs["seen"], labels[-1]
            assert label == user[place] and not labels[:-1].any()
            assert {*had} - {0} == {*user[:place]}
            np.testing.assert_array_equal(row[row > 0], user[:place][-names["LENGTH"] :])
    tokens = sum(len(user) - 3 for user in users)
    assert (following > 0).sum() == names["counts"].sum() == tokens
    assert len({*users[0]}) == len(users[0])
    best, counted = names["known"], names["ndcg_of_counts"](names["followed"])
    assert 0 < counted < best < 1


@pytest.mark.slow
def test_sequential_recommenders_come_near_the_best_that_is_possible():
    command = [sys.executable, "-m", "experiments.examples.sequential_recommender"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    check_table(done.stdout, "sequential_recommender")
    best, counted = (
        float(re.search(rf"{said} ([\d.]+)%", done.stdout)[1])
        for said in ("best possible: NDCG@10", "followed the last item:")
    )
    for row in re.findall(r"(?m)^\| [SG].*", done.stdout):
        mean, lowest, highest = (float(cell.strip(" %")) for cell in row.split("|")[3:6])
        assert counted < lowest <= mean <= highest < best


def run(name):
    """What a smaller copy of the example prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names_of(name)
    return printed.getvalue()


def names_of(name, *changed, small=True):
    """The names that a smaller copy of the example defines, perhaps with a substitution."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    for constant, value in SMALL.items() if small else ():
        source = re.sub(rf"(?m)^{constant} = [\d_.]+", f"{constant} = {value}", source)
    names = {}
    source = re.sub(*changed, source) if changed else source
    exec(compile(source, f"{name}.py", "exec"), names)
    return names


def check_table(printed, name):
    table = [line.split("|")[1:-1] for line in printed.splitlines() if "|" in line]
    header, _, *rows = table
    assert header[0].strip() == "" and len(rows) == ROWS[name]
    for row in rows:
        cells = [cell.strip().rstrip("%").replace(",", "") for cell in row[1:]]
        numbers = [float(cell) for cell in cells if cell != "–"]  # where nothing was measured
        assert len(cells) == len(header) - 1 and max(numbers) > 0
        assert all(number >= 0 for number in numbers)
    assert "steps with batches of" in printed

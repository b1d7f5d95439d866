"""Interactions in each public form, from made-up folders."""

import numpy as np
import pytest
from test_movielens import FOLDERS, folder

from experiments.inputs import interactions

INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
# The same users in each form with an order: one has A, B, C in turn, the other only B.
ORDERED = {
    "S3-Rec": {"Beauty.txt": "1 1 2 3\n2 2\n"},
    "SASRec": {"Beauty.txt": "1 1\n2 2\r\n1 2\n\n1 3"},
    "RecBole": {"b.inter": INTER + 'x\t"A\t5\t10\nx\tC\t1\t12.5\ny\tB\t2\t3\nx\tB\t5\t11\n'},
    "csv": {"ratings.csv": 'rating,movieId,userId,timestamp\n5,"A,",x,1e1\n1,C,x,12\n2,B,y,3\n'
                           "5,B,x,11\n", "README.txt": "read me"},
}


def written(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def lists(arrays):
    assert all(array.dtype == np.int32 for array in arrays)
    return [array.tolist() for array in arrays]


@pytest.mark.parametrize("form", ORDERED)
def test_forms_with_an_order_are_read_alike(form, tmp_path):
    path = written(tmp_path, ORDERED[form])
    for data in (interactions.read(path), interactions.read(path / [*ORDERED[form]][0])):
        a, b, c = (0, 1, 2) if "Beauty.txt" in ORDERED[form] else (0, 2, 1)  # as C occurs before B
        assert lists(data.users) == [[a, b, c], [b]] and data.count == 3


@pytest.mark.parametrize("name", FOLDERS)
def test_movielens_is_read_from_its_folder(name, tmp_path):
    data = interactions.read(folder(tmp_path, name))
    assert lists(data.users) == [[0, 2, 1], [0, 2]] and data.count == 3


def test_ids_from_0_stay_and_an_item_that_never_occurs_counts(tmp_path):
    data = interactions.read(written(tmp_path, {"a.txt": "9 0 5\n7 2 0 1\n"}))
    assert lists(data.users) == [[0, 5], [2, 0, 1]] and data.count == 6


WRONG = {
    "`data` must name a folder with one NAME.txt in the .* Received: .* with notes.md":
        {"notes.md": ""},
    "Received: .* with no files": {},
    "`data` must name one of the files.* Received: .* with a.txt, b.txt":
        {"a.txt": "1 2", "b.txt": "1 2"},
    "a.txt, line 2, must hold whole numbers from 0.* Received: '2.5'": {"a.txt": "1 2 3\n1 2.5\n"},
    "a.txt, line 3, must hold whole numbers from 0.* Received: '-4'": {"a.txt": "1 2\n\n1 -4\n"},
    "a.txt must hold interactions. Received: an empty file": {"a.txt": " \n\n"},
    "a.txt must hold items": {"a.txt": "1\n2\n"},
    "a.txt must hold numbers below 2147483647": {"a.txt": "1 99999999999999999999\n"},
    "a.txt, line 4, must name a user that no line before it has. Received: user 1":
        {"a.txt": "1 2 3\n2 3\n\n1 4\n"},
    "a.inter, line 1, must name columns.* Received: .'uid', 'item_id', 'time'.":
        {"a.inter": "uid\titem_id\ttime"},
    "interactions.csv, line 1, must name columns.* 'time'.. Received: .'user', 'item'.":
        {"interactions.csv": "user,item\na,x\n"},
    "a.inter, line 3, must have a cell for each column": {"a.inter": INTER + "x\tA\t5\t1\nx\tA\n"},
    "a.inter must hold interactions below its header": {"a.inter": INTER},
    "ratings.csv, row 2 below the header, must name its item":
        {"ratings.csv": "user,item,time\na,b,1\na,,1\n"},
    "row 2 below the header, must have a finite number as its time. Received: 'May'":
        {"ratings.csv": "user,item,time\na,b,1\na,c,May\n"},
    "row 1 below the header, must have a finite number":
        {"ratings.csv": "user,item,time\na,b,nan\n"},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_named(message, tmp_path):
    with pytest.raises(ValueError, match=message):
        interactions.read(written(tmp_path, WRONG[message]))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="^`data` must name a folder or file .*/none"):
        interactions.read(tmp_path / "none")

"""MovieLens in its three layouts, from made-up folders."""

import numpy as np
import pytest

from experiments.inputs import movielens


def flags(*places):
    """The genres of a film of ml-100k, by their places."""
    return "|".join(str(int(place in places)) for place in range(19)) + "\n"


# The same two users and three films in each layout; times are out of order.
FOLDERS = {
    "ml-25m": {
        "ratings.csv": "userId,movieId,rating,timestamp\n1,30,5.0,12\n7,10,3.5,11\n1,10,4.0,10\n"
                       "1,20,2.0,14\n7,30,1.0,13\n",
        "movies.csv": 'movieId,title,genres\n10,"Été, The (1990)",Drama|War\n'
                      "20,Alien (1979),Sci-Fi\n30,Nameless,(no genres listed)\n",
    },
    "ml-1m": {
        "ratings.dat": "1::30::5::12\n7::10::3::11\n1::10::4::10\n1::20::2::14\n7::30::1::13\n",
        "movies.dat": "10::Été, The (1990)::Drama|War\n20::Alien (1979)::Sci-Fi\n30::Nameless::\n",
        "users.dat": "1::F::1::10::48067\n",
    },
    "ml-100k": {
        "u.data": "1\t30\t5\t12\n7\t10\t3\t11\n1\t10\t4\t10\n1\t20\t2\t14\n7\t30\t1\t13\n",
        "u.item": "10|Été, The (1990)|1-Jan-1990||http://x|" + flags(8, 17)
                  + "20|Alien (1979)|1-Jan-1979||http://x|" + flags(15)
                  + "30|Nameless|||http://x|" + flags(),
        "u.user": "1|24|M|technician|85711\n",
    },
}


def folder(tmp_path, name, **changes):
    for file, text in {**FOLDERS[name], **changes}.items():
        encoding = "utf-8" if name == "ml-25m" else "latin-1"
        (tmp_path / file).write_text(text, encoding=encoding)
    return tmp_path


@pytest.mark.parametrize("name", FOLDERS)
def test_films_and_ratings_are_read_in_the_order_of_time(name, tmp_path):
    data = movielens.read(folder(tmp_path, name))
    assert data.titles == ["Été, The", "Alien", "Nameless"]
    assert data.genres == [["Drama", "War"], ["Sci-Fi"], []]
    np.testing.assert_allclose(data.years, [1990, 1979, (1990 + 1979) / 2])
    assert data.users.tolist() == [0, 1, 0, 1, 0]
    assert data.items.tolist() == [0, 0, 2, 2, 1]


def test_histories_are_the_films_that_a_user_rated_before(tmp_path):
    data = movielens.read(folder(tmp_path, "ml-1m"))
    histories, items, is_last = data.histories(1)
    assert histories.tolist() == [[0], [2], [0]] and items.tolist() == [2, 1, 2]
    assert is_last.tolist() == [False, True, True]
    histories, items, is_last = data.histories(2)
    assert histories.tolist() == [[0, 2]] and items.tolist() == [1] and is_last.tolist() == [True]


def test_what_is_missing_or_malformed_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="`manual_dir` must have ratings.csv and movies.c"):
        movielens.read(tmp_path)
    bad = {"ratings.dat": "1::30::5::12\n1::99::5::12\n"}
    with pytest.raises(ValueError, match=r"ratings.dat, line 2, must be a user, one of the films"):
        movielens.read(folder(tmp_path, "ml-1m", **bad))
    with pytest.raises(ValueError, match="movies.dat, line 1, must be a film"):
        movielens.read(folder(tmp_path, "ml-1m", **{"movies.dat": "ten::A::Drama\n"}))

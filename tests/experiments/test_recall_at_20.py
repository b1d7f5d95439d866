"""NGCF's protocol against loops, its baselines, and the program on a made-up split."""

import types

import numpy as np
import pytest

from experiments.inputs.interactions import Interactions
from experiments.measurements import recall_at_20
from references import ranking

RNG = np.random.default_rng(7)


def sets(users, count, most):
    return [RNG.permutation(count)[: RNG.integers(0, most)].astype(np.int32) for _ in range(users)]


def test_recall_and_ndcg_are_those_of_a_loop():
    relevant = [*sets(600, 60, 40), np.zeros(0, np.int32)]
    found = np.stack([RNG.permutation(60)[:20] for _ in relevant])
    found[3, 15:] = -1
    wanted = [ranking(items, own, 20)[:2] for items, own in zip(found, relevant) if len(own)]
    np.testing.assert_allclose(
        recall_at_20.measured(found, relevant), np.mean(wanted, axis=0), rtol=1e-5)


def test_lists_have_the_best_items_that_the_user_does_not_have():
    users, scores = sets(300, 50, 25), RNG.random((300, 50))
    found, place = recall_at_20.listed(lambda own: scores[: len(own)], users[:200]), 0
    for place, (items, own) in enumerate(zip(found, users)):
        order = [item for item in np.argsort(-scores[place]) if item not in own][:20]
        assert items.tolist() == order
    assert place == 199


@pytest.mark.parametrize("neighbours", [3, 40])
def test_item_knn_sums_the_cosines_of_the_nearest_items(neighbours, monkeypatch):
    monkeypatch.setattr(recall_at_20, "AT_ONCE", 16)  # several blocks of items
    users, count = sets(50, 40, 9), 40
    has = np.array([np.isin(np.arange(count), items) for items in users], float)
    norms = np.sqrt(has.sum(0)).clip(min=1)
    cosines = has.T @ has / norms / norms[:, None]
    np.fill_diagonal(cosines, 0)
    cosines += 1e-9 * RNG.random((count, count))  # hence only sums without ties are compared
    kept = np.where(cosines >= np.sort(cosines, 1)[:, -neighbours][:, None], cosines, 0)
    scores = recall_at_20.ItemKNN(users, count, neighbours).scores(users, neighbours)
    if neighbours == 40:
        np.testing.assert_allclose(scores, has @ kept.T, atol=1e-6)
    for item in range(count):  # the sum of an item's kept cosines does not depend on ties
        one = [np.arange(count, dtype=np.int32)]
        total = recall_at_20.ItemKNN(users, count, neighbours).scores(one, neighbours)[0, item]
        assert total == pytest.approx(kept[item].sum(), abs=1e-6)


def test_a_hidden_state_has_the_other_items():
    import keras

    model, head = recall_at_20.model_of_others(9, np.ones(9), 4)
    table, *_ = (layer.get_weights()[0] for layer in model.layers if layer.weights)
    rows = np.array([[3, 5, 8, 0], [2, 0, 0, 0]])
    hidden = keras.Model(model.input, head.input)(rows).numpy()
    np.testing.assert_allclose(hidden[0, 1], (table[3] + table[8]) / 2**0.5, atol=1e-6)
    np.testing.assert_allclose(hidden[0, 3], table[[3, 5, 8]].sum(0) / 3**0.5, atol=1e-6)
    np.testing.assert_allclose(hidden[1, :2], [0 * table[2], table[2]], atol=1e-6)


def test_a_tenth_of_the_items_is_validation_and_every_item_is_trained_on_once():
    users = [np.arange(n, dtype=np.int32) for n in (0, 1, 2, 25, 230)]
    train, validation = recall_at_20.split(users, np.random.default_rng(0))
    assert [*map(len, validation)] == [0, 0, 1, 2, 23]
    assert all({*a, *b} == {*own} for a, b, own in zip(train, validation, users))
    rows = recall_at_20.pieces(users, np.random.default_rng(0))
    assert rows.shape[1] <= recall_at_20.PIECE and len(rows) == 5
    assert sorted(rows[rows > 0]) == sorted([1, 2, *range(1, 26), *range(1, 231)])


def test_the_program_prints_a_row_of_each_recommender(tmp_path, monkeypatch, capsys):
    lines = [[user, *(user % 4 + 4 * RNG.permutation(30)[:12])] for user in range(60)]
    folder = tmp_path / "Gowalla"
    folder.mkdir()
    for name, cut in {"train.txt": slice(0, 10), "test.txt": slice(10, None)}.items():
        rows = [[line[0], *line[1:][cut]] for line in lines]
        (folder / name).write_text("\n".join(" ".join(map(str, row)) for row in rows))
    options = types.SimpleNamespace(data=str(folder), units=8, epochs=2, seeds=2)
    monkeypatch.setattr(recall_at_20.flags, "FLAGS", options)
    monkeypatch.setattr(recall_at_20, "SAMPLES", 50)
    recall_at_20.main()
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    popular, knn, model, published = ([cell.strip() for cell in line.split("|")][1:-1]
                                      for line in table[2:])
    assert popular[0] == "most popular" and knn[-2:] == ["0.1570", "0.1214"]
    assert float(knn[1]) > float(popular[1]) > 0 and " to " in model[2]
    assert model[-2:] == ["0.1754", "0.1473"] and published[0] == "LightGCN"
    with pytest.raises(ValueError, match="`data` must have train.txt and test.txt"):
        (folder / "test.txt").unlink()
        recall_at_20.main()


def test_training_stops_by_the_validation(monkeypatch):
    recalls = iter([0.1, 0.3, 0.2, 0.2, 0.2, 0.9])
    monkeypatch.setattr(recall_at_20, "measured", lambda *_: (next(recalls), 0))
    monkeypatch.setattr(recall_at_20, "SAMPLES", 20)
    users = sets(20, 30, 12)
    data = Interactions(users, 30, False)
    *_, epochs = recall_at_20.trained(data, users, 1, 4, 9, users)
    assert epochs == 2 and next(recalls) == 0.9

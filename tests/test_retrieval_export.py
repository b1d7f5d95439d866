"""Exported retrieval: what another process finds without tfsoftmax is what the model finds."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, ONE_OF_EACH, UNITS, built, positions, randomise
from refusals import refused, refuses
from serving_helper import retrieved
from tfsoftmax.heads.models import head_and_hidden_model

V, K = 30, 4
EXPORTED = "full", "sampled", "adaptive"
IDS = [f"item {i} \N{GREEK SMALL LETTER ALPHA}" for i in range(V)]


def two_towers(head, second=None):
    """A model of a history of items and an age, whose output is the head's, or one of two."""
    history = keras.Input((3,), dtype="int32", name="history")
    age, unused = keras.Input((1,), name="age"), keras.Input((2,), name="unused")
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(V, 5)(history))
    hidden = keras.layers.Dense(UNITS)(keras.layers.Concatenate()([pooled, age]))
    outputs = head(hidden)
    if second:
        outputs = [keras.layers.Dense(2)(keras.layers.Concatenate()([hidden, unused])), outputs]
    inputs = {"history": history, "age": age} | ({"unused": unused} if second else {})
    model = keras.Model(inputs, outputs)
    randomise(model)
    return model


class OwnTowers(keras.Model):
    """A model of one's own class, which ends in a head."""

    def __init__(self, head):
        super().__init__()
        self.items, self.head = keras.layers.Embedding(V, 5), head
        self.dense = keras.layers.Dense(UNITS)

    def call(self, inputs, training=None):
        pooled = keras.ops.mean(self.items(inputs["history"]), axis=1)
        hidden = keras.ops.concatenate([pooled, inputs["age"]], axis=1)
        return self.head(self.dense(hidden), training=training)


HISTORY, AGE = np.arange(9).reshape(3, 3), np.array([[0.5], [-1.0], [2.0]], np.float32)
REQUEST = {"history": (HISTORY.tolist(), "int32"), "age": (AGE.tolist(), "float32")}
SEEN = [[IDS[3], "", "unknown"], [IDS[29], IDS[0], IDS[1]], ["", "", ""]]


def hidden_of(model):
    inputs = {"history": tf.constant(HISTORY), "age": tf.constant(AGE)}
    hidden_model = head_and_hidden_model(model)[1]
    assert len(hidden_model.inputs) == 2
    return hidden_model([inputs[x.name] for x in hidden_model.inputs])


def test_another_process_finds_what_the_head_finds(tmp_path):
    everything = [[*IDS[:5]], [""] * 5, [""] * 5]
    requests = [{**REQUEST, "exclude": (seen, "string")} for seen in (SEEN, everything, [[]] * 3)]
    models = {case: two_towers(CASES[case](V), case == "sampled") for case in EXPORTED}
    for case, model in models.items():
        tfsoftmax.export_retrieval(model, str(tmp_path / case), K, IDS)
    folders = [tmp_path / case for case in models]
    answers = iter(retrieved(*itertools.product(folders, requests)))
    for model in models.values():
        for seen in (SEEN, everything, None):
            exclude = None
            if seen is not None:
                exclude = np.array([[IDS.index(x) if x in IDS else -1 for x in r] for r in seen])
            head, hidden = head_and_hidden_model(model)[0], hidden_of(model)
            ids, log_probs = head.top_k(hidden, K, exclude=exclude)
            got_ids, got_scores = next(answers)
            assert got_ids == [[IDS[i] for i in row] for row in ids.numpy()]
            np.testing.assert_allclose(got_scores, log_probs, rtol=1e-4, atol=1e-5)


def test_towers_may_look_strings_up(tmp_path):
    names, countries = keras.layers.StringLookup(), keras.layers.StringLookup()
    names.adapt(IDS)
    countries.adapt(["é", "f"])
    tower = tfsoftmax.ItemTower(
        keras.Sequential([names, keras.layers.Embedding(V + 1, UNITS)]), np.array(IDS)
    )
    country = keras.Input((), dtype="string", name="country")
    hidden = keras.layers.Embedding(3, UNITS)(countries(country))
    head = tfsoftmax.SampledSoftmax(V, 5, "uniform", tied_to=tower)
    model = keras.Model(country, head(hidden))
    randomise(model)
    tfsoftmax.export_retrieval(model, str(tmp_path / "model"), K, IDS, exclude=False)
    asked = ["f", "é", "none"]
    ((ids, scores),) = retrieved((tmp_path / "model", {"country": (asked, "string")}))
    wanted = head.top_k(head_and_hidden_model(model)[1]([tf.constant(asked)]), K)
    assert ids == [[IDS[i] for i in row] for row in wanted[0]]
    np.testing.assert_allclose(scores, wanted[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [5, None])
def test_a_model_of_sequences_is_asked_at_a_position(steps, tmp_path):
    """It excludes what a request names, or what the model was called with only in training."""
    history = keras.Input((steps,), dtype="int32", name="history")
    hidden = keras.layers.GRU(UNITS, return_sequences=True)(
        keras.layers.Embedding(V, UNITS, mask_zero=True)(history)
    )
    head = tfsoftmax.FullSoftmax(V, not_items=[0])
    model = keras.Model(history, head(hidden))
    randomise(model)
    tfsoftmax.export_retrieval(model, str(tmp_path / "model"), K, IDS, position=-1)
    rows = np.array([[0, 0, 3, 4, 5], [0, 7, 8, 9, 1], [0, 0, 0, 0, 2]], np.int32)
    request = {"history": (rows.tolist(), "int32"), "exclude": (SEEN, "string")}
    ((ids, scores),) = retrieved((tmp_path / "model", request))
    exclude = np.array([[IDS.index(x) if x in IDS else -1 for x in row] for row in SEEN])
    last = head_and_hidden_model(model)[1](rows)[:, -1]
    wanted = head.top_k(last, K, exclude=exclude)
    assert ids == [[IDS[i] for i in row] for row in wanted[0]] and IDS[0] not in sum(ids, [])
    np.testing.assert_allclose(scores, wanted[1], rtol=1e-4, atol=1e-5)
    for position, argument in ((None, "model"), (5, "position")):
        if argument == "model" or steps:
            with refuses(argument, ""):
                tfsoftmax.export_retrieval(model, str(tmp_path / "x"), K, position=position)


def test_places_that_are_left_are_empty(tmp_path):
    model = two_towers(CASES["full"](V))
    tfsoftmax.export_retrieval(model, str(tmp_path / "model"), V)
    retrieve = tf.saved_model.load(str(tmp_path / "model")).signatures["retrieve"]
    exclude = tf.constant([[str(i) for i in range(2, V)]] * 3)
    got = retrieve(history=tf.constant(HISTORY, tf.int32), age=tf.constant(AGE), exclude=exclude)
    assert {*got["ids"].numpy()[0, :2]} == {b"0", b"1"}
    assert (got["ids"].numpy()[:, 2:] == b"").all()
    assert np.isneginf(got["scores"].numpy()[:, 2:]).all()
    got = retrieve(
        history=tf.constant(HISTORY, tf.int32), age=tf.constant(AGE),
        exclude=tf.fill([3, 2 * V], "7"),  # as many as one likes
    )
    assert (got["ids"].numpy()[:, :-1] != b"7").all() and (got["ids"].numpy()[:, -1] == b"").all()


@pytest.mark.parametrize("kind, case", [
    ("hnsw", "full"), ("ivf", "sampled"), ("hnsw", "full without bias"), ("ivf", "full capped"),
])
def test_an_index_beside_it_finds_candidates_that_are_scored_exactly(kind, case, tmp_path):
    pytest.importorskip("faiss")
    head = CASES[case](V)
    model = two_towers(head)
    options = {"lists": 3, "probes": 3} if kind == "ivf" else {}
    index = tfsoftmax.search.WordIndex(head, kind, samples=0, **options)
    tfsoftmax.export_retrieval(model, str(tmp_path / "model"), K, IDS, index=index)
    exact, found = served_with_index(tmp_path / "model")
    assert found["ids"] == exact["ids"]
    z = head.log_normaliser(hidden_of(model))[:, None]
    np.testing.assert_allclose(found["scores"] - z, exact["scores"], rtol=1e-4, atol=1e-4)


def test_queries_of_nan_retrieve_nothing(tmp_path):
    model = two_towers(CASES["full"](V))
    tfsoftmax.export_retrieval(model, str(tmp_path / "model"), K, exclude=False)
    signatures = tf.saved_model.load(str(tmp_path / "model")).signatures
    age = np.where(np.arange(3)[:, None] == 1, np.nan, AGE).astype(np.float32)
    found = signatures["retrieve"](history=tf.constant(HISTORY, tf.int32), age=tf.constant(age))
    assert_nothing_at(1, found)


def test_candidates_of_nan_queries_are_no_items(tmp_path):
    pytest.importorskip("faiss")
    head = CASES["full"](V)
    model = two_towers(head)
    index = tfsoftmax.search.WordIndex(head, samples=0)
    tfsoftmax.export_retrieval(model, str(tmp_path / "model"), K, exclude=False, index=index)
    rescore = tf.saved_model.load(str(tmp_path / "model")).signatures["rescore"]
    queries = head.queries(hidden_of(model)).numpy()
    queries[1] = np.nan
    candidates = tf.constant(np.arange(3 * 5).reshape(3, 5))
    assert_nothing_at(1, rescore(queries=tf.constant(queries), candidates=candidates))


def assert_nothing_at(row, found):
    nothing = np.arange(3)[:, None] == np.full(K, row)
    np.testing.assert_array_equal(found["ids"].numpy() == b"", nothing)
    np.testing.assert_array_equal(np.isneginf(found["scores"]), nothing)


def served_with_index(folder):
    """The answer of `retrieve`, and that of `rescore` to what faiss finds."""
    import faiss

    model = tf.saved_model.load(str(folder))
    inputs = {name: tf.constant(value, dtype) for name, (value, dtype) in REQUEST.items()}
    queries = model.signatures["query"](**inputs)["queries"]
    index = faiss.read_index(str(folder / "assets.extra" / "items.faiss"))
    _, rows = index.search(queries.numpy(), 12)
    rows[:, -1] = -1  # an empty place
    rows[:, -2] = rows[:, 0]  # one that stands there twice
    no = tf.constant([[""]] * 3)
    found = model.signatures["rescore"](queries=queries, candidates=tf.constant(rows), exclude=no)
    without = model.signatures["rescore"](
        queries=queries, candidates=tf.constant(rows), exclude=found["ids"][:, :1]
    )
    np.testing.assert_array_equal(without["ids"][:, : K - 1], found["ids"][:, 1:])
    exact = model.signatures["retrieve"](**inputs, exclude=no)
    return [
        {"ids": [[x.decode() for x in row] for row in a["ids"].numpy()], "scores": a["scores"]}
        for a in (exact, found)
    ]


@pytest.mark.parametrize("case", CASES)
def test_inner_products_of_vectors_and_queries_rank_the_words_or_there_are_none(case):
    head, hidden = built(case, V), positions(V, 6)[0]
    if head.plain_softmax() is None:
        for ask in (head.vectors, lambda: head.queries(hidden)):
            refused("h Wᵀ . b.*have no vectors. Received: ", ask)
        return
    scores = np.matmul(head.queries(hidden), head.vectors().T)
    np.testing.assert_array_equal(np.argmax(scores, 1), np.argmax(head(hidden), 1))
    if head.soft_cap is None:
        np.testing.assert_allclose(scores, head(hidden), rtol=1e-4, atol=1e-4)


def test_some_heads_have_vectors_and_some_have_none():
    have = {case for case in ONE_OF_EACH if built(case, V).plain_softmax() is not None}
    assert {"full", "sampled", "nce"} <= have and not {"adaptive", "tree"} & have


@pytest.mark.parametrize("case", EXPORTED)
def test_a_model_of_ones_own_class_is_served_as_the_layer_of_a_functional_one(case, tmp_path):
    inputs = {"history": keras.Input((3,), dtype="int32", name="history"),
              "age": keras.Input((1,), name="age")}
    own = OwnTowers(CASES[case](V))
    model = keras.Model(inputs, own(inputs))
    randomise(model)
    head, hidden_model = head_and_hidden_model(model)
    assert head is own.head
    tfsoftmax.export_retrieval(model, tmp_path / "served", K, IDS)
    request = {**REQUEST, "exclude": ([[""], [IDS[0]], [IDS[1]]], "string")}
    ((ids, scores),) = retrieved((tmp_path / "served", request))
    logits = model.predict({"history": HISTORY, "age": AGE}, verbose=0)
    log_probs = tf.nn.log_softmax(logits).numpy()
    log_probs[1, 0] = log_probs[2, 1] = -np.inf
    order = np.argsort(-log_probs, axis=1)[:, :K]
    assert ids == [[IDS[i] for i in row] for row in order]
    np.testing.assert_allclose(scores, np.take_along_axis(log_probs, order, 1), rtol=1e-4)


def test_errors_name_the_argument(tmp_path):
    model = two_towers(CASES["full"](V))
    hidden = keras.Input((3,), name="exclude")
    for arguments, message in [
        ((model, "x", 0), r"`k` must be an integer in \[1, 30\]"),
        ((model, "x", 3, ["a"]), "`ids` must be 30 different strings"),
        ((model, "x", 3, ["a"] * V), "of which 1 differ"),
        ((model, "x", 3, [*IDS[1:], "a\tb"]), r"`ids` must be strings.*Received: ids=\['a\\tb'\]"),
        ((model, "x", 3, range(V)), r"`ids` must be strings.*Received: ids=\[0, "),
        ((model, "x", 3, [*IDS[1:], None]), r"`ids` must be strings.*Received: ids=\[None\]"),
        ((keras.Sequential([keras.layers.Dense(3)]), "x"), "`model` must be functional or seq"),
        ((keras.Model(hidden, CASES["full"](V)(hidden)), "x", 3), "no inputs named.*'exclude'"),
        ((model, str(tmp_path), 3), "`folder` must be a new or empty directory"),
    ]:
        (tmp_path / "file").write_text("")
        refused(message, tfsoftmax.export_retrieval, *arguments)


def test_models_that_cannot_be_exported_are_named(tmp_path):
    names = keras.Input((4,), dtype="int32", name="user history-1")
    hidden = tfsoftmax.Embedding(V, UNITS)(names)
    mean = keras.layers.GlobalAveragePooling1D()(hidden)
    for inputs, of_head, message in (
        (names, mean, "`model` must have inputs whose names are letters.*user history-1"),
        (keras.Input((4, UNITS), name="states"), None, r"`model` must make one query.*\(None, 4, "),
    ):
        head = tfsoftmax.FullSoftmax(V)
        model = keras.Model(inputs, head(inputs if of_head is None else of_head))
        refused(message, tfsoftmax.export_retrieval, model, str(tmp_path / "served"), k=3)
    after = keras.Model(model.input, keras.ops.log_softmax(model.output))  # an operation, no layer
    inner = keras.Sequential([model, keras.layers.Softmax()])
    for wrong in (after, keras.Model(model.input, inner(model.input))):
        with refuses("model", "be functional or sequential, with an output that a head makes"):
            tfsoftmax.export_retrieval(wrong, str(tmp_path / "served"), k=3)

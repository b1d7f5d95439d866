"""Search with an index: the words of the exact `top_k`, wherever the index finds them."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, UNITS, assert_all_equal, built, positions
from experiments.benchmarks.search import with_weights
from refusals import refused
from test_bigram_sampler import ngram
from test_search_estimate import BIAS, HIDDEN, KERNEL, D, V
from tfsoftmax.heads.linear import LinearHead

faiss = pytest.importorskip("faiss")
from tfsoftmax.retrieval.search import WordIndex  # noqa: E402  (needs faiss)

OTHERS = tfsoftmax.SphericalSoftmax, tfsoftmax.CubicScores
HEADS = {case: CASES[case](20) for case in CASES}
LINEAR = [c for c, h in HEADS.items() if isinstance(h, LinearHead) and not isinstance(h, OTHERS)]


@pytest.fixture(scope="module")
def head():
    return with_weights(tfsoftmax.FullSoftmax(V), KERNEL, BIAS)


@pytest.fixture(scope="module")
def index(head):
    return WordIndex(head)


@pytest.mark.parametrize("case", LINEAR)
def test_an_index_that_finds_all_words_gives_the_exact_answer(case):
    """Every head with a row for each word; with all words in the sample, ln Z is exact as well."""
    head, hidden = built(case, 37), positions(37, 11)[0]
    ivf = {"lists": 3, "probes": 3}
    for options in (ivf, {"kind": "hnsw", "candidates": 5, "samples": 40}):
        index = WordIndex(head, **{"candidates": 37, **options})
        assert index.recall(head, hidden, 5) == 1
        ids, log_probs = head.top_k(hidden, 5)
        np.testing.assert_array_equal(head.top_k(hidden, 5, index=index)[0], ids)
        np.testing.assert_allclose(
            head.top_k(hidden, 5, index=index)[1], log_probs, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("kind, samples", [("ivf", 0), ("ivf", 30), ("hnsw", 0)])
def test_a_hidden_state_of_nan_finds_no_words(head, kind, samples):
    index, hidden = WordIndex(head, kind, samples=samples), HIDDEN[:4].copy()
    exact = index.likeliest(head, hidden, 3)
    assert index.recall(head, hidden, 3) > 0
    hidden[1] = np.nan
    for search in (index.likeliest, tf.function(index.likeliest)):
        found = search(head, hidden, 3)
        assert (found.ids[1].numpy() == -1).all() and np.isneginf(found.scores[1]).all()
        np.testing.assert_array_equal(np.delete(found.ids, 1, 0), np.delete(exact.ids, 1, 0))
    ids, log_probs = head.top_k(hidden, 3, index=index)
    assert (ids[1].numpy() == -1).all() and np.isneginf(log_probs[1]).all()
    few = np.nan_to_num(hidden[[0, 2, 3]])
    assert index.recall(head, hidden, 3) == index.recall(head, few, 3)


def test_weights_of_nan_are_refused():
    head = built("full", 9)
    head.bias.assign(np.full(9, np.nan))
    refused("`head` must have finite weights", WordIndex, head)


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_an_index_may_have_very_few_words(words, kind):
    head, hidden = built("full", words), positions(words, 5)[0]
    index = WordIndex(head, kind=kind)
    np.testing.assert_array_equal(
        head.top_k(hidden, 1, index=index)[0], head.top_k(hidden, 1)[0])


def test_there_is_a_case_of_each_kind_of_head():
    assert {"full", "sampled", "nce", "negative", "blackout", "self-normalised"} <= set(LINEAR)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_index_finds_the_likeliest_words_and_scores_them_exactly(head, kind):
    index = WordIndex(head, kind, candidates=100)
    assert index.recall(head, HIDDEN, 10) > 0.98  # 0.75 with vectors that are not centred
    found = index.likeliest(head, HIDDEN, 10)
    logits = np.take_along_axis(head(HIDDEN).numpy(), found.ids.numpy(), axis=1)
    np.testing.assert_allclose(found.scores, logits, rtol=1e-4, atol=1e-4)
    assert np.all(np.diff(found.scores) <= 0)
    distance = np.abs(found.log_z - head.log_normaliser(HIDDEN))
    assert np.mean(distance < 3 * found.error) > 0.95 and np.all(found.error < 0.1)
    np.testing.assert_array_equal(found.estimated_log_probs, head.top_k(HIDDEN, 10, index=index)[1])


def test_a_graph_does_not_follow_the_biases_alone():
    """Where biases vary more than the units of the kernel, as they do in trained heads."""
    head = with_weights(tfsoftmax.FullSoftmax(V), KERNEL / 30, BIAS)
    index = WordIndex(head, "hnsw", candidates=100)
    assert index.recall(head, 30 * HIDDEN, 10) > 0.98  # 0.64 if they are not scaled


def test_recall_is_the_share_of_the_exact_words(head):
    few = WordIndex(head, "ivf", lists=20, probes=1, candidates=10)
    exact, found = head.top_k(HIDDEN, 10)[0].numpy(), few.likeliest(head, HIDDEN, 10).ids.numpy()
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(exact, found)]
    assert few.recall(head, HIDDEN, 10) == pytest.approx(np.mean(shares)) and np.mean(shares) < 0.9
    more = WordIndex(head, "ivf", lists=20, probes=10, candidates=10)
    assert more.recall(head, HIDDEN, 10) > np.mean(shares) + 0.05


@pytest.mark.parametrize("leading", [(), (1,), (3,), (2, 3)])
def test_any_leading_shape_eagerly_and_in_a_function(head, index, leading):
    hidden = HIDDEN[: int(np.prod(leading))].reshape(*leading, D)
    eager = head.top_k(hidden, 4, index=index)
    signature = tf.TensorSpec([None] * len(leading) + [D])
    graph = tf.function(lambda h: head.top_k(h, 4, index=index), input_signature=[signature])
    for one, other in zip(eager, graph(hidden)):
        assert one.shape == other.shape == (*leading, 4)
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_k_may_exceed_the_number_of_candidates(head):
    index = WordIndex(head, "ivf", lists=5, probes=5, candidates=3)
    ids = head.top_k(HIDDEN[:4], 20, index=index)[0]
    np.testing.assert_array_equal(ids, head.top_k(HIDDEN[:4], 20)[0])


def test_an_index_of_the_users_own(head):
    flat = faiss.IndexFlatIP(D + 1)
    assert WordIndex(head, flat, candidates=20).recall(head, HIDDEN, 10) == 1
    filled = faiss.index_factory(D + 1, "IVF8,SQ8", faiss.METRIC_INNER_PRODUCT)
    filled.train(head.vectors())
    filled.add(head.vectors())
    filled.nprobe = 8
    # The vectors in it are rounded, but the scores of the candidates are not.
    found = WordIndex(head, filled, candidates=40).likeliest(head, HIDDEN, 10)
    np.testing.assert_array_equal(found.ids, head.top_k(HIDDEN, 10)[0])


def test_without_a_sample_log_z_is_that_of_the_words_found(head):
    index = WordIndex(head, faiss.IndexFlatIP(D + 1), candidates=30, samples=0)
    found = index.likeliest(head, HIDDEN, 5)
    scores = head.top_k(HIDDEN, 30)[1] + head.log_normaliser(HIDDEN)[:, None]
    np.testing.assert_allclose(found.log_z, tf.reduce_logsumexp(scores, 1), rtol=1e-4)
    assert np.isnan(found.error).all()


def test_the_sample_is_that_of_its_seed_and_of_the_counts(head):
    def error(**options):
        index = WordIndex(head, "ivf", candidates=20, samples=300, **options)
        return index.likeliest(head, HIDDEN, 1).error.numpy()

    np.testing.assert_array_equal(error(seed=2), error(seed=2))
    assert np.any(error(seed=2) != error(seed=3))
    counts = 1e6 / np.arange(1, V + 1)
    assert np.mean(error(counts=counts) ** 2) < 0.9 * np.mean(error() ** 2)


def test_half_precision():
    head = with_weights(tfsoftmax.FullSoftmax(V, dtype="mixed_bfloat16"), KERNEL, BIAS)
    index = WordIndex(head, "hnsw", candidates=100, samples=V)
    exact, found = head.top_k(HIDDEN, 5), head.top_k(HIDDEN, 5, index=index)
    assert found[1].dtype == tf.float32
    assert np.mean(exact[0].numpy() == found[0].numpy()) > 0.5  # bfloat16 makes ties
    np.testing.assert_allclose(exact[1], found[1], atol=0.05)


def test_scores_follow_the_weights_and_the_index_is_refused_when_they_have_changed(
    head, index, tmp_path
):
    path = tmp_path / "words.index"
    index.save(path)
    bias = head.bias.numpy()
    before = index.likeliest(head, HIDDEN, 5)
    again = WordIndex.load(path, head).likeliest(head, HIDDEN, 5)
    assert_all_equal(before, again)
    try:
        head.bias.assign(bias + 1)
        scores = index.likeliest(head, HIDDEN, 5).scores
        np.testing.assert_allclose(scores, before.scores + 1, rtol=1e-5)
        refused("words.index: must be an index of the present weight", WordIndex.load, path, head)
        stale = WordIndex.load(path, head, stale=True)
        np.testing.assert_array_equal(stale.likeliest(head, HIDDEN, 5).scores, scores)
    finally:
        head.bias.assign(bias)


def test_an_index_beside_a_keras_file_in_another_process(tmp_path):
    hidden = keras.Input((D,))
    model = keras.Model(hidden, tfsoftmax.SampledSoftmax(V, num_samples=9, name="head")(hidden))
    model.get_layer("head").kernel.assign(KERNEL)
    index = WordIndex(model.get_layer("head"), samples=100)
    model.save(tmp_path / "model.keras")
    index.save(tmp_path / "model.index")
    np.save(tmp_path / "hidden.npy", HIDDEN)
    code = (
        "import keras, numpy as np, tfsoftmax\n"
        "head = keras.saving.load_model('model.keras').get_layer('head')\n"
        "index = tfsoftmax.search.WordIndex.load('model.index', head)\n"
        "np.savez('found.npz', *index.likeliest(head, np.load('hidden.npy'), 6))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    found = index.likeliest(model.get_layer("head"), HIDDEN, 6)
    with np.load(tmp_path / "found.npz") as other:
        for name, values in zip(sorted(other), found):
            np.testing.assert_allclose(other[name], values, rtol=1e-5)


def test_a_damaged_file_is_named(head, index, tmp_path):
    path = tmp_path / "words.index"
    index.save(path)
    data = path.read_bytes()
    middle = len(data) // 2
    for damaged in (b"", b"no index", data[:middle], data[:middle] + b"!!!!" + data[middle + 4 :]):
        path.write_bytes(damaged)
        refused("words.index: must be an index that `save` wrote", WordIndex.load, path, head)
    with pytest.raises(FileNotFoundError, match="missing.index"):
        WordIndex.load(tmp_path / "missing.index", head)


def test_errors_name_the_argument(head, index):
    tree = tfsoftmax.TreeSoftmax(V)
    tree.build((None, D))
    after_word = [
        make(30, 5, "bigram", ngram=ngram(30), shared_samples=False)
        for make in (tfsoftmax.NCE, tfsoftmax.NegativeSampling)
    ]
    other_functions = [
        tfsoftmax.SphericalSoftmax(V), tfsoftmax.SphericalSoftmax(V, sgd_learning_rate=0.1),
        tfsoftmax.TaylorSoftmax(V), tfsoftmax.CubicScores(V),
    ]
    for other in (*after_word, *other_functions):
        other.build((None, D))
    unfit = tree, tfsoftmax.FullSoftmax(V), built("differentiated", 30)
    for other in (*unfit, *after_word, *other_functions):
        for ask in (WordIndex, lambda head: index.likeliest(head, HIDDEN, 3)):
            refused(r"`head` must be built, with P\(w \| h\) = soft", ask, other)
    for options, message in [
        ({"kind": "tree"}, "`kind` must be one of .'hnsw', 'ivf'"),
        ({"kind": faiss.IndexFlatIP(D + 1), "links": 3}, "without options"),
        ({"kind": faiss.IndexFlatIP(D)}, f"inner products of {D + 1} numbers"),
        ({"kind": faiss.IndexFlatL2(D + 1)}, "for inner products"),
        ({"head": "head"}, "`head` must be a SoftmaxHead. Received: head='head'"),
        ({"candidates": 0}, r"`candidates` must lie in \[1"),
        ({"samples": -1}, "`samples` must be at least 0"),
        ({"counts": [1, 2]}, "`counts` must be finite"),
        ({"probes": 0}, r"`probes` must lie in \[1"),
        ({"candidates": True}, "`candidates` must be an integer. Received: candidates=True"),
        ({"samples": 2.5}, "`samples` must be an integer"),
        ({"seed": -1}, "`seed` must be at least 0"), ({"seed": "x"}, "`seed` must be an integer"),
        ({"kind": "hnsw", "links": 1}, "`links` must be at least 2"),
        ({"kind": "ivf", "lists": 10_000}, "`lists` must be at most "),
        ({"breadth": 3}, "`options` must be among .'lists', 'probes'"),
    ]:
        refused(message, WordIndex, **{"head": head, **options})
    with pytest.raises(ValueError, match="`index` must be a tfsoftmax.search.WordIndex"):
        head.top_k(HIDDEN, 3, index=faiss.IndexFlatIP(D + 1))
    refused(r"`k` must be an integer in \[1, 2000\]", head.top_k, HIDDEN, 0, index=index)
    for other in (built("full", 30), built("full without bias", V)):
        with pytest.raises(ValueError, match="`index` must be one of a head with"):
            other.top_k(np.zeros([2, UNITS]), 3, index=index)


def test_too_few_words_found_is_an_error(head):
    index = WordIndex(head, "ivf", lists=200, probes=1, candidates=3)
    for call in (head.top_k, tf.function(head.top_k)):
        with pytest.raises(
            (ValueError, tf.errors.InvalidArgumentError), match="`index` must find 1500 words"
        ):
            call(HIDDEN, 1500, index=index)


def test_words_to_exclude_need_not_be_found_if_they_are_padding(head):
    index = WordIndex(head, "ivf", lists=200, probes=1, candidates=3)
    exclude = np.full([len(HIDDEN), 1500], -1)
    ids, log_probs = head.top_k(HIDDEN, 1, index=index)
    exclude[0, 7] = ids[0, 0]
    got_ids, got_log_probs = head.top_k(HIDDEN, 1, index=index, exclude=exclude)
    np.testing.assert_array_equal(got_ids[1:], ids[1:])
    assert got_ids[0, 0] != ids[0, 0]
    assert (got_log_probs[0] < log_probs[0]).numpy().all()
    every = np.tile(np.arange(V), [len(HIDDEN), 1])
    ids, log_probs = head.top_k(HIDDEN, 2, index=WordIndex(head), exclude=every)
    assert (ids == -1).numpy().all() and np.isneginf(log_probs).all()


def test_xla_is_refused_in_words(head, index):
    compiled = tf.function(lambda h: head.top_k(h, 3, index=index), jit_compile=True)
    refused("jit_compile=False", compiled, HIDDEN, error=NotImplementedError)


def test_rows_of_padding_need_find_nothing():
    """Chunks are padded with zeros, for which an index may find fewer words."""
    rng = np.random.default_rng(3)
    kernel = [1, 0] + 0.01 * rng.normal(size=(100, 2))
    kernel[rng.permutation(100)[:2]] = [-1, 0]
    head = tfsoftmax.FullSoftmax(100, use_bias=False)
    head.build((None, 2))
    head.kernel.assign(kernel)
    index = WordIndex(head, "ivf", candidates=5, samples=0, lists=2, probes=1)
    queries = np.tile(np.float32([[1, 0]]), (513, 1))
    assert index.likeliest(head, queries, 5).ids.shape == (513, 5)
    assert index.likeliest(head, queries[:0], 5).ids.shape == (0, 5)
    refused("`index` must find 5 words; .* Received: 2 of", index.likeliest, head, -queries, 5)

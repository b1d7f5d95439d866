"""TreeSoftmax against float64 loops, its two modes against each other, and its promises."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, assert_all_close, chosen, counts, positions, prepared, with_gradients
from references import tree_log_probs
from refusals import refuses
from tfsoftmax import TreeSoftmax, Vocabulary
from tfsoftmax.distributions import tree as ops
from tfsoftmax.distributions import tree_search as search
from tfsoftmax.lm.head_options import head_for
from tfsoftmax.ops import chunks
from tfsoftmax.partitions import code_files, tree_builders
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support import budgets

V = 41


def tree_head(vocab_size=V, seed=0, units=UNITS, **options):
    head = TreeSoftmax(vocab_size, **{"counts": counts(vocab_size), **options})
    return prepared(head, seed, units)


@pytest.fixture(params=[0, 3, 64])
def top_nodes(request, monkeypatch):
    """The tests run with no dense nodes, with some, and with dense nodes only."""
    monkeypatch.setattr(budgets, "TOP_NODES", request.param)


@pytest.mark.parametrize("tree", ["huffman", "balanced", "random"])
def test_log_probs_equal_the_equation(tree):
    head, (hidden, _) = tree_head(tree=tree), positions(V, 5)
    expected = tree_log_probs(hidden, *head.get_weights(), head.tree.codes())
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_log_prob_of_a_path_equals_the_equation(mode, top_nodes):
    head, (hidden, labels) = tree_head(mode=mode), positions(V, 200)
    expected = chosen(tree_log_probs(hidden, *head.get_weights(), head.tree.codes()), labels)
    np.testing.assert_allclose(head.log_prob(hidden, labels), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("use_bias", [False, True])
def test_parallel_and_sequential_gradients_are_the_same(use_bias, top_nodes, monkeypatch):
    monkeypatch.setattr(budgets, "PATH_STEPS", 64)
    hidden, labels = positions(V, 200)
    weights = np.random.default_rng(3).uniform(size=200).astype(np.float32)
    hidden, results = tf.Variable(hidden), []
    for mode in ("parallel", "sequential"):
        head = tree_head(mode=mode, use_bias=use_bias)
        (total, _), gradients = with_gradients(
            head.loss_and_nats, [hidden, *head.weights], hidden, labels, weights
        )
        results.append([total, *gradients])
    assert_all_close(*results, rtol=1e-4, atol=1e-4)


def test_gradient_has_each_node_once_and_no_other():
    head, (hidden, labels) = tree_head(1000), positions(1000, 20)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(head.training_loss(hidden, labels))
    paths = head.tree.paths()[labels]
    touched = set(range(budgets.TOP_NODES)) | set(paths[paths >= 0] // 2)
    for gradient in tape.gradient(loss, [w.value for w in head.weights]):
        assert isinstance(gradient, tf.IndexedSlices)
        assert sorted(gradient.indices.numpy()) == sorted(touched)


def test_top_k_and_log_probs_are_the_same_in_chunks(monkeypatch):
    head, (hidden, _) = tree_head(), positions(V, 40)
    whole = [head.log_probs(hidden), *head.top_k(hidden, 5)]
    monkeypatch.setattr(chunks, "chunk_rows", lambda _: 7)
    assert_all_close([head.log_probs(hidden), *head.top_k(hidden, 5)], whole, rtol=1e-6, atol=0)


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
def test_best_first_search_finds_what_a_full_pass_finds(k, scale, monkeypatch):
    """Flat distributions as well as peaked ones; no words tie, thanks to the biases."""
    monkeypatch.setattr(budgets, "OPENED_NODES", 4)
    tree = "balanced" if scale == 0 else "huffman"
    head, (hidden, _) = tree_head(1000, tree=tree), positions(1000, 9)
    kernel, bias = head.get_weights()
    head.set_weights([scale * kernel, bias if scale == 3.0 else 0.01 * bias])
    log_probs = head.log_probs(hidden).numpy()
    ids, values = head.top_k(hidden, k)
    np.testing.assert_allclose(values, -np.sort(-log_probs, axis=1)[:, :k], rtol=1e-5, atol=1e-5)
    found = np.take_along_axis(log_probs, ids.numpy(), 1)
    np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-5)
    assert all(len(set(row)) == k for row in ids.numpy())


def test_search_opens_few_nodes_and_gives_up_on_flat_distributions(monkeypatch):
    monkeypatch.setattr(budgets, "OPENED_NODES", 4)
    head, (hidden, _) = tree_head(1000, tree="balanced"), positions(1000, 9)
    for factor, expected in ((1, True), (0, False)):
        weights = [tf.constant(factor * w) for w in head.get_weights()]
        *_, done = search.best_first(hidden, *weights, head.tree.children(), 2)
        assert bool(done) == expected


def test_walks_draw_words_as_often_as_they_are_likely():
    head, (hidden, _) = tree_head(7), positions(7, 1)
    chances = np.exp(head.log_probs(hidden).numpy()[0])
    words = head.sample(np.repeat(hidden, 20_000, 0).reshape(200, 100, UNITS), [1, 2])
    assert words.shape == (200, 100) and words.dtype == tf.int32
    shares = np.bincount(np.ravel(words), minlength=7) / 20_000
    np.testing.assert_allclose(shares, chances, atol=4 * np.sqrt(0.25 / 20_000))


def test_deepest_of_trees():
    """A chain: word v lies v + 1 deep."""
    nested = functools.reduce(lambda below, word: [word, below], range(18, -1, -1), 19)
    head = tree_head(20, tree=tree_builders.from_nested(nested))
    hidden, labels = positions(20, 30)
    expected = tree_log_probs(hidden, *head.get_weights(), head.tree.codes())
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-4, atol=1e-5)
    ours = head.log_prob(hidden, labels)
    np.testing.assert_allclose(ours, chosen(expected, labels), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tree", ["huffman", "balanced"])
def test_paths_followed_upwards_are_those_of_the_tree(tree):
    tree = tree_builders.build(tree, V, counts(V))
    words = np.arange(V, dtype=np.int32)
    found = ops.paths_upwards(tree.leaves[words], tree.above(), len(tree.levels)).numpy()
    for upwards, downwards in zip(found, tree.paths()):
        assert upwards[upwards >= 0].tolist() == downwards[downwards >= 0][::-1].tolist()
        assert (np.diff(upwards < 0) >= 0).all()  # the end of the path comes last


def test_a_head_holds_a_few_integers_a_word_however_deep_its_tree():
    head = tree_head(counts=2.0 ** np.arange(V))  # a path of V - 1 edges
    held = [value for value in vars(head).values() if isinstance(value, tf.Variable)]
    assert 0 < sum(v.shape.num_elements() for v in held) <= 6 * V


def test_no_tensor_of_all_steps_by_units():
    """The usual computation gathers the paths in a tensor of N L D elements."""
    from graph_helper import largest_tensor

    head, count = tree_head(10_007, units=64), 2560
    steps = count * head.tree.depths.max()

    @tf.function
    def step(hidden, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(head.training_loss(hidden, labels))
        return tape.gradient(loss, [w.value for w in head.weights])

    shapes = tf.TensorSpec((count, 64)), tf.TensorSpec((count,), tf.int32)
    assert largest_tensor(step.get_concrete_function(*shapes)) < steps * 64 / 5


def test_trees_of_more_children_become_binary():
    tree = Tree([V], np.arange(V))
    head = tree_head(tree=tree)
    expected = tree_builders.huffman(counts(V))
    assert int(counts(V) @ head.tree.depths) == int(counts(V) @ expected.depths)


def test_a_vocabulary_gives_counts_and_words(tmp_path):
    words = ["<unk>", "b", "a", "<eos>", "c"]
    vocabulary = Vocabulary(words, [100, 1, 1, 1, 1])
    assert head_for(vocabulary, TreeSoftmax).tree.depths.tolist() == [1, 3, 3, 3, 3]
    codes = head_for(vocabulary, TreeSoftmax, tree="alphabetical").tree.codes()
    assert sorted(words, key=lambda w: codes[words.index(w)]) == sorted(words)
    some = words[1:3] + words[4:]
    code_files.write_codes(tmp_path / "paths", ["00", "01", "01"], some, [1, 1, 1])
    head = head_for(vocabulary, TreeSoftmax, tree=str(tmp_path / "paths"))
    codes = head.tree.codes()
    assert codes[0][0] == codes[3][0] == 1 and codes[1] == [0, 0] and codes[2][:2] == [0, 1]
    again = TreeSoftmax.from_config(head.get_config())  # which needs no file any more
    assert again.tree.codes() == codes


@pytest.mark.parametrize("name, rule, vocab_size, options", [
    ("vocab_size", "be at least 2", 1, {}), ("mode", "be one of", 5, {"mode": "fast"}),
    ("tree", "be a tree of 5 words. Received: one of 4", 5,
     {"tree": tree_builders.balanced(np.arange(4))}),
])
def test_mistakes_are_named(name, rule, vocab_size, options):
    with refuses(name, rule):
        TreeSoftmax(vocab_size, **options)

"""NarySoftmax compiled by XLA, whose steps and children come in tiles, against its loop."""

import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, positions, with_gradients
from cases import prepared as built
from tfsoftmax.distributions import nary_tiles
from tfsoftmax.heads import NarySoftmax, SelfOrganisedSoftmax, TreeSoftmax, self_organised
from tfsoftmax.optimizers import Adagrad
from tfsoftmax.partitions import tree_builders
from tfsoftmax.support import budgets

V = 700


def ragged(words, rng):
    """Nested lists of words: a random number of branches at each node, some of them words."""
    if len(words) < 4:
        return words
    ends = np.sort(rng.choice(np.arange(1, len(words)), min(len(words) // 2, 5), replace=False))
    parts = np.split(np.array(words), ends)
    return [part[0] if len(part) == 1 else ragged(part.tolist(), rng) for part in parts]


def flat_and_deep():
    """A node with more words than a tile has edges, beside nodes with one, and a deep branch."""
    return [list(range(600)), [[600, 601]], [602, [603, [604, list(range(605, V))]]]]


TREES = {
    "flat": lambda: list(range(V)),
    "flat and deep": flat_and_deep,
    "ragged": lambda: ragged(list(range(V)), np.random.default_rng(0)),
}


def nary(tree, **options):
    return built(NarySoftmax(V, tree_builders.from_nested(TREES[tree]()), **options))


def results(head, hidden, labels, weights, jit_compile):
    """The total, nats, and gradients of hidden states, weights of positions and parameters."""
    hidden, weights = tf.Variable(hidden), tf.Variable(weights)

    @tf.function(jit_compile=jit_compile)
    def step(labels):
        def both():
            total, nats = head.loss_and_nats(hidden, labels, weights)
            other = tf.reduce_sum(weights * head.training_loss(hidden, labels))
            return 3 * total + other, total, nats

        return with_gradients(both, [hidden, weights, *head.trainable_weights])

    return tf.nest.flatten(step(labels))


def assert_the_same(*arguments):
    tiles, loop = (results(*arguments, jit) for jit in (True, False))
    assert_all_close(tiles, loop, atol=1e-4)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("use_bias, count", [(True, 333), (False, 16)])
def test_tiles_give_what_the_loop_gives(tree, use_bias, count):
    head, (hidden, labels) = nary(tree, use_bias=use_bias), positions(V, count)
    weights = np.random.default_rng(1).uniform(size=count).astype(np.float32)
    weights[:-1:5] = 0
    assert_the_same(head, hidden, labels, weights)


def test_all_positions_may_have_the_same_word():
    head, (hidden, labels) = nary("flat and deep"), positions(V, 50)
    for word in (599, V - 1):
        assert_the_same(head, hidden, np.full_like(labels, word), np.ones(50, np.float32))


def random_steps(rng):
    """The steps of random words of a random tree of two levels, and of the bounds of its sizes."""
    sizes = rng.integers(1, rng.choice([3, 40, 400]), rng.integers(1, 30))
    sizes = np.concatenate([[len(sizes)], sizes]).astype(np.int32)
    starts = np.cumsum(sizes) - sizes
    shares = rng.uniform(size=len(sizes) - 1) ** rng.choice([0, 1, 9])
    nodes = 1 + rng.choice(len(shares), rng.integers(1, 200), p=shares / shares.sum())
    paths = np.stack([nodes - 1, rng.integers(starts[nodes], starts[nodes] + sizes[nodes])], 1)
    owners = np.stack([0 * nodes, nodes], 1)
    of_paths = np.stack([np.full(len(sizes) - 1, sizes[0]), sizes[1:]], 1)
    bounds = nary_tiles.bounds(of_paths, int(sizes.sum()))
    arrays = (tf.constant(a, tf.int32) for a in (paths, owners, starts, sizes))
    return nary_tiles.tiled_steps(*arrays, bounds)


def test_no_batch_needs_more_tiles_than_there_are(monkeypatch):
    monkeypatch.setattr(budgets, "TILE_EDGES", 64)
    rng, shares = np.random.default_rng(0), []
    for _ in range(200):
        steps = random_steps(rng)
        assert bool(steps.fit)
        shares.append(int(steps.count) / steps.edges.shape[0])
    assert 0.9 < max(shares) <= 1  # the bound is not much too large


def test_clusters_that_are_larger_than_the_head_allows_are_nan_and_not_wrong():
    """As when weights come from a head with a larger gamma."""
    counts, (hidden, labels) = np.ones(V), positions(V, 300)
    head = built(SelfOrganisedSoftmax(V, counts, gamma=1.0))
    clusters = np.minimum(np.arange(V) // 400, head.num_clusters - 1)
    layout = self_organised._layout(clusters, head.num_clusters)
    for name, value in layout.items():
        head.layout[name].assign(value)
    compiled = tf.function(head.training_loss, jit_compile=True)
    assert np.all(np.isnan(compiled(hidden, labels)))
    assert np.all(np.isfinite(head.training_loss(hidden, labels)))


def test_a_compiled_step_of_adagrad_is_that_of_the_loop():
    def trained(jit_compile):
        head, (hidden, labels) = nary("ragged"), positions(V, 100)
        optimizer = Adagrad(0.5, global_clipnorm=0.1)
        optimizer.build(head.trainable_variables)

        @tf.function(jit_compile=jit_compile)
        def step():
            with tf.GradientTape() as tape:
                total, _ = head.loss_and_nats(hidden, labels, tf.ones(100))
            optimizer.apply(tape.gradient(total, [w.value for w in head.trainable_weights]))
            return total

        return [step() for _ in range(3)], head.get_weights()

    (losses, weights), (wanted_losses, wanted) = trained(True), trained(False)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    assert_all_close(weights, wanted, rtol=1e-4)


def test_compiled_self_organised_softmax_observes_what_the_loop_observes():
    counts, (hidden, labels) = 10_000 // np.arange(1, V + 1), positions(V, 90)
    labels[30:60] = labels[:30]
    weights = np.float32(np.arange(90) % 3 > 0)

    def observed(jit_compile):
        head = built(SelfOrganisedSoftmax(V, counts))
        before = head.preferences.numpy()
        tf.function(head.loss_and_nats, jit_compile=jit_compile)(hidden, labels, weights)
        return head.preferences.numpy(), before

    (ours, before), (wanted, _) = observed(True), observed(False)
    changed = np.flatnonzero(np.any(ours != before, axis=1))
    assert len(changed) > 30 and set(changed) <= set(labels[weights > 0])
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_words_are_not_sampled_under_xla():
    head, (hidden, _) = built(TreeSoftmax(V)), positions(V, 2)
    with pytest.raises(NotImplementedError, match="TreeSoftmax cannot be compiled by XLA"):
        tf.function(head.sample, jit_compile=True)(hidden, (0, 1))

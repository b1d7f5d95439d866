"""AdaptiveSoftmax against float64 loops, its clusters, its order of words, its pruning."""

import itertools
import warnings

import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, chosen, positions, prepared, slow_unless, with_gradients
from references import adaptive_log_probs
from refusals import refuses
from tfsoftmax import AdaptiveSoftmax, TwoLevelSoftmax, Vocabulary
from tfsoftmax.distributions import cluster_rounds as adaptive_clusters
from tfsoftmax.distributions import clusters as ops
from tfsoftmax.lm.head_options import head_for
from tfsoftmax.partitions.bands import band_units, frequency_bands
from tfsoftmax.support import budgets

V = 13
COUNTS = np.random.default_rng(2).permutation(100)[:V]
LAYOUTS = {
    "two tails": {"cutoffs": [4, 9]},
    "without projections": {"cutoffs": [4, 9], "projection_factor": None, "use_bias": True},
    "one tail": {"cutoffs": [5], "projection_factor": 2.0},
    "three tails, the last of one word": {"cutoffs": [3, 6, 12], "projection_factor": 2.0},
    "unordered": {"cutoffs": [4, 9], "counts": COUNTS, "use_bias": True},
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def built(layout, units=UNITS, **more):
    return prepared(AdaptiveSoftmax(V, **{**LAYOUTS[layout], **more}), units=units)


def reference(head, hidden):
    """Float64 log-probabilities (N, V) from the head's weights."""
    kernels = [w.numpy() for w in head.kernels]
    biases = [w.numpy() for w in head.biases] or [np.zeros(len(k)) for k in kernels]
    projections = [w.numpy() for w in head.projections] or [None] * (len(kernels) - 1)
    order = head.bands.order.ids
    return adaptive_log_probs(hidden, kernels, biases, [None, *projections], order)


@every_layout
def test_probabilities_equal_the_equation(layout):
    head, (hidden, labels) = built(layout), positions(V, 23)
    expected = reference(head, hidden)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-5, atol=1e-5)
    wanted = chosen(expected, labels)
    np.testing.assert_allclose(head.log_prob(hidden, labels), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(head.training_loss(hidden, labels), -wanted, rtol=1e-5, atol=1e-5)


@every_layout
def test_logits_are_those_of_the_thesis(layout):
    """Eq. 3.4: ln P(w) / P(w_1), where w_1 is the most frequent word."""
    head, (hidden, _) = built(layout), positions(V, 5)
    log_probs = reference(head, hidden)
    first = head.bands.order.ids[0]
    np.testing.assert_allclose(
        head(hidden), log_probs - log_probs[:, first, None], rtol=1e-5, atol=1e-5
    )


def naive_loss(head, hidden, labels, weights):
    """Σ weights · nats by the tape, through the whole distribution."""
    log_probs = head.log_probs(hidden)
    return -tf.reduce_sum(weights * tf.gather(log_probs, labels, batch_dims=1))


LABELS = {
    "in all clusters": np.arange(26) % V,
    "in the shortlist": np.arange(26) % 3,
    "in one tail": 9 + np.arange(26) % 3,
    "of one word": np.full(26, 12),
}


@every_layout
@pytest.mark.parametrize("rows, xla, where", slow_unless(
    [*((26, False, where) for where in LABELS), (7, False, "in all clusters"),
     (26, True, "in all clusters")],
    itertools.product([26, 7], [False, True], LABELS),
))
def test_gradients_equal_the_tape_wherever_labels_are(layout, rows, xla, where, monkeypatch):
    """In one round or many, for labels that leave clusters empty or exceed their capacity."""
    monkeypatch.setattr(adaptive_clusters.Cluster, "chunk_rows", lambda _: rows)
    monkeypatch.setattr(budgets, "BLOCK_WORDS", 3 if rows == 7 else 100)
    head, (hidden, _) = built(layout), positions(V, 26)
    labels = LABELS[where].astype(np.int32)
    weights = np.random.default_rng(4).normal(size=26).astype(np.float32)
    source = tf.Variable(hidden)
    sources = [source, *(w.value for w in head.trainable_weights)]

    @tf.function(jit_compile=xla)
    def ours():
        return with_gradients(head.loss_and_nats, sources, source, labels, weights)

    with tf.GradientTape() as tape:
        wanted = naive_loss(head, tf.convert_to_tensor(source), labels, weights)
    (total, nats), gradients = ours()
    np.testing.assert_allclose(total, wanted, rtol=1e-4, atol=1e-5)
    expected = chosen(reference(head, hidden), labels)
    np.testing.assert_allclose(nats, -expected, rtol=1e-5, atol=1e-5)
    for mine, naive in zip(gradients, tape.gradient(wanted, sources)):
        naive = np.zeros(mine.shape) if naive is None else tf.convert_to_tensor(naive)
        np.testing.assert_allclose(mine, naive, rtol=1e-3, atol=1e-4)


def test_tails_without_labels_get_zero_gradients():
    head, (hidden, _) = built("two tails"), positions(V, 6)
    _, gradients = with_gradients(
        head.loss_and_nats, head.weights, hidden, np.full(6, 5), np.ones(6)
    )
    touched = [np.any(g) for g in gradients]
    assert [w.name for w, t in zip(head.weights, touched) if t] == [
        "kernel_0", "kernel_1", "projection_1"
    ]


def test_counts_or_permutation_give_ids_any_order():
    ids = np.argsort(-COUNTS, kind="stable")
    sorted_head = built("two tails")
    hidden, labels = positions(V, 9)
    for more in ({"counts": COUNTS}, {"permutation": ids}, {"permutation": ids.tolist()}):
        head = built("two tails", **more)
        np.testing.assert_allclose(
            head.log_probs(hidden).numpy()[:, ids], sorted_head.log_probs(hidden), rtol=1e-6
        )
        np.testing.assert_allclose(
            head.log_prob(hidden, ids[labels]), sorted_head.log_prob(hidden, labels), rtol=1e-6
        )
        assert np.array_equal(head.top_k(hidden, 3)[0], ids[sorted_head.top_k(hidden, 3)[0]])


def test_counts_that_contradict_the_order_warn():
    with pytest.warns(UserWarning, match="`counts` do not fall in the order of `permutation`"):
        AdaptiveSoftmax(V, [4, 9], counts=COUNTS, permutation="ids")
    with pytest.warns(UserWarning, match="`counts` do not fall"):
        AdaptiveSoftmax(V, [4, 9], counts=COUNTS, permutation=np.arange(V)[::-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head = AdaptiveSoftmax(V, [4, 9], counts=np.sort(COUNTS)[::-1], permutation="ids")
        AdaptiveSoftmax(V, [4, 9], counts=COUNTS)
    assert head.bands.order.identity and head.get_config()["permutation"] is None


def test_top_k_computes_only_tails_that_can_win(monkeypatch):
    head, (hidden, _) = built("two tails"), positions(V, 40)
    rows, logits = [], adaptive_clusters.Cluster.logits
    monkeypatch.setattr(
        adaptive_clusters.Cluster, "logits", lambda c, h: rows.append(len(h)) or logits(c, h))
    head.top_k(hidden, 2)
    scores = (head.kernels[0].value @ hidden.T).numpy()
    able = scores[4] > np.sort(scores[:4], axis=0)[-2]  # those for which the first tail may win
    assert rows[:2] == [40, able.sum()] and 0 < able.sum() < 40
    assert 0 < rows[2] < 40 and len(rows) == 3  # words of the first tail raise the bar


def test_log_prob_computes_only_clusters_that_hold_the_labels(monkeypatch):
    head, (hidden, _) = built("two tails"), positions(V, 6)
    rows = []
    logits = ops.full_logits
    monkeypatch.setattr(ops, "full_logits", lambda h, *a: rows.append(len(h)) or logits(h, *a))
    head.log_prob(hidden, np.array([0, 5, 1, 6, 7, 2]))
    assert rows == [6, 3, 0]  # positions in the head cluster and in each tail


def test_shares_come_from_counts_or_zipf():
    counts = [50, 20, 10, 10, 5, 5]
    assert frequency_bands(6, [2, 4], counts).shares == (0.2, 0.1)
    assert frequency_bands(6, [2, 4], counts[::-1]).shares == (0.2, 0.1)
    harmonic = sum(1 / r for r in range(1, 7))
    zipf = frequency_bands(6, [2, 4]).shares
    np.testing.assert_allclose(zipf, [(1 / 3 + 1 / 4) / harmonic, (1 / 5 + 1 / 6) / harmonic])


def test_units_of_tails_equal_pytorch():
    assert band_units(512, 3, 4.0) == [512, 128, 32, 8]
    assert band_units(7, 3, 2.5) == [7, 2, 1, 1]
    assert band_units(512, 2, None) == [512, 512, 512]


def test_automatic_cutoffs_are_found_once_and_kept(monkeypatch):
    from tfsoftmax.heads import adaptive

    seen = []
    monkeypatch.setattr(adaptive, "automatic_cutoffs", lambda *a: seen.append(a) or [3, 7])
    head = AdaptiveSoftmax(V, "auto", counts=COUNTS)
    assert head.get_config()["cutoffs"] == "auto"
    early = AdaptiveSoftmax.from_config(head.get_config())
    for each in (head, early):
        each.build((None, UNITS))
    again = AdaptiveSoftmax.from_config(head.get_config())
    again.build((None, UNITS))
    assert len(seen) == 2 and seen[0][2:] == (UNITS, 4.0, None)
    assert again.bands.cutoffs == early.bands.cutoffs == [3, 7]
    np.testing.assert_array_equal(again.bands.permutation, head.bands.permutation)


@pytest.mark.parametrize("cutoffs, options, name, rule", [
    *((cutoffs, {}, "cutoffs", "whole numbers")
      for cutoffs in ([], [0, 4], [4, 4], [9, 4], [4, 13], [4.5, 9])),
    (None, {}, "cutoffs", 'or "auto" together with `counts`'),
    ([4], {"projection_factor": 0.5}, "projection_factor", "be at least 1"),
    ([4], {"label_smoothing": 1.0}, "label_smoothing", "lie in [0, 1)"),
    ([4], {"counts": [1, 2]}, "counts", "one number for each of 13 words"),
    (None, {"counts": np.full(V, np.nan)}, "counts", "Received: nan for word 0"),
    ([4], {"permutation": np.zeros(V, int)}, "permutation", "hold each word id"),
    ([4], {"shares": [0.1, 0.1]}, "shares", "be one number for each of 1 tails"),
])
def test_bad_arguments_are_named(cutoffs, options, name, rule):
    with refuses(name, rule):
        AdaptiveSoftmax(V, **({} if cutoffs is None else {"cutoffs": cutoffs}), **options)


def test_two_level_is_adaptive_of_one_tail():
    head = TwoLevelSoftmax(V, [5], counts=COUNTS)
    head.build((None, UNITS))
    assert [w.shape for w in head.weights] == [(6, UNITS), (8, UNITS)]
    with refuses("cutoffs", "be one rank"):
        TwoLevelSoftmax(V, [4, 9])


def test_vocabularies_give_their_counts():
    vocabulary = Vocabulary(["a", "b", "<unk>", "c", "<eos>"], [1, 9, 3, 4, 8])
    head = head_for(vocabulary, AdaptiveSoftmax, cutoffs=[2, 4])
    np.testing.assert_array_equal(head.bands.permutation, [1, 4, 3, 2, 0])
    np.testing.assert_allclose(head.bands.shares, [7 / 25, 1 / 25])
    own = head_for(vocabulary, AdaptiveSoftmax, cutoffs=[2, 4], counts=[5, 4, 3, 2, 1])
    assert own.bands.order.identity


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_a_tail_of_one_word_trains_in_any_dtype(dtype):
    head = AdaptiveSoftmax(V, [4, V - 1], dtype=dtype)
    hidden = tf.cast(positions(V, 6)[0], dtype)

    @tf.function
    def kernel_gradients(labels, weights):
        _, found = with_gradients(head.loss_and_nats, head.kernels, hidden, labels, weights)
        return [tf.cast(g, "float32") for g in found]

    head.build(hidden.shape)
    labels = tf.range(V - 6, V)
    gradients = [g.numpy() for g in kernel_gradients(labels, tf.ones(6))]
    assert len(gradients[-1]) == 1 and not gradients[-1].any()
    assert gradients[0].any() and all(np.isfinite(g).all() for g in gradients)

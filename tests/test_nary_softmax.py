"""NarySoftmax and ClassSoftmax against float64 loops, against each other and other heads."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, assert_all_close, counts, positions, three_levels, with_gradients
from cases import prepared as built
from references import class_log_probs, nary_log_probs
from refusals import refuses
from tfsoftmax import ClassSoftmax, FullSoftmax, NarySoftmax, TreeSoftmax, Vocabulary
from tfsoftmax.lm.head_options import head_for
from tfsoftmax.partitions import classes, code_files, tree_builders
from tfsoftmax.partitions.tree import Tree

V = 41
GOLF_AND_VIOLIN = [["golf", "basketball", ["football", "soccer"]], ["piano", "violin"]]
WORDS = ["violin", "golf", "soccer", "piano", "football", "basketball"]


def results(head, hidden, labels, weights):
    """Log-probabilities, loss and all gradients as arrays."""
    source = tf.constant(hidden)
    (total, _), gradients = with_gradients(
        head.loss_and_nats, [source, *head.trainable_weights], source, labels, weights
    )
    return head.log_probs(hidden).numpy(), total.numpy(), *(g.numpy() for g in gradients)


assert_equal = functools.partial(assert_all_close, rtol=1e-4, atol=1e-4)


def data():
    return *positions(V, 60), np.random.default_rng(3).uniform(size=60).astype(np.float32)


@pytest.mark.parametrize(
    "tree", [three_levels(V), tree_builders.huffman(counts(V)), Tree([V], range(V))]
)
def test_log_probs_equal_the_equation(tree):
    head, (hidden, labels) = built(NarySoftmax(V, tree)), positions(V, 60)
    expected = nary_log_probs(hidden[:5], *head.get_weights(), tree.codes())
    np.testing.assert_allclose(head.log_probs(hidden[:5]), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        head.log_prob(hidden[:5], labels[:5]), expected[range(5), labels[:5]], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("use_bias", [False, True])
def test_one_level_is_the_full_softmax(use_bias):
    nary = built(NarySoftmax(V, Tree([V], np.arange(V)), use_bias=use_bias))
    full = built(FullSoftmax(V, use_bias=use_bias))
    assert_equal(results(nary, *data()), results(full, *data()))


def test_a_binary_tree_is_the_tree_softmax():
    """With the difference of the two edges' rows as the node's row."""
    tree = tree_builders.huffman(counts(V))
    nary, binary = built(NarySoftmax(V, tree)), built(TreeSoftmax(V, tree))
    binary.set_weights([w[0::2] - w[1::2] for w in nary.get_weights()])
    ours, wanted = results(nary, *data()), results(binary, *data())
    assert_equal(ours[:3], wanted[:3])
    assert_equal([a[0::2] for a in ours[3:]], wanted[3:])
    assert_equal([-a[1::2] for a in ours[3:]], wanted[3:])


def test_depth_two_is_the_class_softmax():
    given = np.random.default_rng(0).integers(0, 6, V)
    nary, by_class = built(NarySoftmax(V, classes.class_tree(given))), built(ClassSoftmax(V, given))
    assert_equal(results(nary, *data()), results(by_class, *data()))


@pytest.mark.parametrize("given", [
    np.random.default_rng(0).integers(0, 6, V),  # ragged
    np.zeros(V, int),  # one class
    np.arange(V)[::-1].copy(),  # each word its own
])
def test_class_log_probs_equal_the_equation(given):
    head, (hidden, labels) = built(ClassSoftmax(V, given)), positions(V, 5)
    kernel, bias = head.get_weights()
    C = head.num_classes
    own = np.empty((V, UNITS)), np.empty(V)
    by_class = np.argsort(given, kind="stable")
    own[0][by_class], own[1][by_class] = kernel[C:], bias[C:]
    expected = class_log_probs(hidden, kernel[:C], bias[:C], *own, given)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        head.log_prob(hidden, labels), expected[range(5), labels], rtol=1e-5, atol=1e-5
    )


def test_a_class_far_below_another_keeps_its_distribution():
    """The exponentials of its scores vanish beside those of the other."""
    classes_of = np.arange(V) % 3
    head, (hidden, _) = built(ClassSoftmax(V, classes_of)), positions(V, 5)
    wanted = head.log_probs(hidden)
    bias = head.bias.numpy()
    bias[head.tree.leaves[1::3]] -= 300.0  # of all words of one class, which changes nothing
    head.bias.assign(bias)
    np.testing.assert_allclose(head.log_probs(hidden), wanted, rtol=1e-4, atol=1e-4)


def test_gradient_has_the_classes_of_the_batch_and_no_others():
    given = np.arange(1000) % 25
    head, (hidden, labels) = built(ClassSoftmax(1000, given)), positions(1000, 9)
    with tf.GradientTape() as tape:  # of sparse gradients
        total, _ = head.loss_and_nats(hidden, labels, np.ones(9, np.float32))
    rows = [25 + 40 * c + i for c in set(given[labels]) for i in range(40)]
    for gradient in tape.gradient(total, [w.value for w in head.weights]):
        assert isinstance(gradient, tf.IndexedSlices)
        assert sorted(gradient.indices.numpy()) == sorted([*range(25), *rows])


def test_gradients_are_the_same_when_a_function_is_differentiated_from_outside():
    head, (hidden, labels) = built(ClassSoftmax(V, counts=counts(V))), positions(V, 9)
    losses = tf.function(lambda: 3.0 * head.training_loss(hidden, labels))
    whole = tf.function(lambda: 3.0 * head.loss_and_nats(hidden, labels, np.ones(9, "float32"))[0])
    wanted = results(head, hidden, labels, np.full(9, 3.0, np.float32))[3:]
    for function in (losses, whole):
        assert_equal(with_gradients(function, [head.kernel, head.bias])[1], wanted)


def in_branch(function):
    return tf.cond(tf.constant(True), function, lambda: 0.0)


def in_loop(function):
    return tf.while_loop(lambda i, _: i < 1, lambda i, x: (i + 1, x + function()), (0, 0.0))[1]


def in_map(function):
    return tf.map_fn(lambda _: function(), tf.zeros(1))[0]


@pytest.mark.parametrize("flow", [in_branch, in_loop, in_map])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_pass_through_control_flow(flow, weighted):
    head, (hidden, labels) = built(ClassSoftmax(V, counts=counts(V))), positions(V, 9)
    ones = np.ones(9, np.float32)

    def loss():
        if weighted:
            return head.loss_and_nats(hidden, labels, ones)[0]
        return tf.reduce_sum(head.training_loss(hidden, labels))

    @tf.function
    def gradients():
        return with_gradients(flow, [head.kernel, head.bias], loss)[1]

    assert_equal(gradients(), results(head, hidden, labels, ones)[3:])


def test_the_corpus_tree_of_the_blog():
    """P(football) = P(0 → 1) P(1 → 3) P(3 → football)."""
    tree = tree_builders.from_nested(GOLF_AND_VIOLIN, {word: i for i, word in enumerate(WORDS)})
    head, (hidden, _) = built(NarySoftmax(6, tree)), positions(6, 1)
    kernel, bias = head.get_weights()
    scores = kernel.astype(np.float64) @ hidden[0] + bias
    # Edges breadth-first: sports, music | golf, basketball, 3 | piano, violin | football, soccer.
    chances = [np.exp(scores[a]) / np.exp(scores[b:c]).sum() for a, b, c in
               [(0, 0, 2), (4, 2, 5), (7, 7, 9)]]
    football = head.log_prob(hidden, np.array([WORDS.index("football")]))
    np.testing.assert_allclose(football, [np.log(np.prod(chances))], rtol=1e-5)


def test_a_vocabulary_gives_counts_and_words_beside_files(tmp_path):
    vocabulary = Vocabulary([*WORDS, "<unk>", "<eos>"], [9, 8, 7, 6, 5, 4, 3, 2])
    head = head_for(vocabulary, ClassSoftmax, num_classes=3)
    assert head.classes.tolist() == classes.by_frequency(vocabulary.counts, 3, 0.5).tolist()
    code_files.write_codes(tmp_path / "classes", ["sport", "music"] * 3, WORDS, range(6))
    head = head_for(vocabulary, ClassSoftmax, classes=str(tmp_path / "classes"))
    assert head.num_classes == 3  # and one for the words that the file lacks
    again = ClassSoftmax.from_config(json.loads(json.dumps(head.get_config())))
    assert again.classes.tolist() == head.classes.tolist() == [1, 0] * 3 + [2, 2]
    for path in (tmp_path / "tree.json", tmp_path / "tree.json.gz"):
        code_files.write_nested(path, [*GOLF_AND_VIOLIN, "<unk>", "<eos>"])
        head = head_for(vocabulary, NarySoftmax, tree=str(path))
        assert head.tree.codes()[WORDS.index("soccer")] == [0, 2, 1]


@pytest.mark.parametrize("name, rule, make, vocab_size, layout", [
    ("classes", "have one number for each word, shape (5,)", ClassSoftmax, 5, np.zeros(4, int)),
    ("classes", "number the classes from 0 on", ClassSoftmax, 3, np.array([0, 2, 2])),
    ("tree", "be a tree of 5 words. Received: one of 4", NarySoftmax, 5,
     tree_builders.balanced(np.arange(4))),
])
def test_mistakes_are_named(name, rule, make, vocab_size, layout):
    with refuses(name, rule):
        make(vocab_size, layout)

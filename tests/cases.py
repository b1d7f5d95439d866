"""The heads that every contract test runs through; a new head needs one line."""

import inspect
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfsoftmax import (
    NCE,
    AdaptiveSoftmax,
    BlackOut,
    CharCnnSoftmax,
    ClassNCE,
    ClassSoftmax,
    ClassUnigram,
    DifferentiatedSoftmax,
    FullSoftmax,
    NarySoftmax,
    NegativeSampling,
    SampledObjective,
    SampledSoftmax,
    SelfNormalisedSoftmax,
    SelfOrganisedSoftmax,
    ShardedSoftmax,
    Shortlist,
    SphericalSoftmax,
    TaylorSoftmax,
    TreeSoftmax,
    TwoLevelSoftmax,
)
from tfsoftmax.layers.character_embedding import CharacterEmbedding
from tfsoftmax.lm.head_options import HEADS
from tfsoftmax.partitions import tree_builders
from tfsoftmax.retrieval.item_tower import ItemTower

UNITS = 7
SMALL_CHARACTERS = {"character_units": 2, "highway_activation": "tanh"}
_STARTS = weakref.WeakKeyDictionary()

CASES = {
    "full": lambda vocab_size: FullSoftmax(vocab_size),
    "full without bias": lambda vocab_size: FullSoftmax(vocab_size, use_bias=False),
    "full capped": lambda vocab_size: FullSoftmax(vocab_size, soft_cap=2.0),
    "full smoothed": lambda vocab_size: FullSoftmax(vocab_size, label_smoothing=0.2, z_loss=0.01),
    "full, drawn tiles": lambda V: FullSoftmax(V, gradient_share=0.5, seed=1),
    # The kink of relu is no place for numeric gradients.
    "char_cnn": lambda V: CharCnnSoftmax(
        V, spelled(V), {"filters": [2, 0, 2], "correction_units": 2, **SMALL_CHARACTERS}
    ),
    "own objective": lambda V: SampledObjective(V, 5, "bpr", "uniform", seed=1),
    "self-normalised": lambda V: SelfNormalisedSoftmax(V, fraction=0.4, seed=1),
    "self-normalised, not squared": lambda V: SelfNormalisedSoftmax(V, squared=False, seed=1),
    "spherical": lambda V: SphericalSoftmax(V),
    "spherical without bias": lambda V: SphericalSoftmax(V, 0.3, use_bias=False),
    "spherical, exact update": lambda V: SphericalSoftmax(V, sgd_learning_rate=0.1),
    "taylor": lambda V: TaylorSoftmax(V),
    "taylor, exact update without bias": lambda V: TaylorSoftmax(
        V, sgd_learning_rate=0.1, use_bias=False
    ),
    "sampled": lambda V: SampledSoftmax(V, 9, counts=counts(V), seed=1),
    "sampled, no hits": lambda V: SampledSoftmax(
        V, 9, counts=counts(V), remove_accidental_hits=True, seed=1
    ),
    "sampled without replacement": lambda V: SampledSoftmax(
        V, min(V, 9), "log_uniform", sampler_options={"unique": True}, seed=1
    ),
    "sampled for each position": lambda V: SampledSoftmax(
        V, 3, "uniform", shared_samples=False, seed=1
    ),
    "sampled TAPAS": lambda V: SampledSoftmax(
        V, min(V, 9), keep=min(V, 4), sampler_options={"unique": True}, use_bias=False, seed=1
    ),
    "sampled TAPAS by corrected scores": lambda V: SampledSoftmax(
        V, min(V, 9), keep=min(V, 4), keep_by="corrected_score", sampler_options={"unique": True},
        seed=1, shard=True
    ),
    "sampled without the label": lambda V: SampledSoftmax(
        V, 9, counts=counts(V), label_in_sum=False, seed=1
    ),
    "sampled, rows by an LSTM of characters": lambda V: SampledSoftmax(
        V, 9, "uniform", seed=1,
        tied_to=CharacterEmbedding(V, None, spelled(V), "lstm", lstm_units=2, **SMALL_CHARACTERS),
    ),
    "sampled, smoothed, rows of a tower": lambda V: SampledSoftmax(
        V, 9, "uniform", label_smoothing=0.2, use_bias=False, seed=1,
        tied_to=ItemTower(
            keras.layers.Dense(UNITS, "tanh"), np.sin(np.arange(1.0, 3 * V + 1)).reshape(V, 3)
        ),
    ),
    "nce": lambda V: NCE(V, 9, counts=counts(V), seed=1),
    "nce with trained Z": lambda V: NCE(V, 5, "uniform", Z=3.0, train_z=True, seed=1),
    "nce with Z of each context": lambda V: NCE(V, 5, "uniform", train_z="context", seed=1),
    "nce for each position": lambda V: NCE(V, 3, counts=counts(V), shared_samples=False, seed=1),
    "negative": lambda V: NegativeSampling(V, 9, counts=counts(V), seed=1),
    "negative as it is": lambda V: NegativeSampling(V, 9, restore_proposal=False, seed=1),
    "blackout": lambda V: BlackOut(
        V, 9, counts=counts(V), sampler_options={"alpha": 0.4}, use_bias=False, seed=1
    ),
    "tree": lambda V: TreeSoftmax(V, counts=counts(V)),
    "tree without bias": lambda V: TreeSoftmax(V, use_bias=False),
    "tree, a level at a time": lambda V: TreeSoftmax(V, "random", mode="sequential"),
    "adaptive": lambda V: AdaptiveSoftmax(V, two_cutoffs(V)),
    "adaptive, the last tail of one word": lambda V: AdaptiveSoftmax(
        V, sorted({*two_cutoffs(V), V - 1}), projection_factor=2.0, counts=counts(V)
    ),
    "adaptive, smoothed": lambda V: AdaptiveSoftmax(V, two_cutoffs(V), label_smoothing=0.3, seed=1),
    "two-level": lambda V: TwoLevelSoftmax(V, two_cutoffs(V)[:1], counts=counts(V), use_bias=True),
    "differentiated": lambda V: DifferentiatedSoftmax(V, two_cutoffs(V), counts=counts(V)),
    "differentiated, projected": lambda V: DifferentiatedSoftmax(
        V, two_cutoffs(V), projected=True, projection_factor=2.0, counts=counts(V)
    ),
    "shortlist": lambda V: Shortlist(V, (V + 1) // 2, counts=counts(V)),
    "shortlist without its node": lambda V: Shortlist(
        V, max(1, 2 * V // 3), counts=counts(V), oos_node=False
    ),
    "class": lambda V: ClassSoftmax(V, counts=counts(V)),
    "class equal without bias": lambda V: ClassSoftmax(V, num_classes=2, use_bias=False),
    "class-unigram": lambda V: ClassUnigram(V, counts(V) + np.arange(V) / V),  # no ties
    "class-nce": lambda V: ClassNCE(V, 4, counts=counts(V), seed=1),
    "class-nce, uniform noise": lambda V: ClassNCE(V, 3, num_classes=2, use_bias=False, seed=1),
    "nary": lambda V: NarySoftmax(V, three_levels(V)),
    # The kink of relu is no place for numeric gradients.
    "self-organised": lambda V: SelfOrganisedSoftmax(V, counts(V), activation="tanh"),
    "self-organised with biases": lambda V: SelfOrganisedSoftmax(
        V, counts(V), activation="softplus", use_bias=True
    ),
    "self-organised, clusters given": lambda V: SelfOrganisedSoftmax(
        V, counts(V), clusters=np.arange(V) % min(V, 5), activation="tanh"
    ),
    "sharded": lambda V: ShardedSoftmax(V),
    "sharded, smoothed": lambda V: ShardedSoftmax(
        V, use_bias=False, label_smoothing=0.2, z_loss=0.01, soft_cap=2.0
    ),
}


def two_cutoffs(vocab_size):
    """Ranks that divide a vocabulary in three, or in two if it has few words."""
    return sorted({max(1, vocab_size // 4), max(1, vocab_size // 2)})


def spelled(vocab_size):
    """Distinct words of one to five letters, a byte or two each: ids in base 7."""
    letters = "abcdeéф"
    return [
        "".join(letters[word // 7**i % 7] for i in range(5) if word >= 7**i or i == 0)
        for word in range(vocab_size)
    ]


def three_levels(vocab_size):
    """A tree of words, classes and classes of classes, the first word by itself."""
    words = list(range(vocab_size))
    groups = [words[i : i + 9] for i in range(1, vocab_size, 9)]
    return tree_builders.from_nested([0, *(groups[i : i + 6] for i in range(0, len(groups), 6))])


ONE_OF_EACH = [case for case in CASES if " " not in case]  # variants are called "case, ..."
TO_COMPILE = [  # of each way to compute scores one, where tracing or compiling takes the time
    "full", "char_cnn", "spherical", "sampled", "nce", "adaptive", "class",
    "self-organised",
]
WITH_A_KERNEL = [case for case in ONE_OF_EACH if case != "char_cnn"]  # whose rows a layer computes


def slow_unless(quick, cases=CASES):
    """`cases` for `parametrize`, of which the slow tier alone takes those that are not `quick`."""
    return [
        case if case in quick
        else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow)
        for case in cases
    ]


def counts(vocab_size):
    """Occurrences of words in no order."""
    return np.random.default_rng(5).integers(1, 100, vocab_size)


def required(name, vocab_size):
    """Options that a head of `HEADS` needs beside its vocabulary, and few samples."""
    cutoffs = two_cutoffs(vocab_size)
    samples = {"num_samples": 5} if _has(name, "num_samples") else {}
    return samples | {
        "adaptive": {"cutoffs": cutoffs}, "two_level": {"cutoffs": cutoffs[:1]},
        "differentiated": {"cutoffs": cutoffs}, "shortlist": {"shortlist": (vocab_size + 1) // 2},
        "nary": {"tree": "huffman"},
    }.get(name, {})


def needed(name, vocab_size):
    """Arguments that make a head of `HEADS`: `required`, and what it learns of the vocabulary."""
    given = {"counts": counts(vocab_size)} if _has(name, "counts") else {}
    words = {"words": spelled(vocab_size)} if name == "char_cnn" else {}
    return required(name, vocab_size) | given | words


def _has(name, option):
    return option in inspect.signature(HEADS[name]).parameters


def rewind(head):
    """Restores the untrained variables of the first call, so that the same samples are drawn."""
    state = [v for v in head.variables if not v.trainable]
    before = _STARTS.setdefault(head, [v.numpy() for v in state])
    for variable, value in zip(state, before, strict=True):
        variable.assign(value)
    return head


def built(case, vocab_size, seed=0):
    """A built head of the case with distinct random weights."""
    return prepared(CASES[case](vocab_size), seed)


def prepared(head, seed=0, units=UNITS):
    """The head, built, with distinct random weights."""
    head.build((None, units))
    randomise(head, seed)
    return rewind(head)


def with_gradients(compute, sources, *arguments):
    """What `compute` returns, and the gradients of it, or of its first value, as dense tensors.

    The sources are tensors, or variables of TensorFlow or Keras.
    """
    sources = [s.value if isinstance(s, keras.Variable) else s for s in sources]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        found = compute(*arguments)
    loss = found[0] if isinstance(found, tuple) else found
    return found, [tf.convert_to_tensor(g) for g in tape.gradient(loss, sources)]


def assert_all_close(ours, wanted, rtol=1e-5, atol=1e-5):
    """`numpy.testing.assert_allclose` for each array of two lists of the same length."""
    for mine, theirs in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)


def assert_all_equal(ours, wanted):
    """`numpy.testing.assert_array_equal` for each array of two lists of the same length."""
    for mine, theirs in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def chosen(log_probs, labels):
    """The entries (N,) of the labels among (N, V)."""
    return np.take_along_axis(np.asarray(log_probs), np.asarray(labels)[:, None], 1)[:, 0]


def randomise(layer, seed=0):
    """Gives every trained weight distinct values of order one."""
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape).astype(weight.dtype))


def positions(vocab_size, count, seed=1):
    """Random hidden states (count, UNITS) and labels that include both ends of the vocabulary."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, vocab_size, size=count).astype(np.int32)
    labels[: min(2, count)] = [0, vocab_size - 1][: min(2, count)]
    return rng.normal(size=(count, UNITS)).astype(np.float32), labels


def language_model(head, layers="functional", time_steps=5, streams=4, masked=False, seed=0):
    """A small Keras model that ends in `head`, in each of the ways Keras builds models."""
    embed = keras.layers.Embedding(head.vocab_size, UNITS, mask_zero=masked)
    recur = keras.layers.SimpleRNN(UNITS, return_sequences=True)
    if layers == "sequential":
        model = keras.Sequential([keras.Input((time_steps,), dtype="int32"), embed, recur, head])
    elif layers == "subclassed":
        model = Subclassed(embed, recur, head)
        model(np.zeros((streams, time_steps), np.int32))
    else:
        words = keras.Input((time_steps,), dtype="int32")
        hidden = recur(embed(words))
        if layers == "nested":
            inner = keras.Input(hidden.shape[1:])
            top = keras.Model(inner, head(inner))
            model = keras.Model(words, top(hidden))
        else:
            model = keras.Model(words, head(hidden))
    randomise(model, seed)
    return model


class Subclassed(keras.Model):
    """The subclassed form of `language_model`."""

    def __init__(self, embed, recur, head):
        super().__init__()
        self.embed, self.recur, self.head = embed, recur, head

    def call(self, words):
        return self.head(self.recur(self.embed(words)))


def ready(cls, *args, **options):
    """A built sampling head with distinct random weights and a seed."""
    return prepared(cls(*args, **{"seed": 3, **options}))

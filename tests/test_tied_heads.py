"""A head that is tied to an embedding scores with the table that the embedding scores with."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, prepared, randomise, slow_unless, with_gradients
from tfsoftmax import AdaptiveEmbedding, SoftmaxLoss, Vocabulary, with_items
from tfsoftmax.heads import NCE, AdaptiveSoftmax, FullSoftmax, SampledSoftmax, TwoLevelSoftmax
from tfsoftmax.lm.head_options import tied_embedding
from tfsoftmax.survey import SphericalSoftmax

V, D, T = 13, 8, 5
WORDS = np.arange(2 * T, dtype=np.int32).reshape(2, T)


def tied(embedding, make=FullSoftmax, **options):
    """A model of words whose head is tied to `embedding`, and the head."""
    words = keras.Input((T,), dtype="int32")
    hidden = keras.layers.Activation("tanh", name="middle")(embedding(words))
    head = make(V, tied_to=embedding, **options)
    model = keras.Model(words, head(hidden))
    randomise(model)
    return model, head


def scores_of(embedding, hidden):
    """hidden Wᵀ with the rows W that the layer returns for all words."""
    rows = np.asarray(embedding(np.arange(V)), np.float64)
    return np.asarray(hidden, np.float64) @ rows.T


def hidden_states(seed=0, count=6):
    return np.random.default_rng(seed).normal(size=(count, D)).astype(np.float32)


def quantise(layer_or_model, mode):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layer_or_model.quantize(mode)
    except NotImplementedError:
        pytest.skip(f"this Keras has no {mode} for the layer")


@pytest.mark.parametrize("mode", slow_unless(["int8"], ["int8", "int4", "float8"]))
@pytest.mark.parametrize("make", [FullSoftmax, SampledSoftmax])
def test_quantised_embedding_is_read_with_its_scale(mode, make, through_a_file):
    model, head = tied(keras.layers.Embedding(V, D), make)
    before = model.predict(WORDS, verbose=0)
    quantise(model, mode)
    hidden, labels = hidden_states(), np.arange(6)
    wanted = scores_of(head.tied_to, hidden) + head.bias.numpy()
    np.testing.assert_allclose(head(hidden), wanted, rtol=1e-5, atol=1e-5)
    nats = np.log(np.exp(wanted).sum(-1)) - wanted[np.arange(6), labels]
    np.testing.assert_allclose(head.log_prob(hidden, labels), -nats, rtol=1e-4, atol=1e-5)
    after = model.predict(WORDS, verbose=0)
    np.testing.assert_allclose(after, before, atol={"int8": 0.1, "int4": 2, "float8": 1e-3}[mode])
    again = through_a_file(model)
    np.testing.assert_allclose(again.predict(WORDS, verbose=0), after, rtol=1e-5, atol=1e-5)


def test_quantising_warns_of_untied_heads_only():
    model, _ = tied(keras.layers.Embedding(V, D))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.quantize("int8")
    assert not [w for w in caught if "Softmax" in str(w.message)]
    words = keras.Input((D,))
    with pytest.warns(UserWarning, match="FullSoftmax does not have a `quantize` method"):
        keras.Model(words, FullSoftmax(V)(words)).quantize("int8")


def test_a_quantised_head_trains_what_comes_before_it():
    embedding = keras.layers.Embedding(V, D)
    words = keras.Input((T,), dtype="int32")
    hidden = keras.layers.Dense(D)(embedding(words))
    model = keras.Model(words, FullSoftmax(V, tied_to=embedding)(hidden))
    randomise(model)
    quantise(embedding, "int8")
    model.compile("adam", SoftmaxLoss())
    history = model.fit(WORDS, WORDS[:, ::-1], epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]


@pytest.mark.parametrize("make", [FullSoftmax, SampledSoftmax])
def test_the_update_of_lora_is_part_of_the_table(make):
    model, head = tied(keras.layers.Embedding(V, D), make)
    head.tied_to.enable_lora(2)
    for weight in head.tied_to.trainable_weights:
        weight.assign(np.random.default_rng(3).normal(size=weight.shape))
    hidden = hidden_states()
    wanted = scores_of(head.tied_to, hidden) + head.bias.numpy()
    np.testing.assert_allclose(head(hidden), wanted, rtol=1e-4, atol=1e-4)
    model.compile("sgd", SoftmaxLoss())
    before = [w.numpy() for w in head.tied_to.weights]
    model.fit(WORDS, WORDS[:, ::-1], verbose=0)
    changed = [np.any(w.numpy() != old) for w, old in zip(head.tied_to.weights, before)]
    names = [w.name for w in head.tied_to.weights]
    assert {name for name, c in zip(names, changed) if c} == {
        "lora_embeddings_a", "lora_embeddings_b"
    }


@pytest.mark.parametrize("what, policy", [
    (None, "mixed_bfloat16"), ("lora", "mixed_bfloat16"), ("lora", "mixed_float16"),
    ("int8", "mixed_bfloat16"),
])
@pytest.mark.parametrize("make", [FullSoftmax, NCE, SphericalSoftmax])
def test_scores_are_the_same_within_the_call_of_a_layer(make, what, policy):
    embedding = keras.layers.Embedding(V, D, dtype=policy)
    head = prepared(make(V, tied_to=embedding, dtype=policy), units=D)
    if what == "lora":
        embedding.enable_lora(2)
        randomise(embedding)
    elif what == "int8":
        quantise(embedding, "int8")
    hidden, labels = hidden_states(), np.arange(6)
    for method in (head.log_prob, head.self_normalised_log_prob):
        layer = keras.layers.Lambda(lambda hidden: method(hidden, labels), dtype=policy)  # noqa: B023
        np.testing.assert_array_equal(layer(hidden), method(hidden, labels))


@pytest.mark.parametrize("what", ["lora", "int8"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_step_computes_no_rows_but_the_samples(what, policy):
    words, samples = 5000, 4
    embedding = keras.layers.Embedding(words, D, dtype=policy)
    options = {"tied_to": embedding, "seed": 1, "dtype": policy}
    head = prepared(SampledSoftmax(words, samples, "uniform", **options), units=D)
    if what == "lora":
        embedding.enable_lora(2, lora_alpha=3.0)
        randomise(embedding)
    else:
        quantise(embedding, "int8")
    hidden, labels = hidden_states(), np.arange(6)
    variables = [v.value for v in head.trainable_variables]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            nats = head.training_loss(hidden, labels)
        return nats, tape.gradient(nats, variables)

    graphs, wide = [step.get_concrete_function().graph], []
    while graphs:
        graph = graphs.pop()
        graphs += [f.graph for f in graph._functions.values() if hasattr(f, "graph")]
        wide += [
            op.name for op in graph.get_operations() for t in op.outputs
            if op.type != "ReadVariableOp" and (t.shape.num_elements() or 0) >= words * D
        ]
    assert not wide
    kernel = tf.cast(head._kernel(), tf.float32).numpy()  # the rows are those of the table
    rows, _ = head._rows_and_biases(labels)
    half = policy != "float32"  # Keras before 3.15 rounds the rows, but not the whole kernel
    np.testing.assert_allclose(rows, kernel[labels], rtol=1e-6, atol=0.02 if half else 0.0)
    assert not any(isinstance(slope, tf.Tensor) and slope.shape[0] == words for slope in step()[1])


@pytest.mark.parametrize("mode", slow_unless([None, "int8"], [None, "int8", "int4"]))
@pytest.mark.parametrize("tie_weights", [True, False])
def test_reversible_embedding_scores_with_its_own_table(mode, tie_weights):
    embedding = keras.layers.ReversibleEmbedding(V, D, tie_weights=tie_weights)
    _, head = tied(embedding, use_bias=False)
    if mode:
        quantise(embedding, mode)
        table = embedding(np.eye(D, dtype=np.float32), reverse=True)
    else:
        table = embedding.reverse_embeddings if not tie_weights else tf.transpose(
            embedding.embeddings
        )
    hidden = hidden_states()
    np.testing.assert_allclose(head(hidden), hidden @ table.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_a_table_of_another_dtype_scores_and_trains(dtype):
    embedding = keras.layers.Embedding(V, D, dtype=dtype)
    model, head = tied(embedding, use_bias=False)
    hidden = hidden_states()
    np.testing.assert_allclose(head(hidden), scores_of(embedding, hidden), rtol=1e-4, atol=1e-4)
    model.compile(keras.optimizers.SGD(0.5), SoftmaxLoss())
    history = model.fit(WORDS, WORDS[:, ::-1], epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0] and embedding.embeddings.dtype == dtype


def test_gradients_reach_the_table_of_an_untied_reversible_embedding():
    embedding = keras.layers.ReversibleEmbedding(V, D, tie_weights=False)
    _, head = tied(embedding, use_bias=False)
    hidden, labels = hidden_states(), np.arange(6)
    weight = embedding.reverse_embeddings.value

    def theirs():
        logits = embedding(hidden, reverse=True)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    _, ours = with_gradients(head.training_loss, [weight], hidden, labels)
    _, wanted = with_gradients(theirs, [weight])
    assert_all_close(ours, wanted, atol=1e-6)


def test_the_cap_of_a_reversible_embedding_is_wanted_of_the_head():
    embedding = keras.layers.ReversibleEmbedding(V, D, logit_soft_cap=3.0)
    _, head = tied(embedding, use_bias=False, soft_cap=3.0)
    hidden = 5 * hidden_states()
    np.testing.assert_allclose(head(hidden), embedding(hidden, reverse=True), rtol=1e-5, atol=1e-5)
    for options in ({}, {"soft_cap": 2.0}, {"make": SampledSoftmax}):
        with pytest.raises(ValueError, match="`soft_cap`.* of `tied_to`, 3.0. Received: "):
            tied(embedding, **options)
    untied = keras.layers.ReversibleEmbedding(V, D, logit_soft_cap=3.0, tie_weights=False)
    _, head = tied(untied, use_bias=False, soft_cap=3.0)
    quantise(untied, "int8")
    with pytest.raises(ValueError, match="`tied_to` must have .* Received: int8 and .*=3.0"):
        head.log_probs(hidden)


def from_json(model):
    return keras.models.model_from_json(model.to_json())


@pytest.mark.parametrize("copied", [keras.models.clone_model, from_json])
@pytest.mark.parametrize("kind", ["functional", "sequential", "nested"])
def test_a_copied_model_is_tied_to_its_own_embedding(copied, kind):
    embedding = keras.layers.Embedding(V, D, name="table")
    words = keras.Input((T,), dtype="int32")
    head = FullSoftmax(V, tied_to=embedding)
    if kind == "sequential":
        model = keras.Sequential([words, embedding, head])
    elif kind == "nested":
        backbone = keras.Model(words, embedding(words), name="backbone")
        again = keras.Input((T,), dtype="int32")
        model = keras.Model(again, head(backbone(again)))
    else:
        model, head = tied(embedding)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        copy = copied(model)
    other = copy.layers[-1]
    of_copy = copy.get_layer("backbone" if kind == "nested" else "table")
    of_copy = of_copy.get_layer("table") if kind == "nested" else of_copy
    assert other.tied_to is of_copy is not embedding
    assert [w.shape for w in copy.weights] == [w.shape for w in model.weights]
    copy.set_weights(model.get_weights())
    np.testing.assert_array_equal(copy(WORDS), model(WORDS))
    copy.compile("sgd", SoftmaxLoss())
    copy.fit(WORDS, WORDS, verbose=0)
    hidden = hidden_states()
    wanted = scores_of(of_copy, hidden) + other.bias.numpy()
    np.testing.assert_allclose(other(hidden), wanted, rtol=1e-4, atol=1e-4)


def test_a_model_in_the_model_stays_tied_to_the_head_in_files_and_in_other_catalogues(
    through_a_file
):
    embedding, words = keras.layers.Embedding(V, D), keras.Input((T,), dtype="int32")
    tower = keras.Sequential([keras.Input((T,), dtype="int32"), embedding, keras.layers.Dense(D)])
    model = keras.Model(words, SampledSoftmax(V, 5, tied_to=embedding)(tower(words)))
    model.compile("sgd", SoftmaxLoss())
    model.fit(WORDS, WORDS, verbose=0)
    for copy in (through_a_file(model), with_items(model, range(V))):
        assert copy.layers[-1].tied_to is copy.layers[-2].layers[0]
        np.testing.assert_array_equal(copy(WORDS), model(WORDS))


def test_a_copied_model_that_is_quantised_has_no_left_over_embedding(through_a_file):
    model, _ = tied(keras.layers.Embedding(V, D))
    copy = keras.models.clone_model(model)
    quantise(copy, "int8")
    again = through_a_file(copy)
    np.testing.assert_array_equal(again(WORDS), copy(WORDS))


def test_a_copied_adaptive_tie_holds():
    embedding = AdaptiveEmbedding(V, D, cutoffs=[4, 9])
    words = keras.Input((T,), dtype="int32")
    head = AdaptiveSoftmax(V, tied_to=embedding)
    copy = keras.models.clone_model(keras.Model(words, head(embedding(words))))
    assert copy.layers[-1].tied_to is copy.layers[1]


@pytest.mark.parametrize("cutoffs", [(4, 9), np.array([4, 9])])
def test_a_tied_head_takes_equal_cutoffs_of_any_kind(cutoffs):
    embedding = AdaptiveEmbedding(V, D, cutoffs=[4, 9])
    assert AdaptiveSoftmax(V, cutoffs, tied_to=embedding).bands is embedding.bands


@pytest.mark.parametrize("options", [{"cutoffs": [5]}, {}])
def test_a_tied_two_level_head_has_one_tail_of_all_units(options):
    words = ["<unk>", "<eos>", *(f"w{i}" for i in range(2, V))]
    vocabulary = Vocabulary(words, 1000 // np.arange(1, V + 1))
    embedding, options = tied_embedding(TwoLevelSoftmax, vocabulary, D, options)
    head = TwoLevelSoftmax(V, **options)
    head.build((None, D))
    assert len(head.bands.cutoffs) == 1 and head.projections == []
    assert [kernel.shape[1] for kernel in head.kernels] == [D]


def test_a_copy_whose_embedding_is_elsewhere_says_so():
    embedding = keras.layers.Embedding(V, D, name="table")
    _, head = tied(embedding)
    again = FullSoftmax.from_config(head.get_config())
    with pytest.warns(UserWarning, match="no layer before it is called 'table'"):
        again(hidden_states())
    top = keras.Input((D,))
    with pytest.warns(UserWarning, match="no layer before it is called 'table'"):
        keras.models.clone_model(keras.Model(top, head(top)))

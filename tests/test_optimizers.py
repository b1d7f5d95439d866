"""Sparse optimisers against Keras on the dense gradient and against loops over rows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from optimizer_helper import (
    LAZY,
    OF_KERAS,
    RULES,
    D,
    V,
    assert_states_equal,
    bag_of_words,
    densified,
    fit,
    gradients,
    make,
    sparse_gradient,
    states,
    trained,
    variables,
)
from tfsoftmax import optimizers
from tfsoftmax.support import budgets, mends

CLIPS = [{}, {"clipnorm": 0.7}, {"clipvalue": 0.3}, {"global_clipnorm": 0.9}]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("columns", [(), (D,), (2, 3)])
def test_sum_duplicates_keeps_the_dense_value_with_each_row_once(columns, dtype):
    ids = [5, 0, 5, 36, 0, 5]
    gradient = sparse_gradient(ids, columns=columns, dtype=dtype)
    wanted = np.zeros((V, *columns))
    np.add.at(wanted, ids, gradient.values)
    got = optimizers.sum_duplicates(gradient)
    assert got.indices.dtype == dtype
    assert got.indices.numpy().tolist() == [5, 0, 36]
    np.testing.assert_allclose(tf.convert_to_tensor(got), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_of_half_precision_grow_in_float32(dtype, jit_compile):
    """A sum of ones in their own precision would stay at 256 and at 2,048."""
    ones = tf.IndexedSlices(tf.ones([4096, 2], dtype), tf.zeros([4096], tf.int32))
    summed = tf.function(lambda: optimizers.sum_duplicates(ones).values, jit_compile=jit_compile)()
    assert summed.dtype == dtype and summed[0].numpy().tolist() == [4096, 4096]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adagrad_is_in_place_if_gpus_have_the_rule_for_the_dtype(dtype):
    weight, optimizer = keras.Variable(np.ones((V, D)), dtype=dtype), optimizers.Adagrad(0.1)
    optimizer.build([weight])
    update = tf.function(lambda gradient: optimizer.apply([gradient], [weight]))
    for gradient in (sparse_gradient([0, 3]), tf.ones((V, D))):
        graph = update.get_concrete_function(gradient).graph
        rules = [op for op in graph.get_operations() if "ApplyAdagradV2" in op.type]
        assert len(rules) == (dtype == "float32")


@pytest.mark.parametrize("clip", CLIPS, ids=str)
@pytest.mark.parametrize("rule", OF_KERAS)
def test_equals_keras_on_the_dense_gradient(rule, clip):
    steps = [gradients(step, every_row=rule in LAZY) for step in range(4)]
    wanted = trained(make(rule, keras.optimizers, **clip), [densified(g) for g in steps])
    assert_states_equal(trained(make(rule, **clip), steps), wanted)
    if clip:  # the clip was felt
        unclipped = trained(make(rule), steps)
        assert not np.allclose(unclipped[0], wanted[0], rtol=1e-3)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_compiled_update_equals_the_eager_one(rule, jit_compile):
    steps = [gradients(step, every_row=False, dtype=tf.int64) for step in range(3)]
    compiled = tf.function(jit_compile=jit_compile)
    got = trained(make(rule, global_clipnorm=0.9), steps, compiled)
    assert_states_equal(got, trained(make(rule, global_clipnorm=0.9), steps))


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"adagrad in place"}))  # it has no chunks
def test_rows_updated_in_several_chunks_are_those_updated_at_once(rule, monkeypatch):
    steps = [gradients(step, every_row=False) for step in range(2)]
    wanted = trained(make(rule), steps)
    monkeypatch.setattr(budgets, "UPDATE_BYTES", 3 * 4 * D)  # three rows
    sizes, (name, _) = [], RULES[rule]
    kind, row_step = getattr(optimizers, name), getattr(optimizers, name).row_step
    monkeypatch.setattr(
        kind, "row_step", lambda self, g, *rest: (sizes.append(len(g)), row_step(self, g, *rest))[1]
    )
    assert_states_equal(trained(make(rule), steps), wanted)
    assert max(sizes) > 3 >= min(sizes)  # numbers of the bias are smaller than rows of the kernel


@pytest.mark.parametrize("rule", RULES)
def test_untouched_rows_of_variable_and_slots_keep_their_bits(rule):
    optimizer, weights = make(rule, global_clipnorm=0.9), variables()
    optimizer.build(weights)
    first, *later = [gradients(step, every_row=step == 0) for step in range(4)]
    optimizer.apply(first, weights)
    before = states(optimizer, weights)
    for grads in later:
        optimizer.apply(grads, weights)
    rows = [(a, b) for a, b in zip(before, states(optimizer, weights)) if a.shape[:1] == (V,)]
    assert len(rows) == 2 * (1 + len(optimizer.slots()))
    for a, b in rows:
        np.testing.assert_array_equal(a[8:], b[8:])
        assert (a[:8] != b[:8]).any()


@pytest.mark.parametrize("rule", RULES)
def test_a_gradient_without_rows_changes_nothing(rule):
    optimizer, weights = make(rule, global_clipnorm=0.9), variables()[:1]
    optimizer.build(weights)
    before = weights[0].numpy()
    optimizer.apply([sparse_gradient([])], weights)
    np.testing.assert_array_equal(weights[0].numpy(), before)


def whole_variable_ops(optimizer):
    """Types of the ops of a training step that put out something of V rows."""
    table = keras.Variable(tf.ones((V, D)))
    optimizer.build([table])

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table.value, ids) ** 2)
        optimizer.apply(tape.gradient(loss, [table.value]), [table])

    return types_with_v_rows(step, tf.TensorSpec((None,), tf.int32))


def types_with_v_rows(function, spec):
    """Types of the ops of a function of one argument that put out something of V rows."""
    graph = function.get_concrete_function(spec).graph
    outputs = [out for op in graph.get_operations() for out in op.outputs]
    return [out.op.type for out in outputs if out.shape.rank and out.shape[0] == V]


@pytest.mark.parametrize("clip", CLIPS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_a_sparse_step_has_no_op_of_the_size_of_the_variable(rule, clip):
    assert whole_variable_ops(make(rule, **clip)) == []


def test_accumulators_by_row_have_a_number_for_each_row_in_float32():
    for kind, wanted in ("float32", "float32"), ("bfloat16", "float32"), ("float64", "float64"):
        weights = [keras.Variable(np.zeros(shape), dtype=kind) for shape in [(V, D), (V,), ()]]
        optimizer = optimizers.Adagrad(0.1, accumulator="row")
        optimizer.build(weights)
        (slots,) = optimizer.slots()
        assert [slot.shape for slot in slots] == [(V,), (V,), ()]
        assert slots[0].dtype == wanted and slots[1].dtype == kind
        optimizer.apply([tf.ones(w.shape, kind) for w in weights], weights)
        assert (slots[0].numpy() == np.float32(1.1)).all() or kind == "float64"


def test_a_dense_gradient_moves_rows_as_a_sparse_one_of_all_rows():
    steps = [gradients(step, every_row=True) for step in range(3)]
    sparse = trained(make("adagrad by row"), steps)
    assert_states_equal(trained(make("adagrad by row"), [densified(g) for g in steps]), sparse)


def dense_update_ops(optimizer):
    """The same of the update by a dense gradient, without the gradient itself."""
    table = keras.Variable(tf.ones((V, D)))
    optimizer.build([table])
    update = tf.function(lambda gradient: optimizer.apply([gradient], [table]))
    found = types_with_v_rows(update, tf.TensorSpec((V, D)))
    return [kind for kind in found if kind != "Placeholder"]


@pytest.mark.parametrize("clip", CLIPS[:2] + CLIPS[3:], ids=str)
@pytest.mark.parametrize("rule", sorted({*OF_KERAS} - {"adagrad", "adamw"}))
def test_a_dense_update_makes_nothing_of_the_size_of_the_variable(rule, clip):
    # Clipping multiplies the gradient, for which TensorFlow takes the gradient's own memory.
    assert dense_update_ops(make(rule, **clip)) == (["Mul"] if clip else [])


@pytest.mark.parametrize("clip", [{"clipnorm": 0.7}, {"global_clipnorm": 0.9}], ids=str)
def test_a_norm_that_is_not_finite_leaves_no_finite_weight(clip):
    for value in (np.inf, np.nan):
        optimizer, weights = make("sgd", **clip), variables()[:1]
        gradient = tf.tensor_scatter_nd_update(tf.ones((V, D)), [[3, 1]], [value])
        optimizer.apply([gradient], weights)
        lost = np.isnan(weights[0].numpy())
        # As in Keras, a norm of its own that is infinite makes zeros of the finite gradients.
        assert lost.all() if np.isnan(value) or "global_clipnorm" in clip else lost.sum() == 1


@pytest.mark.parametrize("rule", ["adagrad", "adam", "momentum"])
def test_the_search_for_whole_variable_ops_finds_those_of_keras(rule):
    assert "ReadVariableOp" in whole_variable_ops(make(rule, keras.optimizers))


@pytest.mark.parametrize("rule", RULES)
def test_fit_learns_and_leaves_rows_of_earlier_batches_alone(rule):
    model = bag_of_words()
    model.compile(make(rule, learning_rate=0.05, global_clipnorm=5.0), loss="mse")
    losses = fit(model, 0, 15).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    before = model.layers[0].get_weights()[0]
    fit(model, 15, 30)
    after = model.layers[0].get_weights()[0]
    np.testing.assert_array_equal(after[:15], before[:15])
    assert (after[15:30] != before[15:30]).any()


def test_loss_scaling_is_undone_and_a_step_that_is_not_finite_skipped():
    plain = variables()
    optimizers.Adagrad(0.1).apply(gradients(0, every_row=False), plain)
    scaled = variables()
    wrapped = keras.optimizers.LossScaleOptimizer(optimizers.Adagrad(0.1), initial_scale=8.0)
    bad = gradients(1, every_row=False)
    bad[0] = keras.ops.multiply(bad[0], np.inf)
    wrapped.apply(bad, scaled)  # halves the scale to 4
    wrapped.apply([keras.ops.multiply(g, 4.0) for g in gradients(0, every_row=False)], scaled)
    assert_states_equal([v.numpy() for v in scaled], [v.numpy() for v in plain])


def test_mended_loss_scaling_notices_an_overflow_in_any_gradient_of_a_row(monkeypatch):
    kind, gradient = keras.optimizers.LossScaleOptimizer, sparse_gradient([3, 5, 3])
    scales = tf.constant([[np.inf], [1.0], [1.0]])
    gradient = tf.IndexedSlices(gradient.values * scales, gradient.indices, gradient.dense_shape)
    of_keras = getattr(kind.check_finite, "__wrapped__", kind.check_finite)
    assert of_keras(None, [gradient])  # if it is noticed, what `mend_keras` does about it can go
    monkeypatch.setattr(kind, "check_finite", mends._finite_in_all_replicas(of_keras))
    weights = variables()[:1]
    before, wrapped = weights[0].numpy(), kind(optimizers.Adagrad(0.1), initial_scale=8.0)
    wrapped.apply([gradient], weights)
    np.testing.assert_array_equal(weights[0].numpy(), before)
    assert wrapped.dynamic_scale.numpy() == 4


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_fit_learns_in_mixed_precision(policy):
    keras.utils.set_random_seed(3)
    table = keras.layers.Embedding(V, D, dtype=policy)
    layers = [table, keras.layers.Flatten(), keras.layers.Dense(1, dtype=policy)]
    model = keras.Sequential([keras.Input((4,), dtype="int32"), *layers])
    optimizer = optimizers.Adagrad(0.1)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer, loss="mse")
    losses = fit(model).history["loss"]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}], ids=str)
def test_adam_moves_weights_in_bfloat16_as_those_in_float32(options):
    """Keras's bias correction, 1 - 0.999**n in bfloat16, is zero for the first steps."""
    moved = {}
    for kind in ("float32", "bfloat16"):
        weights = [keras.Variable(np.zeros((V, D)), dtype=kind) for _ in range(2)]
        optimizer = optimizers.Adam(0.01, **options)
        for step in range(20):
            sparse = sparse_gradient(np.arange(V), seed=step % 3)
            optimizer.apply([sparse, tf.convert_to_tensor(sparse)], weights)
        moved[kind] = [np.asarray(weight.value, np.float32) for weight in weights]
    for ours, wanted in zip(moved["bfloat16"], moved["float32"], strict=True):
        assert np.linalg.norm(ours - wanted) < 0.1 * np.linalg.norm(wanted)

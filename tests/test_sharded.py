"""A softmax whose vocabulary is divided among replicas equals the one on one device."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from cases import assert_all_close
from graph_helper import largest_tensor
from references import full_step
from replicas_helper import strategy_here
from tfsoftmax import FullSoftmax, Perplexity, ShardedSoftmax, SoftmaxLoss, TopK, optimizers
from tfsoftmax.distributions.chunk_gradients import RowLoss
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.metrics import Accuracy
from tfsoftmax.sharding.rows import PenalisedInShards
from tfsoftmax.sharding.shards import Shard, sharded_words
from tfsoftmax.sharding.weights import shards_of
from tfsoftmax.support import budgets

V, D, B, T = 61, 6, 8, 5
RULES = {
    "adagrad": lambda: optimizers.Adagrad(0.2, global_clipnorm=0.05),
    "adagrad by row": lambda: optimizers.Adagrad(0.2, global_clipnorm=0.05, accumulator="row"),
    "momentum": lambda: optimizers.SGD(0.1, momentum=0.9, clipnorm=0.03),
    "adam": lambda: optimizers.Adam(0.01, global_clipnorm=0.01),
    "every option": lambda: optimizers.AdamW(
        0.01, weight_decay=0.1, global_clipnorm=0.1, gradient_accumulation_steps=2, use_ema=True,
        ema_momentum=0.7,
    ),
}


def problem(positions, vocab_size=V, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(positions, D), (vocab_size, D), (vocab_size,)]
    hidden, kernel, bias = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    labels = np.linspace(0, vocab_size - 1, positions).astype(np.int32)  # everywhere
    return hidden, kernel, bias, labels, rng.normal(size=positions).astype(np.float32)


def padded(rows, shard):
    """The rows of a shard, with a padding that would win if it took part."""
    own = rows[shard.first : shard.first + shard.words]
    return np.concatenate([own, np.full((shard.rows - len(own), *own.shape[1:]), 50, own.dtype)])


def operations():
    four = strategy_here()
    everything = RowLoss(soft_cap=2.0, label_smoothing=0.2, z_loss=0.01)
    check_operation(tf.distribute.get_strategy(), V, everything)
    check_operation(four, V, everything)
    check_operation(four, 5, RowLoss())


def check_operation(strategy, vocab_size, loss):
    """Each replica has another number of positions, one of them none."""
    replicas = strategy.num_replicas_in_sync
    counts = [3, 0, 7, 4][:replicas]
    ends = np.cumsum(counts)
    data = problem(sum(counts), vocab_size)
    shards = [Shard(rank, replicas, vocab_size) for rank in range(replicas)]
    assert sum(shard.words for shard in shards) == vocab_size

    def values(of_rank):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(of_rank(context.replica_id_in_sync_group))
        )

    def per_position(array):
        return values(lambda rank: array[ends[rank] - counts[rank] : ends[rank]])

    hidden, kernel, bias, labels, weights = data

    def step(hidden, kernel, bias, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch([hidden, kernel, bias])
            objective = PenalisedInShards(Rows(kernel, bias), Shard.here(vocab_size), loss)
            losses, nats, _ = objective.losses(hidden, labels)
            total = tf.reduce_sum(weights * losses)
        return losses, nats, *tape.gradient(total, [hidden, kernel, bias])

    function = tf.function(lambda *given: strategy.run(step, args=given))
    given = (
        per_position(hidden), values(lambda rank: padded(kernel, shards[rank])),
        values(lambda rank: padded(bias, shards[rank])), per_position(labels),
        per_position(weights),
    )
    results = function(*given)
    results = [strategy.experimental_local_results(result) for result in results]
    for shard, d_kernel, d_bias in zip(shards, *results[3:]):
        assert not np.any(d_kernel[shard.words :]) and not np.any(d_bias[shard.words :])
    for i in (3, 4):
        results[i] = [d[: shard.words] for d, shard in zip(results[i], shards)]
    losses, nats, gradients = full_step(*data, loss.soft_cap, loss.label_smoothing, loss.z_loss)
    results = [np.concatenate(parts) for parts in results]
    assert_all_close(results, [losses, nats, *gradients], atol=2e-6)
    if replicas > 1:
        operations = function.get_concrete_function(*given).graph.get_operations()
        summed = [op.inputs[0].shape for op in operations if op.type == "CollectiveReduceV2"]
        assert len(summed) == replicas  # dh; the gradients of shards are not summed


def test_losses_and_gradients_equal_float64():
    replicas_helper.run(operations, devices=4)


def batches():
    rng = np.random.default_rng(0)
    words, labels = rng.integers(0, V, (2, 3 * B, T)).astype(np.int32)
    labels[0, :2] = [0, V - 1]
    return words, labels, rng.uniform(size=(3 * B, T)).astype(np.float32)


def model_of(head, rule):
    words = keras.Input((T,), dtype="int32")
    seeded = [keras.initializers.RandomNormal(seed=seed) for seed in (1, 2)]
    hidden = keras.layers.Embedding(V, D, embeddings_initializer=seeded[0])(words)
    hidden = keras.layers.Dense(D, activation="tanh", kernel_initializer=seeded[1])(hidden)
    model = keras.Model(words, head(hidden))
    model.compile(RULES[rule](), SoftmaxLoss(), weighted_metrics=[Perplexity()])
    return model


def local_rows(variable):
    """{first row: rows} of the shards that this process holds."""
    if not sharded_words(variable):
        return {0: variable.numpy()}
    return {s.first: part.numpy()[: s.words] for s, part in shards_of(variable)}


def whole(results):
    """The variables from the rows that each worker holds."""
    merged = [{k: v for of_worker in each for k, v in of_worker.items()} for each in zip(*results)]
    return [np.concatenate([rows[first] for first in sorted(rows)]) if rows[0].ndim else rows[0]
            for rows in merged]


def head_of(cls, **options):
    drawn = keras.initializers.RandomNormal(stddev=0.5, seed=3)
    return cls(V, kernel_initializer=drawn, bias_initializer=drawn, **options)


def fitted(model):
    """Losses and exact perplexities."""
    words, labels, weights = batches()
    options = {"batch_size": B, "sample_weight": weights, "verbose": 0}
    history = model.fit(words, labels, epochs=2, shuffle=False, **options).history
    return [*history["loss"], *history["perplexity"], *model.evaluate(words, labels, **options)]


def fitted_in_shards(rules):
    results = []
    strategy = strategy_here()
    for rule in rules:
        with strategy.scope():
            model = model_of(head_of(ShardedSoftmax), rule)
        figures = fitted(model)
        variables = [*model.weights, *model.optimizer.variables]
        results.append((figures, [local_rows(variable) for variable in variables]))
    return results


@pytest.mark.parametrize("workers, devices, rules", [
    (1, 2, ["momentum"]),
    pytest.param(2, 1, ["adagrad"], marks=pytest.mark.slow),  # test_sharded_runs.py has workers
    pytest.param(1, 2, ["every option"], marks=pytest.mark.slow),
    pytest.param(1, 4, ["adagrad by row", "momentum", "adam"], marks=pytest.mark.slow),
])
def test_fit_equals_full_softmax_on_one_device(workers, devices, rules):
    results = replicas_helper.run(fitted_in_shards, workers, devices, rules=rules)
    for rule, *by_worker in zip(rules, *results):
        model = model_of(head_of(FullSoftmax), rule)
        rows = head_of(ShardedSoftmax)
        rows.build((None, D))
        model.layers[-1].set_weights(rows.get_weights())
        wanted = fitted(model)
        for figures, _ in by_worker:
            np.testing.assert_allclose(figures, wanted, rtol=1e-6)
        expected = [*model.weights, *model.optimizer.variables]
        for ours, other in zip(whole([w for _, w in by_worker]), expected, strict=True):
            np.testing.assert_allclose(
                ours, other, rtol=1e-6, atol=1e-6, err_msg=f"{rule} {other.path}"
            )


def every_method(options):
    """Results of a head's methods, called outside of the strategy, and of layers in `predict`."""
    with strategy_here().scope():
        head = head_of(ShardedSoftmax, **options)
        hidden = keras.Input((D,))
        training = keras.Model(hidden, head(hidden))
        serving = keras.Model(hidden, TopK(head, 3)(hidden))
    states, _, _, labels, _ = problem(7)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"for `predict`, end .* 61 words"):
        training.predict(states, verbose=0)
    results = methods_of(head, states, items(head, labels))
    return results, serving.predict(states, verbose=0), [local_rows(w) for w in head.weights]


def items(head, labels):
    """The labels, with an item in the place of those that are none."""
    return np.where(np.isin(labels, head.not_items), 1, labels)


def methods_of(head, hidden, labels):
    results = [getattr(head, name)(hidden, labels) for name in
               ("log_prob", "training_loss", "self_normalised_log_prob")]
    results += [head.log_normaliser(hidden), head.log_probs(hidden), head(hidden)]
    results += [*head.top_k(hidden, 3), *head.top_k(hidden, V)]
    seen = np.random.default_rng(7).integers(-1, V, (len(labels), 40))
    results += [*head.top_k(hidden, 9, exclude=seen)]
    results += [head.log_prob(hidden, labels, mask=np.arange(len(labels)) % 3 == 1)]
    return [result.numpy() for result in results]


@pytest.mark.parametrize("options", [
    {"soft_cap": 2.0, "label_smoothing": 0.2, "z_loss": 0.01}, {"not_items": [0, 40, V - 1]},
])
def test_methods_outside_of_the_strategy_equal_full_softmax(options):
    ((results, top, weights),) = replicas_helper.run(every_method, devices=2, options=options)
    full = head_of(FullSoftmax, **options)
    full.build((None, D))
    full.set_weights(whole([weights]))
    states, _, _, labels, _ = problem(7)
    assert_all_close(results, methods_of(full, states, items(full, labels)), rtol=2e-6, atol=2e-6)
    assert_all_close(top, full.top_k(states, 3), rtol=2e-6, atol=0)


def fitted_with_options():
    """One device and two replicas, with everything that `compile` and `fit` offer."""
    strategy = strategy_here()
    words, labels, weights = batches()
    figures = []
    for scope in (strategy.scope, tf.distribute.get_strategy().scope):
        with scope():
            head = head_of(
                ShardedSoftmax, use_bias=False, label_smoothing=0.1, soft_cap=5.0, z_loss=0.01,
                dtype="mixed_bfloat16",
            )
            model = model_of(head, "adagrad")
            loss = SoftmaxLoss(ignore_class=3, reduction="sum_over_steps")
            model.compile(
                RULES["adagrad"](), loss,
                weighted_metrics=[Perplexity(ignore_class=3),
                                  Accuracy(in_training=True, ignore_class=3)],
            )
        history = model.fit(words, labels, B, epochs=2, sample_weight=weights, verbose=0,
                            shuffle=False).history
        figures.append([*history["perplexity"], *history["accuracy"],
                        *model.evaluate(words, labels, B, sample_weight=weights, verbose=0)])
    with strategy.scope():
        foreign = model_of(head_of(ShardedSoftmax), "adagrad")
        foreign.compile(keras.optimizers.Adam(), SoftmaxLoss())
    with pytest.raises(ValueError, match="`optimizer` must be one of tfsoftmax.optimizers"):
        foreign.fit(words, labels, B, verbose=0)
    with strategy.scope(), pytest.raises(ValueError, match="`kernel_regularizer` must be unset"):
        ShardedSoftmax(V, kernel_regularizer="l2").build((None, D))
    with strategy.scope(), pytest.raises(ValueError, match=r"`vocab_size` must be at least .* 2"):
        ShardedSoftmax(1).build((None, D))
    for initializer in (lambda shape, dtype: tf.ones(shape), "orthogonal"):
        with strategy.scope(), pytest.raises(ValueError, match="`kernel_initializer` must be an"):
            ShardedSoftmax(V, kernel_initializer=initializer).build((None, D))
    return figures


@pytest.mark.slow
def test_fit_with_options_equals_one_device():
    (figures,) = replicas_helper.run(fitted_with_options, devices=2)
    np.testing.assert_allclose(*figures, rtol=2e-3)


def test_no_tensor_of_all_positions_by_all_words():
    count, vocab_size = 5 * budgets.CHUNK_ROWS, 10_007
    shard = Shard(0, 1, vocab_size)

    @tf.function
    def step(hidden, kernel, bias, labels):
        with tf.GradientTape() as tape:
            tape.watch([hidden, kernel, bias])
            losses = PenalisedInShards(Rows(kernel, bias), shard).nats(hidden, labels)
        return tape.gradient(losses, [hidden, kernel, bias])

    shapes = [(count, D), (vocab_size, D), (vocab_size,)]
    shapes = [tf.TensorSpec(shape) for shape in shapes] + [tf.TensorSpec((count,), tf.int32)]
    assert largest_tensor(step.get_concrete_function(*shapes)) <= budgets.CHUNK_ROWS * vocab_size


def demonstrated():
    from experiments.measurements import ten_million

    strategy = strategy_here()
    with strategy.scope():
        model = ten_million.model_in_shards(1_000_001, 4)
    return ten_million.memory_table(strategy, model, 1_000_001, 4)


def test_the_demonstration_says_what_each_device_holds():
    (table,) = replicas_helper.run(demonstrated, devices=2)
    assert [line.split(" | ")[1:4] for line in table.splitlines()[2:]] == [
        ["500,000", "9.5", "9.5"], ["500,001", "9.5", "9.5"]
    ]
    assert table.endswith("| 19.1 | 38.1 |")

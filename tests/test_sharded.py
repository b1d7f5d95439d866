"""A softmax whose vocabulary is divided among replicas equals the one on one device."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import sharded_helper
from tfsoftmax import FullSoftmax, Perplexity, ShardedSoftmax, SoftmaxLoss, optimizers
from tfsoftmax.layers.sharded_weights import shards_of
from tfsoftmax.ops.cross_entropy import PLAIN, Objective
from tfsoftmax.ops.sharded import sharded_cross_entropy
from tfsoftmax.ops.shards import Shard, sharded_words

V, D, B, T = 61, 6, 8, 5
RULES = {
    "adagrad": lambda: optimizers.Adagrad(0.2, global_clipnorm=0.05),
    "momentum": lambda: optimizers.SGD(0.1, momentum=0.9, clipnorm=0.03),
    "adam": lambda: optimizers.Adam(0.01, global_clipnorm=0.01),
    "every option": lambda: optimizers.AdamW(
        0.01, weight_decay=0.1, global_clipnorm=0.1, gradient_accumulation_steps=2, use_ema=True,
        ema_momentum=0.7,
    ),
}


def objective64(hidden, kernel, bias, labels, weights, objective):
    """Losses, exact nats, and the gradients of Σ weights · losses, in float64."""
    hidden, kernel, bias, weights = (np.float64(x) for x in (hidden, kernel, bias, weights))
    logits, slope = hidden @ kernel.T + bias, 1.0
    if objective.soft_cap:
        logits = objective.soft_cap * np.tanh(logits / objective.soft_cap)
        slope = 1 - (logits / objective.soft_cap) ** 2
    log_z = np.log(np.exp(logits).sum(axis=1))
    wanted = np.full(logits.shape, objective.label_smoothing / logits.shape[1])
    wanted[np.arange(len(labels)), labels] += 1 - objective.label_smoothing
    losses = log_z + objective.z_loss * log_z**2 - (wanted * logits).sum(axis=1)
    factors = 1 + 2 * objective.z_loss * log_z
    probabilities = np.exp(logits - log_z[:, None])
    d = weights[:, None] * (factors[:, None] * probabilities - wanted) * slope
    nats = log_z - logits[np.arange(len(labels)), labels]
    return losses, nats, [d @ kernel, d.T @ hidden, d.sum(axis=0)]


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


def check_operations():
    four = sharded_helper.mirrored(4)
    for strategy, vocab_size in ((tf.distribute.get_strategy(), V), (four, V), (four, 5)):
        check_operation(strategy, vocab_size)


def check_operation(strategy, vocab_size):
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
    for objective in (PLAIN, Objective(soft_cap=2.0, label_smoothing=0.2, z_loss=0.01)):
        def step(hidden, kernel, bias, labels, weights, objective=objective):
            rank = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
            with tf.GradientTape() as tape:
                tape.watch([hidden, kernel, bias])
                losses, nats, _ = sharded_cross_entropy(
                    hidden, kernel, bias, labels, shards[rank], objective
                )
                total = tf.reduce_sum(weights * losses)
            return losses, nats, *tape.gradient(total, [hidden, kernel, bias])

        results = tf.function(lambda *given, step=step: strategy.run(step, args=given))(
            per_position(hidden), values(lambda rank: padded(kernel, shards[rank])),
            values(lambda rank: padded(bias, shards[rank])), per_position(labels),
            per_position(weights),
        )
        results = [strategy.experimental_local_results(result) for result in results]
        for shard, d_kernel, d_bias in zip(shards, *results[3:]):
            assert not np.any(d_kernel[shard.words :]) and not np.any(d_bias[shard.words :])
        for i in (3, 4):
            results[i] = [d[: shard.words] for d, shard in zip(results[i], shards)]
        losses, nats, gradients = objective64(*data, objective)
        for parts, expected in zip(results, [losses, nats, *gradients]):
            ours = np.concatenate(parts)
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=2e-6)


def test_losses_and_gradients_equal_float64():
    sharded_helper.check("test_sharded", "check_operations")


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


def whole(variable):
    """The words' rows of all shards."""
    if not sharded_words(variable):
        return variable.numpy()
    return np.concatenate([part.numpy()[: s.words] for s, part in shards_of(variable)])


def head_of(cls, **options):
    drawn = keras.initializers.RandomNormal(stddev=0.5, seed=3)
    return cls(V, kernel_initializer=drawn, bias_initializer=drawn, **options)


def check_fit(replicas, rules):
    strategy = sharded_helper.mirrored(replicas)
    words, labels, weights = batches()
    options = {"batch_size": B, "sample_weight": weights, "verbose": 0}
    for rule in rules:
        with strategy.scope():
            model = model_of(head_of(ShardedSoftmax), rule)
        alone = model_of(head_of(FullSoftmax), rule)
        for ours, other in zip(model.weights, alone.weights, strict=True):
            other.assign(whole(ours))
        results = []
        for each in (model, alone):
            history = each.fit(words, labels, epochs=2, shuffle=False, **options).history
            results.append([*history["loss"], *each.evaluate(words, labels, **options)])
        np.testing.assert_allclose(*results, rtol=1e-6)
        for ours, other in zip(
            [*model.weights, *model.optimizer.variables],
            [*alone.weights, *alone.optimizer.variables], strict=True,
        ):
            np.testing.assert_allclose(
                whole(ours), other, rtol=1e-6, atol=1e-6, err_msg=f"{rule} {other.path}"
            )


@pytest.mark.parametrize("replicas, rules", [(2, ["adagrad", "every option"]), (4, ["momentum"])])
def test_fit_equals_full_softmax_on_one_device(replicas, rules):
    sharded_helper.check("test_sharded", "check_fit", replicas, rules)

"""Heads that say that XLA cannot compile them. test_head_contract.py compiles the others."""

import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, UNITS, language_model
from tfsoftmax import SampledSoftmax, SoftmaxLoss
from tfsoftmax.optimizers import AdamW

V = 13
NOT_COMPILED = {
    "FullSoftmax": CASES["full, drawn tiles"],
    "SampledSoftmax": lambda V: SampledSoftmax(V, 4, "in_batch", [1] * V, keep=2),
    "TreeSoftmax": CASES["tree"],
    "NCE": CASES["nce for each position"],
}
METHODS = {
    "call": lambda head, hidden, labels: head(hidden),
    "log_probs": lambda head, hidden, labels: head.log_probs(hidden),
    "top_k": lambda head, hidden, labels: head.top_k(hidden, 2),
    "log_prob": lambda head, hidden, labels: head.log_prob(hidden, labels),
    "training_loss": lambda head, hidden, labels: head.training_loss(hidden, labels),
    "loss_and_nats": lambda head, hidden, labels: head.loss_and_nats(hidden, labels, tf.ones(3)),
}


@pytest.mark.parametrize("name", NOT_COMPILED)
@pytest.mark.parametrize("method", METHODS)
def test_a_head_names_itself_where_xla_cannot_compile_it(name, method):
    head = NOT_COMPILED[name](V)
    head.build((None, UNITS))
    compiled = tf.function(METHODS[method], jit_compile=True)
    with pytest.raises(NotImplementedError, match=f"{name} .* XLA.*`jit_compile=False`"):
        compiled(head, tf.ones((3, UNITS)), tf.zeros(3, tf.int32))


def test_a_sampled_step_moves_rows_of_labels_and_samples_only():
    head = SampledSoftmax(50, 2, "unigram", counts=[0] + [1] * 49, use_bias=False, seed=1)
    head.build((None, UNITS))
    optimizer = AdamW(0.1, weight_decay=0.5)
    optimizer.build(head.trainable_variables)
    hidden, labels = tf.ones((3, UNITS)), tf.constant([40, 41, 40])

    @tf.function(jit_compile=True)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(head.training_loss(hidden, labels))
        optimizer.apply(tape.gradient(loss, [head.kernel.value]), [head.kernel])

    before = head.kernel.numpy()
    step()
    moved = np.any(head.kernel.numpy() != before, axis=1)
    assert moved[[40, 41]].all() and not moved[0] and moved.sum() <= 2 + 6


@pytest.mark.parametrize("layers", ["functional", "sequential", "nested", "subclassed"])
def test_keras_trains_models_of_these_heads_without_xla(layers):
    model = language_model(CASES["full, drawn tiles"](V), layers)
    with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
        model.compile("sgd", SoftmaxLoss(), jit_compile=True)
    assert not model.jit_compile
    words = np.ones((4, 5), np.int32)
    assert np.isfinite(model.fit(words, words, verbose=0).history["loss"][0])

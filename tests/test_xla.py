"""What XLA compiles: batches without positions; and heads that say that it cannot compile them."""

import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, UNITS, built, language_model
from tfsoftmax.heads import SampledSoftmax
from tfsoftmax.losses import SoftmaxLoss

V = 13
NOT_COMPILED = {
    "TreeSoftmax": CASES["tree"],
    "ClassSoftmax": CASES["class"],
    "NarySoftmax": CASES["nary"],
    "SelfOrganisedSoftmax": CASES["self-organised"],
    "SampledSoftmax": lambda V: SampledSoftmax(
        V, 4, "log_uniform", sampler_options={"implementation": "tf"}
    ),
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


@pytest.mark.parametrize("layers", ["functional", "sequential", "nested", "subclassed"])
def test_keras_trains_models_of_these_heads_without_xla(layers):
    model = language_model(CASES["tree"](V), layers)
    with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
        model.compile("sgd", SoftmaxLoss(), jit_compile=True)
    assert not model.jit_compile
    words = np.ones((4, 5), np.int32)
    assert np.isfinite(model.fit(words, words, verbose=0).history["loss"][0])


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    "case", ["full", "nce for each position", "adaptive", "two-level", "tree", "class"]
)
def test_a_batch_may_have_no_positions(case, jit_compile):
    head = built(case, V)
    if jit_compile and not head.supports_jit:
        pytest.skip("the head says that it cannot be compiled")

    def everything(hidden, labels):
        with tf.GradientTape() as tape:
            total, _ = head.loss_and_nats(hidden, labels, tf.ones(tf.shape(labels)))
        gradients = tape.gradient(total, [w.value for w in head.trainable_weights])
        by_row = [head(hidden), head.log_prob(hidden, labels), *head.top_k(hidden, 2)]
        return total, [tf.convert_to_tensor(g) for g in gradients], by_row

    shapes = [tf.TensorSpec((None, UNITS)), tf.TensorSpec((None,), tf.int32)]
    graph = tf.function(everything, shapes, autograph=False, jit_compile=jit_compile)
    total, gradients, by_row = graph(tf.zeros((0, UNITS)), tf.zeros(0, tf.int32))
    assert total == 0 and not any(np.any(g) for g in gradients)
    assert [len(rows) for rows in by_row] == [0, 0, 0, 0]
    assert by_row[0].shape == (0, V) and by_row[2].shape == (0, 2)

"""AdaptiveSoftmax equals PyTorch's AdaptiveLogSoftmaxWithLoss on the same weights."""

import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, with_gradients
from tfsoftmax.heads.adaptive import AdaptiveSoftmax

torch = pytest.importorskip("torch")

V, D, CUTOFFS = 1013, 24, [50, 307]


@pytest.fixture(scope="module", params=[False, True], ids=["without biases", "with head bias"])
def pair(request):
    """PyTorch's module, and the head that has its weights."""
    torch.manual_seed(0)
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(
        D, V, CUTOFFS, div_value=3.0, head_bias=request.param
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    head = AdaptiveSoftmax(V, CUTOFFS, projection_factor=3.0, use_bias=request.param)
    head.build((None, D))
    head.kernels[0].assign(module.head.weight.detach().numpy())
    if request.param:
        head.biases[0].assign(module.head.bias.detach().numpy())
    for k, (projection, words) in enumerate(module.tail):
        head.projections[k].assign(projection.weight.detach().numpy().T)
        head.kernels[k + 1].assign(words.weight.detach().numpy())
    return module, head


def batch():
    rng = np.random.default_rng(0)
    labels = np.concatenate([rng.integers(0, V, 60), rng.integers(0, 50, 60)])
    return rng.normal(size=(120, D)).astype(np.float32) / 3, labels


def test_losses_and_gradients_equal(pair):
    module, head = pair
    hidden, labels = batch()
    theirs = torch.tensor(hidden, requires_grad=True)
    module.zero_grad()
    output = module(theirs, torch.tensor(labels))
    output.loss.backward()
    source = tf.Variable(hidden)
    (total, nats), gradients = with_gradients(
        head.loss_and_nats, [source, *head.kernels, *head.projections],
        source, labels, np.full(120, 1 / 120),
    )
    np.testing.assert_allclose(nats, -output.output.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total, output.loss.item(), rtol=1e-5)
    expected = [theirs.grad, module.head.weight.grad, *(t[1].weight.grad for t in module.tail),
                *(t[0].weight.grad.T for t in module.tail)]
    assert_all_close(gradients, expected, rtol=1e-3, atol=1e-6)


def test_log_probs_and_predictions_equal(pair):
    module, head = pair
    hidden, _ = batch()
    with torch.no_grad():
        expected = module.log_prob(torch.tensor(hidden)).numpy()
        words = module.predict(torch.tensor(hidden)).numpy()
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(head.top_k(hidden, 1)[0][:, 0], words)

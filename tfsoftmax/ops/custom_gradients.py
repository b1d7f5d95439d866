"""Losses with hand-written gradients: formed together with the loss, or by a second pass.

The gradient of Σ weights · nats can be formed while the logits are at hand only if the weights
are known. A loss that returns nats for any use learns them from the upstream gradient, when the
logits are gone, and computes the logits again.
"""

import tensorflow as tf

from tfsoftmax.ops.graphs import may_be_exported, whole
from tfsoftmax.support import _compat


def custom_gradient(function):
    """`tf.custom_gradient`, but in a graph that may be exported TensorFlow's own gradient.

    OpenVINO's converter takes what passes through `tf.custom_gradient` for further outputs.
    """
    differentiable = _compat.custom_gradient(function)

    def chosen(*tensors):
        return function(*tensors)[0] if may_be_exported() else differentiable(*tensors)

    return chosen


def differentiable(function, *parameters):
    """Calls `function(*parameters)` and differentiates it by the gradient that it returns.

    Args:
        function: returns its results and a function that maps their upstream gradients to the
            gradients of the parameters, in the order in which `tf.nest.flatten` lists them.
        *parameters: tensors or structures of tensors. A None in them has no gradient.

    Returns:
        The results. The gradients are cast to the parameters' dtypes.
    """

    @custom_gradient
    def flat_function(*tensors):
        remaining = iter(tensors)
        packed = tf.nest.map_structure(
            lambda p: None if p is None else next(remaining), parameters
        )
        results, gradient = function(*packed)

        def flat_gradient(*upstream):
            gradients = tf.nest.flatten(gradient(*upstream))
            return [tf.cast(g, t.dtype) for g, t in zip(gradients, tensors, strict=True)]

        return results, flat_gradient

    # Tensors keep the values of variables that are assigned before the gradient is computed.
    given = [whole(p) for p in tf.nest.flatten(parameters) if p is not None]
    tensors = [tf.convert_to_tensor(p) for p in given]
    return flat_function(*tensors)


def _scaled(gradient, factor):
    """`factor * gradient`, without a pass over the gradient where the factor is one."""
    result = tf.cond(tf.equal(factor, 1), lambda: gradient, lambda: factor * gradient)
    result.set_shape(gradient.shape)
    return result


def recomputed_gradient(nats, gradients, *parameters):
    """`nats(*parameters)`, whose gradient is `gradients(upstream, *parameters)`."""

    def function(*parameters):
        return nats(*parameters), lambda upstream: gradients(upstream, *parameters)

    return differentiable(function, *parameters)


def immediate_gradient(function, *parameters):
    """The results of `function(*parameters)`, which also returns the gradients of the first.

    Args:
        function: returns (total, *others), where the total is a scalar and the others have no
            gradient, and the gradients of the total.
        *parameters: as in `differentiable`.

    Returns:
        (total, *others).
    """

    def with_gradient(*parameters):
        results, gradients = function(*parameters)
        return results, lambda upstream, *_: tf.nest.map_structure(
            lambda g: _scaled(g, upstream), gradients
        )

    return differentiable(with_gradient, *parameters)

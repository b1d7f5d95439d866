"""Finds the head of a Keras model."""

import keras

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.support._compat import call_of, layers_before
from tfsoftmax.support.arguments import refusal


def head_and_hidden_model(model: keras.Model) -> tuple[SoftmaxHead, keras.Model]:
    """The head that makes one of a model's outputs, and a model of what the head is called with.

    The second has those inputs that it needs, in a list, and shares all layers.

    Raises:
        ValueError: if no output is that of a head.
    """
    for output in getattr(model, "outputs", None) or []:
        head, inputs = call_of(output)
        if isinstance(head, SoftmaxHead):
            before = layers_before(inputs[0])
            needed = [x for x in model.inputs if call_of(x)[0] in before]
            return head, keras.Model(needed, inputs[0])
    rule = "be functional or sequential, with an output that a head makes"
    raise refusal("model", rule, model)

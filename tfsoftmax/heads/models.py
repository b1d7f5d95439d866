"""Finds the head of a Keras model."""

import keras

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.losses.logits_tag import LogitsTag
from tfsoftmax.support._compat import call_of, layers_before, layers_of
from tfsoftmax.support.arguments import refusal, refusing


def head_and_hidden_model(model: keras.Model) -> tuple[SoftmaxHead, keras.Model]:
    """The head that makes one of a model's outputs, and a model of what the head is called with.

    The second has those inputs that it needs, in a list, and shares all layers. The head may be in
    a model of your own class, `keras.Model(inputs, own(inputs))`; that needs all inputs.

    Raises:
        ValueError: if no output is that of a head.
    """
    outputs = getattr(model, "outputs", None) or []
    for output in outputs:
        head, inputs = call_of(output)
        if isinstance(head, SoftmaxHead):
            before = layers_before(inputs[0])
            needed = [x for x in model.inputs if call_of(x)[0] in before]
            return head, keras.Model(needed, inputs[0])
    rule = "be functional or sequential, with an output that a head makes; a model of your own " \
           "class may be the last layer of one"
    for output in outputs:
        inner = call_of(output)[0]
        within = layers_of(inner) if isinstance(inner, keras.Model) else []
        heads = [x for x in within if isinstance(x, SoftmaxHead)]
        if len(heads) == 1:
            inputs = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
            with refusing(IndexError, "model", rule, {"model": model}):
                return heads[0], keras.Model(model.inputs, _Hidden(model, heads[0])(inputs))
    raise refusal("model", rule, model)


class _Hidden(keras.layers.Layer):
    """What the head behind the first of a model's outputs that it makes is called with."""

    def __init__(self, model, head):
        super().__init__(autocast=False)  # word ids may be floats
        self.model, self.head = model, head

    def call(self, inputs):
        outputs = keras.tree.flatten(self.model(inputs, training=False))
        tags = [tag for tag in map(LogitsTag.at, outputs) if tag and tag.head is self.head]
        return tags[0].hidden  # IndexError if another layer follows the head

"""Whether an index fits a head."""

from tfsoftmax.heads.vectors import softmax_of


def softmax_for(index, head):
    """The `plain_softmax` of a head, or ValueError if an index has other words or units."""
    softmax = softmax_of(head)
    kernel, bias = softmax.kernel, softmax.bias
    if (index.words, index.units) != (kernel.shape[0], kernel.shape[1] + (bias is not None)):
        raise ValueError(
            f"`index` must be one of a head with {kernel.shape[0]} words and {kernel.shape[1]} "
            f"units, {'without a' if bias is None else 'with a'} bias. Received: an index of "
            f"{index.words} vectors of {index.units} numbers"
        )
    return softmax

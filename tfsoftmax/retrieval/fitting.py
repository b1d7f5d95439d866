"""Whether an index fits a head."""

from tfsoftmax.heads.vectors import softmax_of
from tfsoftmax.support.arguments import expect


def softmax_for(index, head):
    """The `plain_softmax` of a head, or ValueError if an index has other words or units."""
    softmax = softmax_of(head)
    (words, units), biased = softmax.kernel.shape, softmax.bias is not None
    expect(
        (index.words, index.units) == (words, units + biased), "index", f"be one of a head with "
        f"{words} words and {units} units, {'with' if biased else 'without'} a bias",
        received=f"an index of {index.words} vectors of {index.units} numbers",
    )
    return softmax

"""Class-based softmax: first the class of the word, then the word within its class."""

from collections.abc import Sequence
from typing import Unpack

import keras

from tfsoftmax.heads.nary import NarySoftmax
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.partitions import classes as partitions
from tfsoftmax.support.arguments import ArrayLike


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ClassSoftmax(NarySoftmax):
    """P(w | h) = P(class of w | h) · P(w | h, class of w), two softmaxes, exact.

    Training and `log_prob` compute all classes, and only the words of those classes that the
    labels belong to. Classes may be of any size, without padding.

    Args:
        vocab_size: V, the number of words.
        classes: "sqrt_frequency", "frequency", "fastest" (the least expected number of scores),
            "equal", the path of a file of lines `class<TAB>word` (such as Brown `paths`), or int
            (V,), the class of each word. None: "sqrt_frequency" if there are counts, else "equal".
        num_classes: C. None: ⌈√V⌉, or the number of classes of the file or of "fastest". If a file
            has more, words whose codes begin alike are joined.
        counts: (V,) occurrences of the words, for the frequencies.
        words: the V words in the order of their ids, for files.
        binning: where the classes of "frequency" and "sqrt_frequency" end. "cumulative", as in
            the RNNLM toolkit: where the share of all words so far passes a multiple of 1 / C.
            "separate", as in the thesis: where the class's own share exceeds 1 / C.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`. The kernel
            (C + V, D) has the classes first.

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.ClassSoftmax(1000, counts=counts, num_classes=32)
        nats = head.training_loss(hidden, labels)

    Source: Goodman 2001; Mikolov et al. 2011; Jiang et al. 2017 (cHSM); Müller 2017, section
    2.2.2.1 ("separate" classes).
    """

    saved_options = ("classes",)
    decided_options = ("tree",)

    def __init__(
        self, vocab_size: int, classes: partitions.ClassesOption | None = None,
        num_classes: int | None = None, counts: ArrayLike | None = None,
        words: Sequence[str] | None = None, binning: str = "cumulative",
        **kwargs: Unpack[HeadOptions],
    ):
        if classes is None:
            classes = "equal" if counts is None else "sqrt_frequency"
        self.classes = partitions.build(classes, vocab_size, num_classes, counts, words, binning)
        super().__init__(vocab_size, partitions.class_tree(self.classes), **kwargs)

    @property
    def num_classes(self) -> int:
        """C."""
        return int(self.tree.sizes[0])

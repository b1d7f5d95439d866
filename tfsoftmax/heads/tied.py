"""Heads whose kernel may be the input embedding."""

import warnings
from typing import ClassVar, Unpack

import keras

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.layers.computed_rows import ComputedRows
from tfsoftmax.sharding.embedding import ShardedEmbedding
from tfsoftmax.support._compat import layers_before, replace_layer
from tfsoftmax.support.arguments import expect


class TiedHead(SoftmaxHead):
    """A head that takes an embedding layer, `tied_to`, and uses its embeddings as its kernel.

    Args:
        vocab_size: V, the number of words.
        tied_to: an embedding layer of V words and D units, or a `ComputedRows`, or None if the head
            has its own kernel. The tie survives `model.save` and `clone_model`: a head that is made
            from the configuration of another is tied to the embedding of the same name that comes
            before it in the model. If there is none, a warning says so.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`.

    Attributes:
        ties_to: class of the embeddings that the head can be tied to, besides `ComputedRows`.
        may_shard: whether these may be a `ShardedEmbedding`.

    Example:
        embedding = tfsoftmax.Embedding(1000, 64)
        words = keras.Input((20,), dtype="int32")
        logits = tfsoftmax.FullSoftmax(1000, tied_to=embedding)(embedding(words))
        model = keras.Model(words, logits)

    Source: Press and Wolf 2017.
    """

    saved_options = ("tied_to",)
    ties_to: ClassVar[type] = keras.layers.Embedding
    may_shard: ClassVar[bool] = False

    def __init__(
        self, vocab_size: int, tied_to: keras.layers.Layer | None = None,
        **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        may_tie = isinstance(tied_to, (self.ties_to, ComputedRows))
        expect(tied_to is None or may_tie and tied_to.input_dim == self.vocab_size, "tied_to",
               f"be of the class {self.ties_to.__name__}, of {self.vocab_size} words",
               received=f"{tied_to} of {getattr(tied_to, 'input_dim', 'no')} words")
        whole = self.may_shard or not isinstance(tied_to, ShardedEmbedding)
        expect(whole, "tied_to", f"not be in shards for {type(self).__name__}", tied_to)
        for option in ("kernel_regularizer", "kernel_constraint"):
            given = kwargs.get(option)
            expect(tied_to is None or given is None, option, "be unset with `tied_to`, whose own "
                   "options are called embeddings_regularizer and embeddings_constraint", given)
        self.tied_to = tied_to
        self.supports_jit = self.supports_jit and not self._computes_rows
        self._may_be_copy = None  # whether `tied_to` was made from the head's configuration alone

    @property
    def _computes_rows(self):
        return isinstance(self.tied_to, ComputedRows)

    def _build_tied(self, units):
        """Builds the embedding, which must have as many units as the hidden state."""
        if self._computes_rows and self.tied_to.output_dim is None:
            self.tied_to.output_dim = units
        size, rule = self.tied_to.output_dim, f"have as many units as the hidden state, {units}"
        expect(size == units, "tied_to", rule, received=f"an embedding of {size} units")
        if not self.tied_to.built:
            self.tied_to.build()

    def find_tie(self, hidden) -> None:
        """Replaces a copy of the embedding by the layer that `hidden` was computed from."""
        if self._may_be_copy is None:
            return
        (may_be_copy, self._may_be_copy), copy = (self._may_be_copy, None), self.tied_to
        before = layers_before(hidden)
        same = [x for x in before if type(x) is type(copy) and x.name == copy.name]
        if same and copy not in same:
            replace_layer(self, "tied_to", same[0])
        elif not same and may_be_copy and not self._computes_rows:  # which may be the head's alone
            warnings.warn(
                f"{self.name} was made from a configuration, and no layer before it is called "
                f"{copy.name!r}, so `tied_to` is an embedding of its own. Pass `clone_function` "
                "to `clone_model` if the two should be one.", stacklevel=3,
            )

    @classmethod
    def from_config(cls, config):
        tied_to = config["tied_to"]
        head = super().from_config(config)
        if tied_to is not None:
            # Keras gives layers that are shared in a saved model an id, but not in a nested model.
            head._may_be_copy = "shared_object_id" not in tied_to
        return head

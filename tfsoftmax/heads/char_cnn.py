"""Softmax whose kernel is computed from the characters of the words."""

from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.full import FullSoftmax
from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.options import ItemOptions
from tfsoftmax.layers.character_embedding import CharacterEmbedding
from tfsoftmax.support.arguments import check_positive, expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class CharCnnSoftmax(FullSoftmax):
    """P(w | h) = exp(z_w) / Σ_v exp(z_v) with z_w = hᵀ (CNN(chars(w)) + corr(w)) + b_w.

    A `FullSoftmax` that is tied to a `CharacterEmbedding`, its own or the model's. Other heads can
    be tied to one, too: `SampledSoftmax(V, tied_to=CharacterEmbedding(V, None, words))` computes
    only the rows of labels and samples, whereas this head computes all V in each step.

    Args:
        vocab_size: V, the number of words.
        words: V str, the words in the order of their ids, for an embedding of the head's own.
        characters: other arguments of that `CharacterEmbedding` (encoder, filters,
            correction_units, ...).
        tied_to: a `CharacterEmbedding` of V words and D units, in place of `words`.
        label_smoothing, z_loss, soft_cap, gradient_share, seed: as in `FullSoftmax`.
        shard: must be False, because computed rows cannot be divided among replicas.
        **kwargs: options of the weights and of the layer, `heads.options.ItemOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        words = [f"word{i}" for i in range(1000)]
        head = tfsoftmax.CharCnnSoftmax(1000, words, {"correction_units": 8})
        nats, log_prob = head.training_loss(hidden, labels), head.log_prob(hidden, labels)

    Source: Müller 2017, section 2.2.4.1 and equation 2.48 (Jozefowicz et al. 2016). Departure: a
    bias for each word, unless `use_bias` is False.
    """

    ties_to = CharacterEmbedding

    def __init__(
        self, vocab_size: int, words: Sequence[str] | None = None, characters: dict | None = None,
        tied_to: CharacterEmbedding | None = None, *, label_smoothing: float = 0.0,
        z_loss: float = 0.0, soft_cap: float | None = None, gradient_share: float | None = None,
        seed: int | None = None, shard: bool = False, **kwargs: Unpack[ItemOptions],
    ):
        check_positive(vocab_size=vocab_size)
        own = tied_to is None
        expect(own or words is None and characters is None, "`words` and `characters`",
               "be None with `tied_to`, which has its own",
               received={"words": words, "characters": characters})
        if own:
            tied_to = CharacterEmbedding(
                vocab_size, None, () if words is None else words, dtype=kwargs.get("dtype"),
                name="characters", **(characters or {}),
            )
        super().__init__(
            vocab_size, label_smoothing, z_loss, soft_cap, gradient_share, seed, shard=shard,
            tied_to=tied_to, **kwargs,
        )
        self.characters = dict(characters or {}) if own else None

    def get_config(self):
        config = super().get_config()
        if self.characters is None:
            return config
        # A copy of the head makes an embedding of its own again, and looks for none before it.
        own = {"words": list(self.tied_to.words), "characters": dict(self.characters)}
        return {**config, **own, "tied_to": None}


def with_words(
    head: LinearHead, words: Sequence[str], name: str | None = None
) -> CharCnnSoftmax:
    """The exact distribution of a head over its V words and U more, which it was not trained on.

    Args:
        head: a built head whose distribution is softmax of h Wᵀ + b, which is tied to a
            `CharacterEmbedding`.
        words: U str, whose ids follow those of the V words.
        name: name of the new head.

    Returns:
        A head of V + U words with copies of the weights. The scores of the V words are those of
        `head`; the new words have no correction, and get the mean bias of the others, most of which
        are rare in text. Rows that are no items stay so, and do not count in the mean.

    Raises:
        ValueError: if the head has another distribution, or is not tied to a
            `CharacterEmbedding`.
    """
    linear, tied_to = isinstance(head, LinearHead), getattr(head, "tied_to", None)
    softmax = head.plain_softmax() if linear else None
    expect(
        softmax is not None and isinstance(tied_to, CharacterEmbedding), "head", "be built, with "
        "P(w | h) = softmax of h Wᵀ + b and all rows on one device, and tied to a "
        "CharacterEmbedding", received=f"{type(head).__name__} with tied_to={tied_to}",
    )
    known = sorted(set(words) & set(tied_to.words))
    new = not isinstance(words, str) and not known and len(set(words)) == len(words)
    rule = "be a list of different words that the head does not have"
    expect(new, "words", rule, known or words)
    wider, bias = tied_to.with_words(words), softmax.bias
    none = list(getattr(head, "not_items", ()))
    result = CharCnnSoftmax(
        wider.input_dim, tied_to=wider, use_bias=bias is not None, soft_cap=softmax.soft_cap,
        not_items=none, dtype=head.dtype_policy, name=name,
    )
    result.build((None, wider.output_dim))
    if bias is not None:
        mean = tf.fill([len(words)], tf.reduce_mean(np.delete(bias, none)))
        result.bias.assign(tf.concat([bias, mean], axis=0))
    return result

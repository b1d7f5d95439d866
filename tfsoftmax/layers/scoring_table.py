"""The weights by which an embedding layer of Keras scores words."""

from collections.abc import Callable

import keras
import tensorflow as tf

from tfsoftmax.layers.computed_rows import ComputedRows
from tfsoftmax.support._compat import AutocastScope
from tfsoftmax.support.arguments import expect

_QUANTIZED = ("int8", "int4")  # other modes leave embeddings as they are


def scoring_table(embedding: keras.layers.Embedding | ComputedRows) -> tf.Tensor:
    """Rows (V, D) whose products with hidden states are the scores of the words.

    Args:
        embedding: a built `keras.layers.Embedding`, or a `ReversibleEmbedding`, which may have
            another table for its scores. It may be quantised or have LoRA. Or a `ComputedRows`.

    Returns:
        (V, D) float. If the layer keeps it as it is, this is the variable's own tensor, of which
        training may gather rows. If not, it is computed: dequantised, transposed, or with the
        update of LoRA added, or row by row.

    Raises:
        ValueError: if a quantised table of scores cannot be read because the logits are capped.
    """
    if isinstance(embedding, ComputedRows):
        return embedding.table()
    quantized = embedding.quantization_mode in _QUANTIZED
    with AutocastScope(None):  # whatever layer's call is running
        if not getattr(embedding, "tie_weights", True):
            return tf.transpose(_reverse_table(embedding, quantized))
        if quantized:
            return embedding.quantized_call(tf.range(embedding.input_dim))
        table = embedding.embeddings
        return table.value if isinstance(table, keras.Variable) else table


def scoring_rows(
    embedding: keras.layers.Embedding | ComputedRows, ids: tf.Tensor,
    read: Callable[[tf.Tensor], tf.Tensor], training: bool = False,
) -> tf.Tensor:
    """The rows of some words in `scoring_table`; if the layer allows, no others are computed.

    Keras unpacks the whole table of int4 weights. One with `tie_weights=False` is transposed whole.

    Args:
        embedding: as in `scoring_table`.
        ids: (n,) int32.
        read: gathers the rows (n, ...) of a variable, as float32.
        training: whether a `ComputedRows` computes them as in training.

    Returns:
        (n, D) float.
    """
    if isinstance(embedding, ComputedRows):
        return embedding.distinct_rows(ids, training)
    if not getattr(embedding, "tie_weights", True):
        return read(scoring_table(embedding))
    with AutocastScope(None):
        if embedding.quantization_mode in _QUANTIZED:
            return embedding.quantized_call(ids)
        if not embedding.lora_enabled:
            return read(scoring_table(embedding))
        mixer = tf.cast(embedding.lora_embeddings_b.value, tf.float32)
        update = tf.matmul(read(embedding.lora_embeddings_a.value), mixer)
        scale = embedding.lora_alpha / embedding.lora_rank
        return tf.cast(read(embedding._embeddings.value) + scale * update, embedding.compute_dtype)


def _reverse_table(embedding, quantized):
    """(D, V), from a `ReversibleEmbedding` with `tie_weights=False`."""
    if not quantized:
        return embedding.reverse_embeddings.value
    expect(
        embedding.logit_soft_cap is None, "tied_to",
        "have tied weights, no `logit_soft_cap` or no quantised weights",
        received=f"{embedding.quantization_mode} and logit_soft_cap={embedding.logit_soft_cap}",
    )
    # The scores of unit vectors are the table. Quantised as inputs, these are exact.
    units = tf.eye(embedding.output_dim, dtype=embedding.compute_dtype)
    return embedding.quantized_call(units, reverse=True)

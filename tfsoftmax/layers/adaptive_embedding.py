"""Input embeddings of fewer units for rarer words."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfsoftmax.layers.initializers import Initializer, add_weight, check_float_policy
from tfsoftmax.ops.inputs import checked_ids, rows_of_valid
from tfsoftmax.ops.logits import interval_of
from tfsoftmax.ops.replicas import gathered_rows
from tfsoftmax.partitions.bands import band_units, frequency_bands
from tfsoftmax.partitions.cutoffs import are_automatic, automatic_cutoffs
from tfsoftmax.support.arguments import ArrayLike, check_positive
from tfsoftmax.support.packing import packed
from tfsoftmax.support.saved_options import SavedOptions


@keras.saving.register_keras_serializable(package="tfsoftmax")
class AdaptiveEmbedding(SavedOptions, keras.layers.Layer):
    """Embeddings of D / factor^k units for the words of cluster k, projected to D units.

    The clusters are those of `AdaptiveSoftmax`, which may be tied to the layer. Only the requested
    rows are read, and their gradients are sparse.

    Args:
        input_dim: V, the number of words.
        output_dim: D, units of every word's embedding.
        cutoffs, projection_factor, counts, permutation, shares: as in `AdaptiveSoftmax`. Without a
            factor all embeddings have D units, and nothing is projected.
        embeddings_initializer: initializer of the embeddings (V_k, D_k).
        projection_initializer: initializer of the projections (D, D_k), whose transposes are
            applied.
        mask_zero: whether word 0 is masked, as in `keras.layers.Embedding`.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        InvalidArgumentError: when run, if a word lies outside [0, V). Under XLA its embedding is
            NaN.

    Example:
        embedding = tfsoftmax.AdaptiveEmbedding(1000, 64, cutoffs=[100, 400])
        words = keras.Input((20,), dtype="int32")
        logits = tfsoftmax.AdaptiveSoftmax(1000, tied_to=embedding)(embedding(words))
        model = keras.Model(words, logits)

    Source: Baevski and Auli 2019, section 3, without their projection of the most frequent words.
    """

    saved_options = (
        "input_dim", "output_dim", "projection_factor", "embeddings_initializer",
        "projection_initializer", "mask_zero",
    )

    def __init__(
        self, input_dim: int, output_dim: int, cutoffs: Sequence[int] | str = "auto",
        projection_factor: float | None = 4.0, counts: ArrayLike | None = None,
        permutation: ArrayLike | str | None = None, shares: Sequence[float] | None = None,
        embeddings_initializer: Initializer = "uniform",
        projection_initializer: Initializer = "glorot_uniform", mask_zero: bool = False, **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)  # words may be floats
        check_float_policy(self)
        check_positive(input_dim=input_dim, output_dim=output_dim)
        if are_automatic(cutoffs, counts, input_dim):
            cutoffs = automatic_cutoffs(counts, permutation, output_dim, projection_factor)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.projection_factor = projection_factor
        self.bands = frequency_bands(input_dim, cutoffs, counts, permutation, shares)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.projection_initializer = keras.initializers.get(projection_initializer)
        self.mask_zero = self.supports_masking = mask_zero

    def build(self, input_shape=None):
        units = band_units(self.output_dim, len(self.bands.cutoffs), self.projection_factor)
        self.tables = [
            add_weight(self, f"embeddings_{k}", shape, self.embeddings_initializer)
            for k, shape in enumerate(zip(self.bands.sizes, units))
        ]
        self.projections = [] if self.projection_factor is None else [
            add_weight(self, f"projection_{k}", shape, self.projection_initializer)
            for k, shape in enumerate(((self.output_dim, size) for size in units[1:]), start=1)
        ]
        self.built = True

    def call(self, words):
        ids, valid = checked_ids(words, self.input_dim, "words")
        ranks = self.bands.order.rank(tf.reshape(ids, [-1]))
        clusters = interval_of(ranks, self.bands.ends)
        positions = [tf.where(clusters == k) for k in range(len(self.bands.ends))]
        starts = [0, *self.bands.cutoffs]
        parts = [
            self._embed(k, tf.gather_nd(ranks, where) - starts[k])
            for k, where in enumerate(positions)
        ]
        joined = tf.scatter_nd(
            tf.concat(positions, 0), tf.concat(parts, 0),
            tf.cast(tf.stack([tf.size(ranks), self.output_dim]), tf.int64),
        )
        shape = tf.concat([tf.shape(ids), [self.output_dim]], 0)
        rows = tf.ensure_shape(tf.reshape(joined, shape), [*ids.shape, self.output_dim])
        return rows_of_valid(rows, valid)

    def compute_mask(self, words, mask=None):
        return keras.ops.not_equal(words, 0) if self.mask_zero else None

    def compute_output_shape(self, words_shape):
        return (*words_shape, self.output_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "cutoffs": self.bands.cutoffs,
            "permutation": packed(self.bands.permutation),
            "shares": list(self.bands.shares),
        }

    def _embed(self, k, rows):
        """Embeddings (n, D) of words of cluster k, given by their rows (n,)."""
        embeddings = tf.cast(gathered_rows(self.tables[k].value, rows), self.compute_dtype)
        if k == 0 or not self.projections:
            return embeddings
        projection = tf.cast(self.projections[k - 1].value, self.compute_dtype)
        return tf.matmul(embeddings, projection, transpose_b=True)

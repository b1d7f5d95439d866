"""Low-rank adaptation of a head's kernel: W + (α / r) A B, of which only A and B are trained."""

import keras
import tensorflow as tf

from tfsoftmax._compat import unlocked
from tfsoftmax.arguments import check_hint, check_positive
from tfsoftmax.layers.initializers import Initializer, add_weight


class LoRA:
    """Mixin for a head with one kernel (V, D): `keras.layers.Dense`'s `enable_lora`.

    A step computes the adapted kernel, V D numbers, and its whole gradient, as a step of `Dense`
    does. Saved files hold the adapted kernel, as `Dense`'s do, so that a head with LoRA and one
    without can load them.

    Args:
        lora_rank: r, or None for a kernel that is trained itself.
        lora_alpha: α; None means r.

    Example:
        head = tfsoftmax.FullSoftmax(1000)
        assert isinstance(head, tfsoftmax.heads.lora.LoRA)
        head.build((None, 64))
        head.enable_lora(rank=4)
        assert [w.shape for w in head.trainable_weights] == [(1000,), (1000, 4), (4, 64)]

    Source: Hu et al. 2022.
    """

    lora_enabled = False

    def __init__(
        self, *args, lora_rank: int | None = None, lora_alpha: float | None = None, **kwargs
    ):
        super().__init__(*args, **kwargs)
        if lora_rank is not None:
            self._require_own_kernel()
        check_positive(lora_rank=lora_rank)
        self.lora_rank, self.lora_alpha = lora_rank, lora_alpha

    def build(self, hidden_shape):
        super().build(hidden_shape)
        if self.lora_rank is not None:
            self.enable_lora(self.lora_rank, self.lora_alpha)

    def enable_lora(
        self, rank: int, lora_alpha: float | None = None,
        a_initializer: Initializer = "he_uniform", b_initializer: Initializer = "zeros",
    ) -> None:
        """Freezes the built head's kernel (V, D) and adds A (V, r) and B (r, D).

        Args:
            rank: r.
            lora_alpha: α; None means r.
            a_initializer, b_initializer: initializers of A and B.

        Raises:
            ValueError: if the head is tied (the embedding has `enable_lora`), is not built, has a
                `kernel_constraint` or LoRA already, or has its rows divided among replicas.
        """
        self._require_own_kernel()
        check_hint("rank", rank, int)
        check_positive(rank=rank)
        if not self.built or self.kernel_constraint or self.lora_enabled:
            raise ValueError(
                "`enable_lora` needs a built head without `kernel_constraint`, once. Received: "
                f"built={self.built}, kernel_constraint={self.kernel_constraint}, "
                f"lora_enabled={self.lora_enabled}"
            )
        options = {"dtype": "float32", "regularizer": self.kernel_regularizer}
        shapes = [(self.vocab_size, rank), (rank, self.kernel.shape[1])]
        initializers = map(keras.initializers.get, (a_initializer, b_initializer))
        with unlocked(self) as tracker:
            tracker.untrack(self.kernel)
            self.kernel.trainable = False  # and stays so where `head.trainable` is set
            tracker.track(self.kernel)
            self.lora_kernel_a, self.lora_kernel_b = (
                add_weight(self, f"lora_kernel_{name}", shape, initializer, **options)
                for name, shape, initializer in zip("ab", shapes, initializers)
            )
        self.lora_enabled, self.lora_rank = True, rank
        self.lora_alpha = rank if lora_alpha is None else lora_alpha

    def save_own_variables(self, store):
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        for index, value in enumerate([self._kernel(), self.bias]):
            if value is not None:
                store[str(index)] = keras.ops.convert_to_numpy(value)

    def load_own_variables(self, store):
        if not self.lora_enabled:
            super().load_own_variables(store)
            return
        for index, variable in enumerate([self.kernel, self.bias]):
            if variable is not None:
                variable.assign(store[str(index)])
        self.lora_kernel_b.assign(tf.zeros(self.lora_kernel_b.shape))

    def get_config(self):
        lora = {"lora_rank": self.lora_rank, "lora_alpha": self.lora_alpha}
        return {**super().get_config(), **lora}

    def _kernel(self):
        kernel = super()._kernel()
        if not self.lora_enabled:
            return kernel
        update = tf.matmul(self.lora_kernel_a.value, self.lora_kernel_b.value)
        return kernel + tf.cast(self.lora_alpha / self.lora_rank * update, kernel.dtype)

    def _kernel_rows(self, ids, read):
        rows = super()._kernel_rows(ids, read)
        if not self.lora_enabled:
            return rows
        update = tf.matmul(read(self.lora_kernel_a.value), self.lora_kernel_b.value)
        dtype = self.kernel.value.dtype
        return tf.cast(rows, dtype) + tf.cast(self.lora_alpha / self.lora_rank * update, dtype)

    def _require_own_kernel(self):
        if self.tied_to is not None:
            raise ValueError(
                "LoRA (`lora_rank`) needs a kernel of the head's own, without `tied_to`; call "
                f"`enable_lora` of the embedding. Received: tied_to={self.tied_to}"
            )
        if getattr(self, "in_shards", False):
            raise ValueError(
                "LoRA (`lora_rank`) needs a kernel that a replica holds whole, without `shard`. "
                f"Received: shard={self.shard}"
            )

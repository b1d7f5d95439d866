"""The kernels and biases of a head, a row and a number for each word."""

from tfsoftmax.layers.initializers import add_weight


class RowWeights:
    """Mixin for a Keras layer that adds kernels and biases by its arguments of these names.

    A layer that does not hold all rows overrides `_add_rows`.

    Example:
        head = tfsoftmax.HEADS["full"](1000)
        assert isinstance(head, tfsoftmax.heads.row_weights.RowWeights)
        head.build((None, 64))  # adds a kernel (1000, 64) and a bias (1000,)
    """

    def _kernel_and_bias(self, rows, units, suffix=""):
        """New weights: a kernel (rows, units), and a bias (rows,) or None without biases."""
        kernel = self._add_kernel(rows, units, f"kernel{suffix}")
        return kernel, self._add_bias(rows, f"bias{suffix}")

    def _add_kernel(self, rows, units, name="kernel"):
        return self._add_rows(
            name, (rows, units), self.kernel_initializer,
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint,
        )

    def _add_bias(self, rows, name="bias"):
        """A new bias (rows,), or None without biases."""
        return None if not self.use_bias else self._add_rows(
            name, (rows,), self.bias_initializer,
            regularizer=self.bias_regularizer, constraint=self.bias_constraint,
        )

    def _add_rows(self, name, shape, initializer, **options):
        """A new weight with a row for each word."""
        return add_weight(self, name, shape, initializer, **options)

    def _parameters(self):
        """The kernel, and the bias or None."""
        return self.kernel.value, None if self.bias is None else self.bias.value

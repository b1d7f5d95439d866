"""The contract of a head: a Keras layer that ends the model and knows its own loss."""

import operator
from collections.abc import Callable

import keras
import tensorflow as tf

from tfsoftmax.distributions.base import Distribution, Objective
from tfsoftmax.heads.inputs import (
    Positions,
    check_exclude_shape,
    check_input,
    checked_exclude,
    flatten,
    restore,
)
from tfsoftmax.heads.vectors import Vectors
from tfsoftmax.layers.initializers import Initializer, add_weight, check_float_policy
from tfsoftmax.losses.logits_tag import LogitsTag
from tfsoftmax.ops.computed_if_used import computed_if_used
from tfsoftmax.ops.saved_arrays import WithoutCopies
from tfsoftmax.support.arguments import ArrayLike, check_positive, expect
from tfsoftmax.support.mends import warn_of_faults
from tfsoftmax.support.saved_options import SavedOptions


class SoftmaxHead(SavedOptions, Positions, Vectors, keras.layers.Layer):
    """Base of all output layers. What is computed depends on the method that is called.

    | method                          | result                                                     |
    |---------------------------------|------------------------------------------------------------|
    | `head(hidden)`                  | logits (..., V), whose softmax is the exact distribution   |
    | `training_loss(hidden, labels)` | (...), nats: the method's own objective                    |
    | `log_prob(hidden, labels)`      | (...), exact log-probabilities, in bounded memory          |
    | `log_probs(hidden)`             | (..., V), exact log-probabilities                          |
    | `top_k(hidden, k)`              | ids and exact log-probabilities (..., k), likeliest first  |

    Ranking metrics leave out the words that `head(hidden, exclude=seen)` names, as `top_k` does;
    logits and losses do not.

    All results are float32 under any dtype policy, even float64, and gradients are no more exact.

    A subclass implements `build`, which adds its weights, and `distribution`, which defines
    P(w | h). It also implements `objective`, unless it trains with the exact cross-entropy.
    It names its own arguments in `saved_options`, which `get_config` returns.

    Args:
        vocab_size: V, the number of words.
        use_bias: whether the scores have biases.
        kernel_initializer, bias_initializer: initializers of the kernels and of the biases.
        kernel_regularizer, bias_regularizer: their regularizers, which read all V rows in each
            step, even if training needs only some of them.
        kernel_constraint, bias_constraint: their constraints, which also read all V rows.
        **kwargs: arguments of `keras.layers.Layer`.

    Attributes:
        trains_exactly: whether training computes the whole distribution, so that the exact
            cross-entropy is available in training too.
        logits_in_loop: whether the logits need a loop over positions. TensorFlow does not prune
            loops, so these are wrapped in `computed_if_used`.
        is_distribution: whether the scores are probabilities. If not, `evaluate` also uses the
            training loss, and `log_prob` and perplexities raise errors.
        self_normalised: whether the minimum of the training loss has the same Z(h) in all contexts,
            so that a label's score alone, `self_normalised_log_prob(hidden, labels)`, approximates
            its log-probability.
        reads_previous_word: whether the last units of the hidden states carry the word that was
            read last, see `ngrams.previous_word`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.HEADS["full"](1000)
        assert isinstance(head, tfsoftmax.SoftmaxHead)
        nats, log_prob = head.training_loss(hidden, labels), head.log_prob(hidden, labels)
    """

    saved_options = (
        "vocab_size", "use_bias", "kernel_initializer", "bias_initializer", "kernel_regularizer",
        "bias_regularizer", "kernel_constraint", "bias_constraint",
    )
    trains_exactly = False
    is_distribution = True
    self_normalised = False
    reads_previous_word = False
    logits_in_loop = False

    def __init__(
        self, vocab_size: int, use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform", bias_initializer: Initializer = "zeros",
        kernel_regularizer: str | Callable | None = None,
        bias_regularizer: str | Callable | None = None,
        kernel_constraint: str | Callable | None = None,
        bias_constraint: str | Callable | None = None, **kwargs,
    ):
        super().__init__(**kwargs)
        warn_of_faults()
        check_float_policy(self)
        check_positive(vocab_size=vocab_size)
        self.vocab_size = operator.index(vocab_size)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.supports_masking = True

    def __call__(self, hidden, *args, **kwargs):
        check_input(hidden)
        self.find_tie(hidden)
        return super().__call__(hidden, *args, **kwargs)

    def find_tie(self, hidden) -> None:
        """Called with the input before a model is built: a tied head looks for its embedding."""

    def build(self, hidden_shape):
        """Subclasses call this first, and then add their weights."""
        units = hidden_shape[-1]
        expect(units is not None, "hidden", "have a known number of units, its last axis",
               received=f"hidden of shape {tuple(hidden_shape)}")
        self.input_spec = keras.layers.InputSpec(min_ndim=1, axes={-1: units})
        self.built = True

    def call(self, hidden, exclude=None, training=None):
        hidden = self._as_hidden(hidden)
        rows, leading = flatten(hidden)
        logits = self._logits_of_call(rows, training)
        logits = restore(tf.cast(logits, tf.float32), leading, self.vocab_size)
        tag = LogitsTag(self, hidden, bool(training))
        tag.exclude = checked_exclude(exclude, hidden, self.vocab_size)
        return tag.tag(logits)

    def rematerialized_call(self, layer_call, *args, **kwargs):
        """`layer_call` as it is: logits that a RematScope recomputes would lose their tag.

        The losses compute the logits in chunks, and again for the gradient where that is needed.
        """
        return layer_call

    def training_loss(
        self, hidden: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None
    ) -> tf.Tensor:
        """The method's own objective: (...) float32, nats, for hidden (..., D) and labels (...).

        Positions where `mask` (...) is False are not computed, unless XLA compiles the step; their
        loss is zero.

        Raises:
            TypeError or ValueError: if a dtype or shape does not fit.
            InvalidArgumentError: if a label lies outside [0, V). Under XLA its loss is NaN.
        """
        return self._trained_by_position(hidden, labels, mask=mask)

    def distribution(self) -> Distribution:
        """P(w | h) of the built head, with the current values of its weights."""
        raise NotImplementedError(f"{type(self).__name__} must write `distribution`.")

    def objective(self) -> Objective:
        """What training minimises; by default the exact cross-entropy."""
        return self.distribution()

    def log_prob(
        self, hidden: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None
    ) -> tf.Tensor:
        """Exact log-probability of each label: (...) float32 for hidden (..., D) and labels (...).

        `mask` and errors are those of `training_loss`.
        """
        return self._by_position(self._log_prob, hidden, labels, mask=mask)

    def log_probs(self, hidden: ArrayLike) -> tf.Tensor:
        """Exact log-probabilities (..., V), float32, for hidden (..., D)."""
        rows, leading = flatten(self._as_hidden(hidden))
        log_probs = self._run(lambda rows: self.distribution().log_probs(rows), rows, wide=True)
        return restore(log_probs, leading, self.vocab_size)

    def top_k(
        self, hidden: ArrayLike, k: int, *, exclude: ArrayLike | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The k likeliest words: ids (..., k) int32 and log-probabilities (..., k) float32.

        `exclude` (..., E), integers padded with -1, or ragged ones, are words that each position
        leaves out. The probabilities are still those among all words. If fewer than k words are
        left, or fewer than k have a log-probability that is not NaN, the last ids are -1 and their
        log-probabilities -inf. ValueError if k lies outside [1, V].
        """
        return self._listed(lambda rows, k, *excluded: self._run(
            lambda rows, *excluded: self.distribution().top_k(rows, k, *excluded), rows, *excluded
        ), hidden, k, exclude)

    def loss_and_nats(
        self, hidden: ArrayLike, labels: ArrayLike, weights: ArrayLike, *more: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Σ weights · training loss, with the gradient from the same pass where the objective can.

        Args:
            hidden: (..., D) float.
            labels: (...) integers.
            weights: (...) float32, the weight of each position in the sum. Positions of weight
                zero are not computed, unless XLA compiles the step, and do not affect the total or
                its gradients, even if their hidden states are not finite. The gradient with respect
                to a weight of zero is zero.
            *more: (..., H), other inputs of the head's training loss at each position.

        Returns:
            total: scalar float32, differentiable with respect to hidden, weights and the head.
            nats: (...) float32, exact cross-entropy without a gradient, NaN at positions of weight
                zero; or None where training does not compute it.
        """
        return self._weighted(
            lambda *rows: self.objective().weighted_nats(*rows), hidden, labels, weights, *more
        )

    def compute_output_shape(self, hidden_shape, exclude_shape=None):
        return (*hidden_shape[:-1], self.vocab_size)

    def compute_output_spec(self, hidden, exclude=None, training=None):
        if exclude is not None:
            check_exclude_shape(exclude, hidden)
        return keras.KerasTensor(self.compute_output_shape(hidden.shape), "float32")

    def save_own_variables(self, store):
        super().save_own_variables(WithoutCopies(store))

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
        """A new weight with a row for each word, of which a head in shards holds its own."""
        return add_weight(self, name, shape, initializer, **options)

    def _parameters(self):
        """The kernel, and the bias or None."""
        return self.kernel.value, None if self.bias is None else self.bias.value

    def _training_loss(self, hidden, labels, *more):
        return self.objective().nats(hidden, labels, *more)

    def _log_prob(self, hidden, labels):
        return -self.distribution().nats(hidden, labels)

    def _logits(self, hidden):
        return self.distribution().logits(hidden)

    def _logits_of_call(self, rows, training):
        # In training nothing uses these logits, unless a user's own metric does.
        if self.logits_in_loop or (training and not self.trains_exactly):
            return computed_if_used(self._logits, rows)
        return self._logits(rows)

"""Spherical softmax: squares of scores instead of exponentials."""

from typing import ClassVar, Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.options import TiedOptions
from tfsoftmax.layers.initializers import own_initializer
from tfsoftmax.ops.computed_if_used import computed_if_used
from tfsoftmax.support._compat import model_in_call
from tfsoftmax.support.arguments import ArrayLike, check_hint, expect
from tfsoftmax.survey.factored_rows import FactoredRows
from tfsoftmax.survey.spherical_distribution import FactoredSpherical, Spherical

Schedule = keras.optimizers.schedules.LearningRateSchedule


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SphericalSoftmax(LinearHead):
    """P(w | h) = (x_w² + ε) / Σ_v (x_v² + ε) with x = h Wᵀ + b, trained by its cross-entropy.

    The normaliser is ε V + ĥᵀ Q ĥ with ĥ = [h, 1] and Q = [W, b]ᵀ [W, b], so a step costs 2 V D²
    multiplications instead of 3 N V D. Words with large scores of either sign are likely.

    With `sgd_learning_rate` the head itself does plain gradient descent on W and b, exactly, in
    time N D² + D³ that does not depend on V, and reads and writes only the labels' rows of a factor
    A (V, D + 1) of [W, b] = A U. The step happens in the backward pass, whenever a gradient of the
    training loss is computed. A factor on the loss, such as `loss_weights`, is a factor on the
    step; do not scale the loss in a loop of your own. Two calls of `training_loss` in one tape are
    two steps, of which the second starts from the weights after the first; for a single step, call
    it once with the positions of both. The optimiser neither scales nor clips the step, does not
    count its gradient in `global_clipnorm`, and does not accumulate it; callbacks that change the
    optimiser's learning rate do not change this one.

    A, U and the second moments Q of [W, b] are weights of the head that belong together. Change
    them only by `assign_kernel`: if only A is assigned, Q belongs to other rows, and the
    probabilities do not sum to one. `.keras` files hold all three, so training continues as if it
    had not stopped. A is renewed, in time 2 V D², when U is ill-conditioned.

    Args:
        vocab_size: V, the number of words.
        epsilon: ε > 0, the least value of x² + ε. The paper has it as a hyperparameter; the
            gradient of a label's score is at most 1 / sqrt(ε).
        sgd_learning_rate: learning rate of the head's own steps, or a schedule of it by their
            number. None: the optimiser trains W and b. Not for `tied_to`, regularizers,
            constraints, XLA, several replicas, mixed_float16, and optimisers that scale the loss
            (`LossScaleOptimizer`, `loss_scale_factor`), because the head cannot tell their factor
            from the weights of positions.
        **kwargs: options of the weights and of the layer, `heads.options.TiedOptions`.

    Example:
        words = keras.Input((20,), dtype="int32")
        hidden = tfsoftmax.LSTM(64, return_sequences=True)(tfsoftmax.Embedding(1000, 64)(words))
        model = keras.Model(words, tfsoftmax.SphericalSoftmax(1000, sgd_learning_rate=1.0)(hidden))
        model.compile("adam", tfsoftmax.SoftmaxLoss(), weighted_metrics=[tfsoftmax.Perplexity()])

    Source: Müller 2017, equation 2.49 (Vincent, de Brébisson and Bouthillier 2015; de Brébisson
    and Vincent 2016). Departure: ε, which the thesis leaves out, and without which a label of
    score zero has no logarithm.
    """

    saved_options = ("epsilon", "sgd_learning_rate")
    trains_exactly = True
    _shift: ClassVar[float] = 0.0  # added to the biases

    def __init__(
        self, vocab_size: int, epsilon: float = 1.0,
        sgd_learning_rate: float | Schedule | dict | None = None,
        **kwargs: Unpack[TiedOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        expect(epsilon > 0, "epsilon", "be positive", epsilon)
        self.epsilon = epsilon
        if isinstance(sgd_learning_rate, dict):
            given = sgd_learning_rate
            sgd_learning_rate = keras.optimizers.schedules.deserialize(given)
            expect(isinstance(sgd_learning_rate, Schedule), "sgd_learning_rate",
                   "be a number, or a schedule or its configuration", given)
        self.sgd_learning_rate = sgd_learning_rate
        if sgd_learning_rate is not None:
            self._check_sgd()
            self.supports_jit = False

    def _check_sgd(self):
        rate = self.sgd_learning_rate
        if not isinstance(rate, Schedule):
            check_hint("sgd_learning_rate", rate, float)
            expect(rate > 0, "sgd_learning_rate", "be positive", rate)
        names = ("tied_to", "kernel_regularizer", "bias_regularizer", "kernel_constraint",
                 "bias_constraint")
        given = [name for name in names if getattr(self, name) is not None]
        expect(not given and self.compute_dtype != "float16", "sgd_learning_rate", "be None for a "
               "head with tied rows, regularizers, constraints or a float16 policy, which scales "
               "the loss", received=f"{given or self.dtype_policy.name}")

    def build(self, hidden_shape):
        if self.sgd_learning_rate is None:
            super().build(hidden_shape)
            return
        alone = tf.distribute.get_strategy().num_replicas_in_sync == 1
        rule = "be None where several replicas train: each would make steps of its own"
        expect(alone, "sgd_learning_rate", rule, self.sgd_learning_rate)
        super(LinearHead, self).build(hidden_shape)
        shape = self.vocab_size, hidden_shape[-1]
        self.factors = FactoredRows(
            self.sgd_learning_rate, self.use_bias, lambda: self._first_rows(shape)
        )
        self.factors.build()

    def _first_rows(self, shape):
        kernel = own_initializer(self.kernel_initializer)(shape, dtype="float32")
        bias = None
        if self.use_bias:
            bias = own_initializer(self.bias_initializer)(shape[:1], dtype="float32")
        return self._rows(kernel, bias)

    def _rows(self, kernel, bias):
        bias = tf.zeros(self.vocab_size) if bias is None else tf.cast(bias, tf.float32)
        return tf.concat([tf.cast(kernel, tf.float32), bias[:, None] + self._shift], axis=1)

    def assign_kernel(self, kernel: ArrayLike, bias: ArrayLike | None = None) -> None:
        """Sets W and b of a built head with `sgd_learning_rate`; others have `kernel` and `bias`.

        Args:
            kernel: (V, D), W.
            bias: (V,), b, or None for zeros.

        Raises:
            ValueError: if `sgd_learning_rate` is None, the head is not built, `kernel` or `bias`
                has another shape, or `bias` is given to a head without biases.
        """
        rule = "be set for `assign_kernel`; without it, assign to `kernel` and `bias`"
        expect(self.sgd_learning_rate is not None, "sgd_learning_rate", rule)
        expect(self.built, "head", "be built before `assign_kernel`", received="built=False")
        kernel = tf.convert_to_tensor(kernel)
        shape = self.vocab_size, self.factors.rows.shape[1] - 1
        given = tuple(kernel.shape)
        expect(given == shape, "kernel", f"have the shape {shape}", received=f"shape {given}")
        if bias is not None:
            given, shape = np.shape(bias), shape[:1]
            expect(given == shape, "bias", f"have the shape {shape}", received=f"shape {given}")
            rule = "be None for a head without biases"
            expect(self.use_bias, "bias", rule, received="a bias")
        self.factors.assign(self._rows(kernel, bias))

    def distribution(self):
        if self.sgd_learning_rate is not None:
            factors = self.factors
            return FactoredSpherical(
                factors.rows.value, factors.mixer.value, factors.moments.value, self.epsilon
            )
        kernel, bias = self._parameters()
        bias = tf.zeros(self.vocab_size) if bias is None else tf.cast(bias, tf.float32)
        return Spherical(kernel, bias + self._shift, self.epsilon)

    def objective(self):
        distribution = self.distribution()
        own = self.sgd_learning_rate is not None
        return self.factors.stepping(distribution) if own else distribution

    def _self_normalised(self, hidden, labels):
        return self.distribution().label_logits(hidden, labels)

    def _logits_of_call(self, rows, training):
        if training and self.sgd_learning_rate is not None:
            self._check_optimizer(getattr(model_in_call(), "optimizer", None))
            return computed_if_used(self._logits, rows)
        return super()._logits_of_call(rows, training)

    def _check_optimizer(self, optimizer):
        scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        expect(not scales and getattr(optimizer, "loss_scale_factor", None) is None, "optimizer",
               "not scale the loss of a head with `sgd_learning_rate`, whose own steps it would "
               "multiply", received=f"{type(optimizer).__name__}, which a global policy of "
               "mixed_float16 or `loss_scale_factor` asks for")

"""Adagrad, Adam, AdamW and SGD, whose rows are updated where a gradient touches them."""

import keras
import tensorflow as tf

from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.optimizers.rows import aligned, rows_and_values
from tfsoftmax.optimizers.sparse_rows import SparseRows
from tfsoftmax.support.arguments import expect

ACCUMULATORS = "element", "row"


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Adagrad(SparseRows, keras.optimizers.Adagrad):
    """`keras.optimizers.Adagrad` for sparse gradients, with its result for the dense gradient.

    `accumulator="row"` keeps one number for each row of a variable, the sum of the mean squares of
    the row's gradients, so that all weights of a row have one learning rate. A slot of (V, D)
    shrinks to (V,), and fewer bytes are read and written. This is a different update rule, not an
    approximation: compare both on your model. Variables of one axis, such as biases, are updated as
    before.

    Args:
        *args, **kwargs: as in `keras.optimizers.Adagrad`; `tfsoftmax.optimizers` says what the
            options mean for sparse gradients.
        accumulator: "element" for a sum of squares of each weight, or "row". The sums of rows are
            float32 at least.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))
        small = tfsoftmax.optimizers.Adagrad(0.2, accumulator="row")

    Source: Duchi, Hazan, Singer 2011, with epsilon under the root, as in Keras. Rows: Gupta,
        Bengio, Weston 2014, section 3; the mean in place of their sum, as in FBGEMM's row-wise
        Adagrad.
    """

    def __init__(self, *args, accumulator: str = "element", **kwargs):
        expect(accumulator in ACCUMULATORS, "accumulator", f"be one of {ACCUMULATORS}", accumulator)
        super().__init__(*args, **kwargs)
        self.accumulator = accumulator

    def slots(self):
        return (self._accumulators,)

    def add_variable_from_reference(self, reference_variable, name=None, initializer="zeros"):
        if name != "accumulator" or self._has_whole_slot(reference_variable):
            return super().add_variable_from_reference(reference_variable, name, initializer)
        dtype = "float64" if reference_variable.dtype == "float64" else "float32"
        name = f"{reference_variable.path.replace('/', '_')}_{name}"
        return self.row_slot(reference_variable, name, dtype, initializer)

    def update_all(self, gradient, variable, learning_rate):
        if not self._has_whole_slot(variable):
            rows = tf.range(tf.shape(gradient)[0])
            self.update_rows(tf.IndexedSlices(gradient, rows), variable, learning_rate)
        elif self._updates_in_place(variable):
            operands = self._operands(gradient, variable, learning_rate)
            tf.raw_ops.ResourceApplyAdagradV2(**operands)
        else:
            super().update_all(gradient, variable, learning_rate)

    def update_rows(self, gradient, variable, learning_rate):
        if not (self._has_whole_slot(variable) and self._updates_in_place(variable)):
            return super().update_rows(gradient, variable, learning_rate)
        rows, values = rows_and_values(gradient)
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            **self._operands(values, variable, learning_rate), indices=rows
        )

    def _operands(self, gradient, variable, learning_rate):
        rate = keras.ops.cast(learning_rate, variable.dtype)
        epsilon = tf.zeros([], variable.dtype)
        return {**self.operands(gradient, variable, "accum"), "lr": rate, "epsilon": epsilon}

    def _has_whole_slot(self, variable):
        """Whether the slot has the variable's shape, as it has for a variable of one axis."""
        return self.accumulator == "element" or len(variable.shape) < 2

    def _updates_in_place(self, variable):
        # Accumulators only grow, so that so small an epsilon changes a step by less than 1e-6.
        # TensorFlow has no such rules for bfloat16 on a GPU.
        small = self.epsilon < 2e-6 * self.initial_accumulator_value
        return small and variable.dtype != tf.bfloat16 and not under_xla()

    def row_step(self, gradient, learning_rate, accumulator):
        if accumulator.shape.rank == gradient.shape.rank:
            accumulator += tf.square(gradient)
            return learning_rate * gradient / tf.sqrt(accumulator + self.epsilon), accumulator
        squares = tf.square(tf.cast(gradient, accumulator.dtype))
        accumulator += tf.reduce_mean(squares, axis=list(range(1, squares.shape.rank)))
        rates = tf.cast(learning_rate, accumulator.dtype) / tf.sqrt(accumulator + self.epsilon)
        return aligned(tf.cast(rates, gradient.dtype), gradient) * gradient, accumulator

    def get_config(self):
        return {**super().get_config(), "accumulator": self.accumulator}


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SGD(SparseRows, keras.optimizers.SGD):
    """`keras.optimizers.SGD` for sparse gradients; lazy if `momentum` is not 0.

    Args:
        *args, **kwargs: as in `keras.optimizers.SGD`; `tfsoftmax.optimizers` says what the
            options mean for sparse gradients.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile(tfsoftmax.optimizers.SGD(0.1, momentum=0.9), tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))

    Source: Keras. Departure: the velocity of an untouched row neither decays nor moves the row.
    """

    def slots(self):
        return (self.momentums,) if self.momentum else ()

    def update_all(self, gradient, variable, learning_rate):
        rate = keras.ops.cast(learning_rate, variable.dtype)
        if self.momentum:
            tf.raw_ops.ResourceApplyKerasMomentum(
                **self.operands(gradient, variable, "accum"), lr=rate,
                momentum=tf.cast(self.momentum, variable.dtype), use_nesterov=self.nesterov,
            )
        else:
            gradient = tf.cast(gradient, variable.dtype)
            tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=rate, delta=gradient
            )

    def row_step(self, gradient, learning_rate, velocity=None):
        step = learning_rate * gradient
        if velocity is None:
            return (step,)
        velocity = self.momentum * velocity - step
        return (step - self.momentum * velocity if self.nesterov else -velocity), velocity


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Adam(SparseRows, keras.optimizers.Adam):
    """`keras.optimizers.Adam` for sparse gradients; lazy.

    Args:
        *args, **kwargs: as in `keras.optimizers.Adam`; `tfsoftmax.optimizers` says what the
            options mean for sparse gradients.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile(tfsoftmax.optimizers.Adam(1e-3), tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))

    Source: Kingma, Ba 2015, with epsilon as in Keras. Departure: the moments of an untouched row
        do not decay and the row stays, and the bias correction counts all steps, not those that
        touched the row. Weights in bfloat16 are updated, whereas Keras rounds the bias correction
        to 0; their moments are rounded to bfloat16 as well. In float16 squares of small gradients
        vanish, as in Keras: use "mixed_float16".
    """

    def slots(self):
        moments = (self._momentums, self._velocities)
        return (*moments, self._velocity_hats) if self.amsgrad else moments

    def update_all(self, gradient, variable, learning_rate):
        if variable.dtype == tf.bfloat16:  # Keras's rule would not move it
            return self.update_rows(gradient, variable, learning_rate)
        # XLA has no rule with amsgrad, and TensorFlow's rules round 1 - beta_2 to the dtype.
        if (self.amsgrad and under_xla()) or variable.dtype.size < 4:
            return super().update_all(gradient, variable, learning_rate)
        rate, beta_1, beta_2, epsilon = (
            keras.ops.cast(x, variable.dtype)
            for x in (learning_rate, self.beta_1, self.beta_2, self.epsilon)
        )
        count = tf.cast(self.iterations + 1, variable.dtype)
        rules = tf.raw_ops.ResourceApplyAdam, tf.raw_ops.ResourceApplyAdamWithAmsgrad
        rules[self.amsgrad](
            **self.operands(gradient, variable, "m", "v", "vhat"), lr=rate, beta1=beta_1,
            beta2=beta_2, epsilon=epsilon, beta1_power=beta_1**count, beta2_power=beta_2**count,
        )

    def row_step(self, gradient, learning_rate, momentum, velocity, *velocity_hat):
        count = tf.cast(self.iterations + 1, tf.float64 if gradient.dtype.size > 4 else tf.float32)
        correction = tf.sqrt(1 - self.beta_2**count) / (1 - self.beta_1**count)
        correction = tf.cast(correction, gradient.dtype)
        momentum += (gradient - momentum) * (1 - self.beta_1)
        velocity += (tf.square(gradient) - velocity) * (1 - self.beta_2)
        velocity_hat = [tf.maximum(hat, velocity) for hat in velocity_hat]
        scale = tf.sqrt(velocity_hat[0] if velocity_hat else velocity) + self.epsilon
        return learning_rate * correction * momentum / scale, momentum, velocity, *velocity_hat


@keras.saving.register_keras_serializable(package="tfsoftmax")
class AdamW(Adam, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` for sparse gradients; lazy.

    A step that touches a row multiplies it by 1 - `learning_rate` * `weight_decay` before the rule
    of `Adam`; a row without a gradient does not decay. To exclude variables, call
    `exclude_from_weight_decay` before the optimiser is built.

    Args:
        *args, **kwargs: as in `keras.optimizers.AdamW`; `tfsoftmax.optimizers` says what the
            options mean for sparse gradients.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile(tfsoftmax.optimizers.AdamW(1e-3, weight_decay=0.01), tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))

    Source: Loshchilov, Hutter 2019, with the decay scaled by the learning rate, as in Keras.
        Departure: that of `Adam`, and an untouched row does not decay.
    """

"""Learning rates that fall along a curve after they have warmed up."""

import keras

from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.support.arguments import expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class WarmedUp(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that begins after some steps in which its first rate is approached linearly.

    In step i, from 0, the rate is min(1, (i + 1) / warmup_steps) after(max(0, i - warmup_steps)).

    Args:
        after: the schedule.
        warmup_steps: the number of steps before it.

    Example:
        after = keras.optimizers.schedules.CosineDecay(0.1, 1000)
        schedule = tfsoftmax.lm.schedules.WarmedUp(after, warmup_steps=100)
        rates = [float(schedule(step)) for step in (0, 99, 1100)]  # 0.001, 0.1, 0
    """

    def __init__(
        self, after: keras.optimizers.schedules.LearningRateSchedule, warmup_steps: int
    ):
        super().__init__()
        self.after, self.warmup_steps = after, warmup_steps

    def __call__(self, step):
        step = keras.ops.cast(step, "float32")
        share = keras.ops.minimum(1.0, (step + 1) / self.warmup_steps)
        return share * self.after(keras.ops.maximum(0.0, step - self.warmup_steps))

    def get_config(self):
        after = keras.saving.serialize_keras_object(self.after)
        return {"after": after, "warmup_steps": self.warmup_steps}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["after"]), config["warmup_steps"])


def learning_rate(
    config: TrainingConfig, steps: int | None = None
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate of a run: a number, which validations may lower, or a schedule.

    Args:
        config: its `schedule`, `learning_rate` and `warmup_steps`.
        steps: the number of steps of the run, after which the rate is zero; None for a number.

    Raises:
        ValueError: the run ends before it has warmed up.
    """
    if config.schedule == "validation" or steps is None:
        return config.learning_rate
    falling = steps - config.warmup_steps
    expect(
        falling >= 1, "warmup_steps", f"be fewer than the steps of the run, {steps}",
        config.warmup_steps
    )
    schedules = keras.optimizers.schedules
    after = (
        schedules.CosineDecay(config.learning_rate, falling) if config.schedule == "cosine"
        else schedules.PolynomialDecay(config.learning_rate, falling, 0.0)
    )
    return WarmedUp(after, config.warmup_steps) if config.warmup_steps else after

"""Models that are compiled with the loss, the optimiser and the learning rates of a run."""

import keras
import tensorflow as tf

from tfsoftmax import optimizers
from tfsoftmax.corpora.pipeline import rows_of_each
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.tasks import LANGUAGE_MODEL, Task
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.metrics import Perplexity
from tfsoftmax.support.arguments import expect

_OPTIMIZERS = {
    "adagrad": optimizers.Adagrad, "sgd": optimizers.SGD, "adam": optimizers.Adam,
    "adamw": optimizers.AdamW,
}


@keras.saving.register_keras_serializable(package="tfsoftmax")
class WarmedUp(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that begins after some steps in which its first rate is approached linearly.

    In step i, from 0, the rate is min(1, (i + 1) / warmup_steps) after(max(0, i - warmup_steps)).

    Args:
        after: the schedule.
        warmup_steps: the number of steps before it.

    Example:
        after = keras.optimizers.schedules.CosineDecay(0.1, 1000)
        schedule = tfsoftmax.lm.compiled.WarmedUp(after, warmup_steps=100)
        rates = [float(schedule(step)) for step in (0, 99, 1100)]  # 0.001, 0.1, 0
    """

    def __init__(self, after: keras.optimizers.schedules.LearningRateSchedule, warmup_steps: int):
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
    expect(falling >= 1, "warmup_steps", f"be fewer than the steps of the run, {steps}",
           config.warmup_steps)
    schedules = keras.optimizers.schedules
    after = (
        schedules.CosineDecay(config.learning_rate, falling) if config.schedule == "cosine"
        else schedules.PolynomialDecay(config.learning_rate, falling, 0.0)
    )
    return WarmedUp(after, config.warmup_steps) if config.warmup_steps else after


def compiled_model(
    model_config: ModelConfig, config: TrainingConfig, corpus: Corpus, task: Task = LANGUAGE_MODEL,
    steps: int | None = None,
) -> keras.Model:
    """Builds a model and compiles it with the configured loss and optimiser.

    In the scope of a strategy the model is for the rows of one replica.

    Args:
        model_config: the model to build.
        config: the optimiser, the clipping and the reduction of the loss.
        corpus: a `Corpus`, or another object with `vocabulary` and `shape`.
        task: what is trained.
        steps: the number of steps of the run, for a `schedule`; None for none.
    """
    rows = rows_of_each(corpus, tf.distribute.get_strategy())
    model = task.build(model_config, corpus.vocabulary, rows, corpus.shape.get("time_steps"))
    optimizer = _optimizer(config, steps)
    if config.weight_decay and config.weight_decay_on == "recurrent":
        optimizer.exclude_from_weight_decay(_without_recurrent(model))
    optimizer.build(model.trainable_variables)
    reduction = {"stream": "sum_over_steps", "token": "mean_with_sample_weight"}[config.reduce]
    metrics = [Perplexity()] * model.get_layer("head").trains_exactly
    model.compile(optimizer, SoftmaxLoss(reduction=reduction), weighted_metrics=metrics)
    return model


def _optimizer(config, steps):
    clipping = {"global": "global_clipnorm", "variable": "clipnorm"}[config.clip]
    options = {clipping: config.clip_norm} if config.clip_norm else {}
    if config.optimizer == "adagrad":
        options["initial_accumulator_value"] = config.initial_accumulator
        options["accumulator"] = config.accumulator
    if config.optimizer == "sgd":
        options["momentum"] = config.momentum
    if config.weight_decay or config.optimizer == "adamw":
        options["weight_decay"] = config.weight_decay
    return _OPTIMIZERS[config.optimizer](learning_rate(config, steps), **options)


def _without_recurrent(model):
    return [
        variable for layer in model.layers if not isinstance(layer, keras.layers.RNN)
        for variable in layer.trainable_variables
    ]

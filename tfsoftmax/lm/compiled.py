"""A model that is compiled with the loss and the optimiser of a configuration."""

import keras
import tensorflow as tf

from tfsoftmax import optimizers
from tfsoftmax.corpora.pipeline import rows_of_each
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.schedules import learning_rate
from tfsoftmax.lm.tasks import LANGUAGE_MODEL, Task
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.metrics import Perplexity

_OPTIMIZERS = {
    "adagrad": optimizers.Adagrad, "sgd": optimizers.SGD, "adam": optimizers.Adam,
    "adamw": optimizers.AdamW,
}


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

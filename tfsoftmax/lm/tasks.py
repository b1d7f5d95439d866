"""What a run trains: which corpus it reads, and which model it builds."""

import dataclasses
from collections.abc import Callable

from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.config import ModelConfig


@dataclasses.dataclass(frozen=True)
class Task:
    """What training, runs and their checkpoints have to know of a kind of model.

    Attributes:
        corpus: the class of its corpora; their `TASK` is its name.
        config: the class of its configurations.
        build: function (config, vocabulary, rows, time_steps, stateful) -> `keras.Model`, with
            rows of a batch, or None for any number; the last two as in `language_model`.

    Example:
        from tfsoftmax.lm.tasks import LANGUAGE_MODEL
        assert LANGUAGE_MODEL.name == "sentences"
    """

    corpus: type[Corpus]
    config: type[ModelConfig]
    build: Callable

    @property
    def name(self) -> str:
        """What the corpora hold."""
        return self.corpus.TASK


def _language_model(*args, **kwargs):
    """`language_model`, for which the commands need not wait before they name the task."""
    from tfsoftmax.lm.model import language_model

    return language_model(*args, **kwargs)


LANGUAGE_MODEL = Task(Corpus, ModelConfig, _language_model)

"""Lets the words of self-organised heads choose new clusters while a model is trained."""

from collections.abc import Callable

import keras

from tfsoftmax.heads.self_organised import SelfOrganisedSoftmax
from tfsoftmax.support._compat import layers_of
from tfsoftmax.support.arguments import CheckedArguments, check_positive, expect


class Reassign(CheckedArguments, keras.callbacks.Callback):
    """Lets the words of every `SelfOrganisedSoftmax` in the model choose new clusters.

    Args:
        every: number of the optimiser's steps between two choices. They are counted by its
            `iterations`, which `BackupAndRestore` and saved models keep, so the schedule continues
            when training resumes.
        logger: a function that is called after each choice with a dict: `step`, the optimiser's
            steps so far, and the shares `changed_words` and `changed_tokens`; or None.

    Attributes:
        history: list of these dicts.

    Example:
        inputs, labels = keras.random.normal((64, 16)), keras.random.randint((64,), 0, 100)
        model = keras.Sequential([tfsoftmax.SelfOrganisedSoftmax(100, [1] * 100)])
        model.compile("adam", tfsoftmax.SoftmaxLoss())
        model.fit(inputs, labels, callbacks=[tfsoftmax.Reassign(every=1)], verbose=0)

    Source: Shen et al. 2017, section 3.5 and figure 1.
    """

    def __init__(self, every: int = 1000, logger: Callable[[dict], None] | None = None):
        super().__init__()
        check_positive(every=every)
        self.every, self.logger = every, logger
        self.history, self._last = [], None

    @property
    def step(self) -> int:
        """The steps that the model's optimiser has taken."""
        return self._step_before(0)

    def _step_before(self, batches):
        """The optimiser's steps before the last so many batches, of which a step may be several."""
        optimizer = self.model.optimizer
        innermost = getattr(optimizer, "inner_optimizer", optimizer)
        batches = max(0, int(innermost._iterations.numpy()) - batches)
        return batches // (innermost.gradient_accumulation_steps or 1)

    def on_train_begin(self, logs=None):
        heads_of(self.model)  # raises at once for a model without such a head
        self._last = None

    def on_train_batch_begin(self, batch, logs=None):
        # Words move before a batch and never after the last one: the model that the user gets
        # has been trained with its clusters.
        step, last = self.step, self._last
        if last is None:  # before the last call of a training that may have been interrupted
            last = self._step_before(self.model.steps_per_execution)
        self._last = step
        if step // self.every == last // self.every:
            return
        for head in heads_of(self.model):
            self.history.append({"step": step, **head.reassign()})
            if self.logger is not None:
                self.logger(self.history[-1])


def heads_of(model):
    """The `SelfOrganisedSoftmax` layers of a model, however deep; an error if there are none."""
    heads = [layer for layer in layers_of(model) if isinstance(layer, SelfOrganisedSoftmax)]
    expect(heads, "model", "end in a SelfOrganisedSoftmax", model)
    return heads

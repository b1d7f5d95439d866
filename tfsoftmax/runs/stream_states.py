"""The recurrent states of the streams of all workers, for the checkpoints of a run."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.lm.model import recurrent_states
from tfsoftmax.sharding.workers import Workers


class StreamStates:
    """The recurrent states of all streams, in the order of the streams.

    Each replica has the states of its own streams. Checkpoints hold those of all, so that they do
    not depend on the number of replicas.

    Args:
        model: a stateful model, which was built under the strategy of the workers.
        workers: the `Workers`.

    Attributes:
        variables: list of variables (B, H), one for each state of the model.

    Example:
        from tfsoftmax.runs.stream_states import StreamStates
        from tfsoftmax.sharding.workers import Workers
        vocabulary = tfsoftmax.Vocabulary(["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4])
        model = tfsoftmax.language_model(tfsoftmax.ModelConfig(), vocabulary, streams=2)
        states = StreamStates(model, Workers())
        states.gather()
    """

    def __init__(self, model: keras.Model, workers: Workers):
        self._workers, replicas = workers, workers.replicas
        self._own = [
            workers.strategy.experimental_local_results(state.value)
            for state in recurrent_states(model)
        ]
        self.variables = [
            tf.Variable(tf.zeros((replicas * own[0].shape[0], *own[0].shape[1:]), own[0].dtype))
            for own in self._own
        ]

    def gather(self) -> None:
        """Sets `variables` to the states of all replicas of all workers."""
        for whole, own in zip(self.variables, self._own, strict=True):
            rows = self._workers.gather(np.concatenate([state.numpy() for state in own]))
            whole.assign(tf.cast(rows, whole.dtype))

    def scatter(self) -> None:
        """Sets the states of the replicas of this worker to their part of `variables`."""
        for whole, own in zip(self.variables, self._own, strict=True):
            parts = tf.split(whole, self._workers.replicas)
            first = self._workers.rank * len(own)
            for state, part in zip(own, parts[first : first + len(own)], strict=True):
                state.assign(part)

"""Training for a number of seconds, so that models of different speed compare."""

import time

import keras


class StopAfter(keras.callbacks.Callback):
    """Ends training a number of seconds after the first step, which compiles.

    Example:
        clock = StopAfter(20.0)
        model.fit(x, y, epochs=100, callbacks=[clock])
        print(clock.steps, clock.step_seconds())
    """

    def __init__(self, seconds: float):
        super().__init__()
        self._seconds, self._ends = seconds, []

    def on_train_batch_end(self, batch, logs=None):
        self._ends.append(time.perf_counter())
        self.model.stop_training = self._ends[-1] - self._ends[0] > self._seconds

    @property
    def steps(self) -> int:
        """Number of steps that were trained."""
        return len(self._ends)

    def step_seconds(self) -> float:
        """Mean seconds of a step, without the first."""
        return (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)

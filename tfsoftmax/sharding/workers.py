"""The processes and the devices that train a model together.

A worker is a process, and a replica is a device of a worker. Each replica has a copy of the model
and reads its own streams; the gradients of all are summed. Whatever the workers decide, they decide
together, so that all of them are always at the same step.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

# What TensorFlow raises in the other workers when one of them has ended.
_LOST = (
    tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
ASKING_SECONDS = 0.5  # between two questions to the other workers whether to stop
SHOWING_SECONDS = 60.0  # for which NFS may hide from one machine what another has written


class Workers:
    """The workers of a strategy as one of them sees them. Its methods are called by all together.

    Args:
        strategy: a strategy with any number of replicas; None for one device.

    Attributes:
        strategy: the strategy, which is TensorFlow's default for one device.
        size: the number of workers.
        rank: the number of this worker, from 0.
        replicas: the number of devices of all workers.

    Example:
        from tfsoftmax.sharding.workers import Workers
        workers = Workers()
        assert (workers.rank, workers.size, workers.replicas) == (0, 1, 1)
        assert not workers.agree_to_stop(False, "train")
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None):
        self.strategy = tf.distribute.get_strategy() if strategy is None else strategy
        self.replicas = self.strategy.num_replicas_in_sync
        self.rank, self.size = 0, 1
        self._work, self._calls, self._next, self._asked_at = None, 0, 1, 0.0
        if self.replicas > 1:
            numbers = self.strategy.experimental_local_results(self._values(lambda number: number))
            self._first = int(numbers[0])
            self.rank, self.size = self._first // len(numbers), self.replicas // len(numbers)

    @property
    def first(self) -> bool:
        """Whether this is the first worker, which alone writes and prints."""
        return self.rank == 0

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The sum of the workers' arrays, float64 and of the same shape, in every worker."""
        values = np.asarray(values, np.float64)
        if self.size == 1:
            return values
        nothing = np.zeros_like(values)
        own = self._values(lambda number: values if number == self._first else nothing)
        return self.strategy.reduce("SUM", own, axis=None).numpy()

    def agree_to_stop(self, wish: bool, work: str) -> bool:
        """Whether any worker wishes to stop; all workers get the same answer to the same call.

        Asking the others takes milliseconds, so that most calls only return False: the first worker
        chooses how many, namely as many as take it half a second.

        Args:
            wish: whether this worker wishes to stop.
            work: what is done between the calls. Where it changes, the workers ask, and find out
                anew how many calls take half a second.
        """
        if self.size == 1:
            return bool(wish)
        changed, self._work, self._calls = work != self._work, work, self._calls + 1
        if not changed and self._calls < self._next:
            return False
        now, calls = time.perf_counter(), 1
        if not changed:
            calls += int(self._calls * ASKING_SECONDS / (now - self._asked_at))
            calls = min(calls, 2 * self._calls)  # the first steps take longer
        wishes, self._next = self.sum([wish, calls if self.first else 0]).astype(int)
        self._calls, self._asked_at = 0, now
        return bool(wishes)

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows of all workers, in their order: (R, ...) of each become (size · R, ...)."""
        whole = np.zeros((self.size, *rows.shape))
        whole[self.rank] = rows
        return self.sum(whole).reshape(-1, *rows.shape[1:])

    def from_first(self, function: Callable[[], object]) -> object:
        """What a function returns that only the first worker calls: values that JSON can hold.

        Raises:
            RuntimeError: in the other workers, if the function fails in the first.
        """
        return self.of_all(function if self.first else lambda: None)[0]

    def of_all(self, function: Callable[[], object]) -> list:
        """What a function returns in each worker: values that JSON can hold.

        Raises:
            RuntimeError: in the workers where the function succeeds, if it fails in another.
        """
        if self.size == 1:
            return [function()]
        text = b""
        try:
            text = json.dumps(function()).encode()
        finally:
            lengths = self.gather(np.array([len(text)])).astype(int)
        if not lengths.all():
            raise RuntimeError("Another worker has failed, and says why.")
        codes = np.zeros((1, lengths.max()))
        codes[0, : len(text)] = np.frombuffer(text, np.uint8)
        rows = self.gather(codes).astype(np.uint8)
        return [json.loads(row[:n].tobytes()) for row, n in zip(rows, lengths, strict=True)]

    def check_same(self, function: Callable[[], dict], seconds: float = 0.0) -> None:
        """Raises ValueError in all workers unless a function returns the same in each of them.

        Args:
            function: what a worker finds in its folders: a dictionary of values that JSON can hold.
            seconds: for how long the other workers look again until they find what the first has.
        """
        if self.size == 1:
            return
        expected, end = self.from_first(function), time.monotonic() + seconds
        own, failure = (expected, None) if self.first else _found(function)
        while own != expected and time.monotonic() < end:
            time.sleep(0.5)
            own, failure = _found(function)
        found = [failure is not None or own[name] != value for name, value in expected.items()]
        different = self.gather(np.array([found]))
        if failure is not None:
            raise failure
        for rank, row in enumerate(different):
            if names := [name for name, differs in zip(expected, row, strict=True) if differs]:
                values = ", ".join(f"{name}={str(expected[name])[:80]}" for name in names)
                raise ValueError(
                    "The folders of all workers must be the same: share them between the machines. "
                    f"Received: {values} in worker 0, but not in worker {rank}"
                )

    @contextlib.contextmanager
    def explaining_loss(self, advice: Callable[[], str]) -> Iterator[None]:
        """Turns the errors that follow from the end of another worker into a sentence."""
        try:
            yield
        except _LOST as error:
            if self.size == 1:
                raise
            said = str(error).rpartition("aborted by: ")[2].splitlines()[0]
            raise RuntimeError(
                f"Another worker has ended, or cannot be reached any more. {advice()} "
                f"TensorFlow says: {said[:200]}"
            ) from error

    def _values(self, function):
        """A value for each local replica, of its number among all replicas."""
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(function(context.replica_id_in_sync_group))
        )


def _found(function):
    """What a function returns, as JSON has it, or its error, to be raised once the others know."""
    try:
        return json.loads(json.dumps(function())), None
    except (OSError, ValueError) as error:
        return {}, error

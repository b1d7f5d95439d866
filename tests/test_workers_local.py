"""What the process that has started workers on this machine makes of the ways in which they end."""

import io
import math
import signal

import pytest

from tfsoftmax.sharding import local_workers

SAVED = local_workers.INTERRUPTED << 8
FAILED = 1 << 8


@pytest.fixture
def wait(monkeypatch):
    """A function that waits for workers that end at times of a clock that only sleeping moves."""

    def wait(ends, said=("", "")):
        clock, children = [0.0], {100 + rank: rank for rank in range(len(ends))}
        left = {100 + rank: end for rank, end in enumerate(ends)}

        def waitpid(child, options):
            for child, (seconds, status) in list(left.items()):
                if clock[0] >= seconds:
                    del left[child]
                    return child, status
            return 0, 0

        def sleep(seconds):
            clock[0] += seconds
            assert clock[0] < 10_000, "it must not wait for ever"

        def kill(child, number):
            left[child] = min(left[child], (clock[0], number))

        monkeypatch.setattr(local_workers.os, "waitpid", waitpid)
        monkeypatch.setattr(local_workers.os, "kill", kill)
        monkeypatch.setattr(local_workers.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(local_workers.time, "sleep", sleep)
        messages = [io.BytesIO(text.encode()) for text in said]
        return local_workers._wait(children, messages), clock[0]

    return wait


def test_one_that_fails_to_save_counts_more_than_one_that_has_saved(wait, capsys):
    status, _ = wait([(1.0, FAILED), (0.0, SAVED)], ["error: No space left on device\n", ""])
    assert status == 1
    status, _ = wait([(0.0, SAVED), (1.0, FAILED)], ["", "error: No space left on device\n"])
    assert status == 1 and capsys.readouterr().err == "error: No space left on device\n"
    status, _ = wait([(0.0, FAILED), (1.0, SAVED)])
    assert status == 1
    status, seconds = wait([(200.0, SAVED), (0.0, SAVED)])
    assert status == local_workers.INTERRUPTED and seconds >= 200


def test_one_that_hangs_while_it_saves_is_ended(wait, capsys):
    status, seconds = wait([(math.inf, 0), (0.0, SAVED)])
    assert status == 1 and seconds == pytest.approx(local_workers.SAVING, abs=1)
    assert "worker 0 did not end within 600 seconds after another" in capsys.readouterr().err
    status, seconds = wait([(math.inf, 0), (0.0, signal.SIGKILL)])
    assert status == 1 and seconds < 1
    assert "worker 1 was ended by SIGKILL, and the others" in capsys.readouterr().err

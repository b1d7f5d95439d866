"""The worst streams of a split, against a loop."""

import numpy as np
import pytest

from experiments.measurements import stream_nats


def test_perplexities_with_and_without_the_worst_streams():
    nats, tokens = np.array([10.0, 60.0, 8.0, 30.0]), np.array([5, 6, 4, 10])
    whole, worst, others = stream_nats.perplexities(nats, tokens, 2)
    assert whole == pytest.approx(np.exp(108 / 25))
    assert worst == [(1, pytest.approx(np.exp(10))), (3, pytest.approx(np.exp(3)))]
    assert others == pytest.approx(np.exp(18 / 9))

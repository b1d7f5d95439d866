import numpy as np
import pytest

from tfsoftmax.support.counts import checked_counts, with_unseen


def test_counts_keep_their_dtype():
    assert checked_counts([3, 0, 5]).dtype == np.int64
    assert checked_counts([3, 0.5], vocab_size=2).tolist() == [3.0, 0.5]


@pytest.mark.parametrize("counts, received", [
    ([1, 2], r"counts of shape \(2,\)"),
    ([[1, 2, 3]], r"counts of shape \(1, 3\)"),
    ([1, -2, 4], "-2 for word 1"),
    ([1, 4, np.inf], "inf for word 2"),
    ([np.nan, 4, 1], "nan for word 0"),
    ([0, 0, 0], "all zero"),
])
def test_one_message_names_what_is_wrong(counts, received):
    message = (
        "`counts` must be finite, not negative, and not all zero, one number for each of 3 words. "
        f"Received: {received}$"
    )
    with pytest.raises(ValueError, match=message):
        checked_counts(counts, vocab_size=3)


def test_unseen_words_count_as_often_as_the_rarest_seen():
    assert with_unseen(np.array([7, 0, 3, 0])).tolist() == [7, 3, 3, 3]

"""Words that are never drawn: padding."""


import numpy as np
import pytest
import tensorflow as tf

from sampler_helper import NAMES, zipf_counts
from tfsoftmax.heads import SampledSoftmax
from tfsoftmax.samplers import (
    Excluding,
    LearnedUnigram,
    LogUniform,
    TargetSampling,
    audit_sampler,
    get_sampler,
)

V, PADS = 10, [0, 4, 9]
LEFT = [1, 2, 3, 5, 6, 7, 8]


def make(name, **options):
    counts = None if name == "log_uniform" else zipf_counts(V)
    return get_sampler(name, V, counts, exclude=PADS[::-1], **options)


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_claims_are_honest_and_excluded_words_are_never_drawn(name, unique):
    sampler = make(name, unique=unique)
    sampler.update(np.tile([1, 1, 5, 0, 4, 4, 9, 9], 4))  # of which a sampler learns 1 and 5
    audit = audit_sampler(sampler, 3, draws=8000, jit_compile=True)
    assert audit.honest, audit.z
    assert (audit.empirical[PADS] == 0).all() and (audit.claimed[PADS] == 0).all()
    assert (audit.empirical[LEFT] > 0).all()
    q = np.exp(sampler.log_q(tf.range(V)).numpy().astype(np.float64))
    np.testing.assert_allclose(q.sum(), 1, rtol=1e-5)
    counts = np.maximum(zipf_counts(V), zipf_counts(V)[LEFT][np.argsort(zipf_counts(V)[LEFT])][1])
    wanted = {
        "uniform": np.ones(7), "log_uniform": np.log1p(1 / np.arange(1, 8)),
        "unigram": counts[LEFT], "learned_unigram": [9, 1, 1, 5, 1, 1, 1],
    }
    if name in wanted:
        np.testing.assert_allclose(q[LEFT], wanted[name] / np.sum(wanted[name]), rtol=1e-5)


def test_samples_of_each_position_have_no_excluded_words():
    sampler = make("log_uniform")
    drawn = sampler.sample_for_each(tf.constant([3, 0, 8]), 500, 1)
    assert drawn.ids.shape == (3, 500) and set(np.unique(drawn.ids)) == set(LEFT)
    assert drawn.log_expected_labels[1] < -9e3


def test_a_learned_sampler_without_words_counts_only_the_others():
    sampler = Excluding(V, PADS, LearnedUnigram(7))
    tf.function(sampler.update, jit_compile=True)(tf.constant([0, 4, 5, 5, 9]))
    q = np.exp(sampler.log_q(np.array(LEFT)))
    np.testing.assert_allclose(q, np.array([1, 1, 1, 3, 1, 1, 1]) / 9, rtol=1e-6)


@pytest.mark.parametrize("make, message", [
    (lambda: get_sampler("uniform", 9, exclude=[9]), r"different ids in \[0, 9\).*exclude=\[9\]"),
    (lambda: get_sampler("uniform", 9, exclude=[1, 1]), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 9, exclude=[]), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 9, exclude=0), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 9, exclude=[0.5]), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 2, exclude=[0, 1]), "not all of them"),
    (lambda: get_sampler("in_batch", 9, np.ones(9), exclude=[0]), "exclude with InBatch"),
    (lambda: get_sampler("online_bigram", 9, exclude=[0]), "exclude with OnlineBigram"),
    (lambda: Excluding(4, [0], TargetSampling(3, [[0, 1]], [1])), "with TargetSampling"),
    (lambda: Excluding(9, [0], "uniform"), "`sampler` must be a Sampler"),
    (lambda: Excluding(9, [0], LogUniform(9)), "`sampler` must be one of the 8 words that are not"),
    (lambda: SampledSoftmax(9, 9, "uniform", sampler_options={"exclude": [0], "unique": True}),
     "`num_samples` must be a positive integer of at most 8"),
])
def test_what_cannot_be_excluded_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

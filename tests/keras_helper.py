"""Small models of every head, compiled, and data for them."""

import numpy as np

from cases import CASES, language_model
from tfsoftmax import Perplexity, SoftmaxLoss
from tfsoftmax.optimizers import Adagrad

V, B, T = 13, 4, 5


def data(batches=3, seed=0):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, V, size=(batches * B, T + 1)).astype(np.int32)
    weights = rng.uniform(size=(batches * B, T)).astype(np.float32)
    weights[0] = 0
    return words[:, :-1].copy(), words[:, 1:].copy(), weights


def compiled(case, layers="functional", optimizer=None, **options):
    model = language_model(CASES[case](V), layers)
    options = {"jit_compile": False, **options}
    optimizer = optimizer or Adagrad(0.2, global_clipnorm=1.0)
    model.compile(optimizer, SoftmaxLoss(), weighted_metrics=[Perplexity()], **options)
    return model

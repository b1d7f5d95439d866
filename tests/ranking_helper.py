"""Lists of items, relevant items, and what loops say of them, for tests of ranking metrics."""

import numpy as np

import references
from tfsoftmax.metrics import MAP, MRR, NDCG, PrecisionAtK, RecallAtK

METRICS = (RecallAtK, NDCG, MRR, PrecisionAtK, MAP)
V, N, K = 40, 30, 9


def lists(seed=0):
    """Lists (N, K) of distinct items, relevant items (N, 6) with -1 among them, weights (N,)."""
    rng = np.random.default_rng(seed)
    found = np.stack([rng.permutation(V)[:K] for _ in range(N)])
    relevant = np.stack([rng.permutation(V)[:6] for _ in range(N)])
    relevant[rng.random(relevant.shape) < 0.4] = -1
    relevant[:, 0] = np.maximum(relevant[:, 0], 0)
    return found, relevant, rng.uniform(size=N).astype(np.float32)


def wanted(found, relevant, k=K):
    """(N, 5): what the loops of `references` say of each query."""
    return np.array([references.ranking(f, r, k) for f, r in zip(found, relevant)])


def graded(relevant, seed=6):
    """Grades of 0 to 4 for relevant items (N, R), as pairs (N, R, 2), and [{item: grade}]."""
    grades = np.random.default_rng(seed).integers(0, 5, relevant.shape)
    grades[:, 0] = np.maximum(grades[:, 0], 1)
    pairs = np.stack([relevant, grades], -1)
    return pairs, [{i: g for i, g in query if i >= 0 and g > 0} for query in pairs.tolist()]

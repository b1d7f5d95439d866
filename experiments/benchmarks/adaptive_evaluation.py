"""The calls of evaluation and generation: log-probabilities and likeliest words.

Both libraries get the same weights. Their head cluster knows how frequent words and tails are: the
first unit of the hidden state carries the unigram distribution, so that most positions find their
likeliest word in the shortlist. Where that unit is -1, the tails are the least likely.
"""

import numpy as np

from experiments.benchmarks.cases import NATS, TORCH_ADAPTIVE, Case, case_of, options_of
from tfsoftmax.lm.head_names import HEAD_NAMES

FEW = 256
EVALUATIONS = ("log_probs of 256", "top_k of 256", "top_k of N", "top_k of 256, from the shortlist")


def suite(vocab_size):
    """The calls of evaluation and generation: exact nats, and adaptive softmax against PyTorch."""
    options, both = options_of("adaptive", vocab_size), {"measures": EVALUATIONS}
    return [
        *(case_of(HEAD_NAMES[head][0], head, options_of(head, vocab_size), "nats", measures=(NATS,))
          for head in ("full", "adaptive", "class", "tree", "sampled")),
        case_of("AdaptiveSoftmax, its calls", "adaptive", options, "evaluation", (TORCH_ADAPTIVE,),
              **both),
        Case(TORCH_ADAPTIVE, "torch", "adaptive", options, "evaluation", **both),
    ]


def weights(problem, shapes, cutoffs, units):
    """Kernels of the given shapes, with words as rows, and projections (D, units)."""
    rng = np.random.default_rng(2)
    shares = problem.counts() / problem.counts().sum()
    ends = [*cutoffs, problem.vocab_size]
    mass = [shares[a:b].sum() for a, b in zip(ends, ends[1:])]
    kernels = [rng.standard_normal(s, np.float32) / s[1] ** 0.5 for s in shapes]
    kernels[0][:, 0] = np.log([*shares[: cutoffs[0]], *mass])
    projections = [
        rng.standard_normal((problem.units, d), np.float32) / problem.units**0.5 for d in units
    ]
    return kernels, projections


def hidden_of(measure, problem):
    """The hidden states that a measure evaluates."""
    *_, everywhere, sure = EVALUATIONS
    hidden = problem.hidden()[: None if measure == everywhere else FEW]
    hidden[:, 0] = -1 if measure == sure else 1
    return hidden


def ours(head, problem):
    """{measure: function} of a built `AdaptiveSoftmax`."""
    import tensorflow as tf

    kernels, projections = weights(
        problem, [tuple(k.shape) for k in head.kernels], head.bands.cutoffs,
        [p.shape[1] for p in head.projections],
    )
    for variable, value in zip([*head.kernels, *head.projections], [*kernels, *projections]):
        variable.assign(value)

    def function_of(measure):
        hidden = tf.constant(hidden_of(measure, problem))
        if measure == EVALUATIONS[0]:
            function = tf.function(lambda: head.log_probs(hidden))
            return lambda: float(function()[0, 0])
        function = tf.function(lambda: head.top_k(hidden, 1))
        return lambda: float(function()[0][0, 0])

    return {measure: function_of(measure) for measure in EVALUATIONS}


def pytorch(module, problem, device):
    """{measure: function} of `AdaptiveLogSoftmaxWithLoss`: `log_prob` and `predict`."""
    import torch

    shapes = [module.head.weight.shape, *(tail[1].weight.shape for tail in module.tail)]
    kernels, projections = weights(
        problem, [tuple(s) for s in shapes], module.cutoffs[:-1],
        [tail[0].weight.shape[0] for tail in module.tail],
    )
    with torch.no_grad():
        module.head.weight.copy_(torch.tensor(kernels[0]))
        for tail, kernel, projection in zip(module.tail, kernels[1:], projections):
            tail[0].weight.copy_(torch.tensor(projection.T.copy()))
            tail[1].weight.copy_(torch.tensor(kernel))

    def function_of(measure):
        hidden = torch.tensor(hidden_of(measure, problem), device=device)
        function = module.log_prob if measure == EVALUATIONS[0] else module.predict

        def run():
            with torch.inference_mode():
                return float(function(hidden).flatten()[0])
        return run

    return {measure: function_of(measure) for measure in EVALUATIONS}

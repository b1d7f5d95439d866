"""What `adaptive_step.py` measures: one problem, and each library's functions that solve it."""

import numpy as np

CUTOFFS = {44370: [4000, 22000], 200606: [4000, 40000]}
OURS, TORCH = "AdaptiveSoftmax", "PyTorch"
JIT, HALF = "the same, jit_compile", "the same, mixed_bfloat16"
MATMULS = "bare matmuls"
STEP = "step"
LOG_PROBS, TOP, TOP_ALL, SURE = (
    "log_probs of 256", "top_k(1) of 256", "top_k(1) of N", "top_k(1) of 256, from the shortlist"
)
EVALUATIONS = (LOG_PROBS, TOP, TOP_ALL, SURE)


class Problem:
    """Hidden states, labels and weights: the same in every process."""

    def __init__(self, vocab_size, positions, units, factor):
        rng = np.random.default_rng(0)
        self.vocab_size, self.cutoffs, self.factor = vocab_size, CUTOFFS[vocab_size], factor
        ends = [0, *self.cutoffs, vocab_size]
        probabilities = 1 / np.arange(1, vocab_size + 1)
        probabilities /= probabilities.sum()
        self.labels = rng.choice(vocab_size, positions, p=probabilities)
        self.hidden = 0.3 * rng.standard_normal((positions, units), np.float32)
        self.hidden[:, 0] = 1
        mass = [probabilities[a:b].sum() for a, b in zip(ends[1:], ends[2:])]
        self.units = [int(units // factor**k) for k in range(len(mass) + 1)]
        self.words = [b - a for a, b in zip(ends, ends[1:])]
        self.rows = [positions] + [
            int(((self.labels >= a) & (self.labels < b)).sum()) for a, b in zip(ends[1:], ends[2:])
        ]
        shapes = [(self.words[0] + len(mass), units), *zip(self.words[1:], self.units[1:])]
        self.kernels = [rng.standard_normal(s, np.float32) / s[1] ** 0.5 for s in shapes]
        self.kernels[0][:, 0] = np.log([*probabilities[: self.words[0]], *mass])
        self.projections = [
            rng.standard_normal((units, d), np.float32) / units**0.5
            for d in self.units[1:]
        ]


    def hidden_of(self, what):
        """What an evaluation gets; where the first unit is -1, tails are the least likely."""
        hidden = self.hidden[: None if what == TOP_ALL else 256].copy()
        hidden[:, 0] = -1 if what == SURE else 1
        return hidden


def tensorflow_cases(problem):
    """{case: {what: a function to time}} of our head and of the bare matmuls."""
    import tensorflow as tf

    hidden = tf.constant(problem.hidden)
    heads = {name: head_of(problem, policy) for name, policy in (
        (OURS, "float32"), (JIT, "float32"), (HALF, "mixed_bfloat16")
    )}
    cases = {name: {STEP: step_of(head, hidden, problem.labels, name == JIT)}
             for name, head in heads.items()}
    cases[MATMULS] = {STEP: matmuls_of(problem)}
    for what in EVALUATIONS:
        some = tf.constant(problem.hidden_of(what))
        if what == LOG_PROBS:
            function = tf.function(lambda rows=some: heads[OURS].log_probs(rows))
        else:
            function = tf.function(lambda rows=some: heads[OURS].top_k(rows, 1)[0])
        cases[OURS][what] = lambda function=function: function().numpy()[0]
    return cases


def head_of(problem, policy):
    """The head with the problem's weights."""
    import tfsoftmax

    head = tfsoftmax.AdaptiveSoftmax(
        problem.vocab_size, problem.cutoffs, problem.factor, dtype=policy
    )
    head.build(problem.hidden.shape)
    variables = [*head.kernels, *head.projections]
    for variable, value in zip(variables, [*problem.kernels, *problem.projections]):
        variable.assign(value)
    return head


def step_of(head, hidden, labels, jit_compile):
    """Loss and gradients as `fit` computes them, for a batch of any size."""
    import tensorflow as tf

    import tfsoftmax

    loss = tfsoftmax.SoftmaxLoss()

    @tf.function(
        input_signature=[tf.TensorSpec((None, hidden.shape[1])), tf.TensorSpec((None,), tf.int64)],
        jit_compile=jit_compile,
    )
    def step(hidden, labels):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            value = loss(labels, head(hidden, training=True))
        return value, tape.gradient(value, [hidden, *[w.value for w in head.trainable_weights]])

    labels = tf.constant(labels)
    return lambda: float(step(hidden, labels)[0])


def matmuls_of(problem):
    """The products that a step cannot do without, with nothing between them."""
    import tensorflow as tf

    random, units = tf.random.normal, problem.hidden.shape[1]
    matrices = []
    for k, rows in enumerate(problem.rows):
        words, d = problem.kernels[k].shape
        more = (random((rows, units)), random((units, d))) if k else ()
        matrices.append((random((rows, d)), random((words, d)), *more))

    @tf.function
    def matmuls():
        products = []
        for inputs, kernel, *projected in matrices:
            logits = tf.matmul(inputs, kernel, transpose_b=True)
            products += [tf.matmul(logits, kernel), tf.matmul(logits, inputs, transpose_a=True)]
            if projected:
                wide, projection = projected
                products += [
                    tf.matmul(wide, projection), tf.matmul(wide, inputs, transpose_a=True),
                    tf.matmul(inputs, projection, transpose_b=True),
                ]
        return products

    return lambda: matmuls()[0].numpy()[0, 0]


def torch_cases(problem):
    """{case: {what: a function to time}} of PyTorch's module."""
    import torch

    torch.set_num_threads(2)
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(
        problem.hidden.shape[1], problem.vocab_size, problem.cutoffs, div_value=problem.factor
    )
    with torch.no_grad():
        module.head.weight.copy_(torch.tensor(problem.kernels[0]))
        for tail, kernel, projection in zip(module.tail, problem.kernels[1:], problem.projections):
            tail[0].weight.copy_(torch.tensor(projection.T.copy()))
            tail[1].weight.copy_(torch.tensor(kernel))
    hidden = torch.tensor(problem.hidden, requires_grad=True)
    labels = torch.tensor(problem.labels)

    def step():
        module.zero_grad()
        hidden.grad = None
        loss = module(hidden, labels).loss
        loss.backward()
        return loss.item()

    def without_gradients(function, what):
        some = torch.tensor(problem.hidden_of(what))

        def run():
            with torch.inference_mode():
                return function(some)[0].numpy()
        return run

    functions = {what: without_gradients(
        module.log_prob if what == LOG_PROBS else module.predict, what
    ) for what in EVALUATIONS}
    return {TORCH: {STEP: step, **functions}}

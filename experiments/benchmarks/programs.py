"""The programs of our own that are timed: a head's step, a recurrent layer's, a model's."""

import dataclasses
import typing

import numpy as np

from experiments.benchmarks.cases import EVALUATIONS, GRADIENTS, STEP
from experiments.benchmarks.floor import Product, products_of

LEARNING_RATE = 0.1


@dataclasses.dataclass
class Program:
    """What a worker times.

    Attributes:
        functions: {measure: function () -> float}; to return the number, the device must be done.
        products: the matmuls of the floor; empty where there is none.
        parameters: number of trained parameters.
        facts: what else the row says, {name: value}.
    """

    functions: dict
    products: list
    parameters: int
    facts: dict = dataclasses.field(default_factory=dict)


class Words(typing.NamedTuple):
    """What a head asks of a vocabulary."""

    counts: np.ndarray
    words: list | None = None

    def __len__(self):
        return len(self.counts)


def head(case, problem):
    """Loss and gradients of a head; the same with Adagrad's update; or evaluations."""
    import tensorflow as tf

    layer, facts = built_head(case, problem)
    labels = problem.labels()
    if set(case.measures) <= set(EVALUATIONS):
        from experiments.benchmarks import adaptive_evaluation

        return Program(
            adaptive_evaluation.ours(layer, problem), [], parameters_of(layer), facts
        )
    hidden, device_labels = tf.constant(problem.hidden()), tf.constant(labels)
    functions = {
        measure: _step(layer, hidden, device_labels, case, measure == STEP)
        for measure in case.measures
    }
    return Program(functions, products_of(layer, labels), parameters_of(layer), facts)


def built_head(case, problem):
    """The head of a case, and what was decided for it."""
    from tfsoftmax.heads import HEADS
    from tfsoftmax.partitions import tree_builders

    options, facts, counts = dict(case.options), {}, problem.counts()
    kind = HEADS[case.head]
    if "levels" in options:
        options["tree"] = tree_builders.from_nested(_nested(problem.vocab_size, options.pop("levels")))
    if case.head == "adaptive":
        from tfsoftmax.partitions.calibration import machine_constants
        from tfsoftmax.partitions.cost_model import CostModel
        from tfsoftmax.partitions.cutoffs import best_cutoffs

        model = CostModel(counts, problem.units, problem.positions,
                          options.get("projection_factor", 4.0), machine_constants())
        if "tails" in options:
            options["cutoffs"] = best_cutoffs(model, options.pop("tails"))
        facts = {"cutoffs": options["cutoffs"], "expected_ms": 1000 * model.seconds(
            options["cutoffs"])}
    layer = kind.for_vocabulary(Words(counts), dtype=case.precision, **options)
    layer.build((problem.positions, problem.units))
    return layer, facts


def _nested(vocab_size, levels):
    """Nested lists of words, as many branches at each of some levels."""
    fan_out = int(np.ceil(vocab_size ** (1 / levels)))
    nested = list(range(vocab_size))
    for _ in range(levels - 1):
        nested = [nested[i : i + fan_out] for i in range(0, len(nested), fan_out)]
    return nested


def _step(layer, hidden, labels, case, update):
    """A function of one step, compiled at its first call."""
    import tensorflow as tf

    from tfsoftmax import SoftmaxLoss
    from tfsoftmax.optimizers import Adagrad

    loss, variables, made = SoftmaxLoss(), layer.trainable_variables, []

    @tf.function(jit_compile=case.jit)
    def step():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            total = loss(labels, layer(hidden, training=True))
        of_hidden, *gradients = tape.gradient(total, [hidden, *[v.value for v in variables]])
        if not update:
            return total, of_hidden, gradients
        made[0].apply(gradients, variables)
        return total, of_hidden

    def run():
        if update and not made:  # no slots before they are asked for: they are memory
            made.append(Adagrad(LEARNING_RATE, global_clipnorm=case.clip))
            made[0].build(variables)
        total, of_hidden, *_ = step()
        return float(total) + 0 * float(of_hidden[0, 0])

    return run


def parameters_of(layer):
    return int(sum(np.prod(v.shape) for v in layer.trainable_variables))


def recurrent(case, problem):
    """Forward and all gradients of recurrent layers over (B, T, D)."""
    import tensorflow as tf

    from tfsoftmax.layers.recurrent import recurrent_layer

    options = case.options
    units, gates = options["units"], {"lstm": 4, "gru": 3}[options["cell"]]
    shape = problem.streams, problem.steps, problem.units
    inputs = tf.constant(problem.hidden().reshape(shape))
    if options["backend"] == "cudnn" and not tf.config.list_physical_devices("GPU"):
        raise ModuleNotFoundError("cuDNN needs a GPU")
    layers = [
        recurrent_layer(options["cell"], units, options["backend"], return_sequences=True,
                        dtype=case.precision) for _ in range(options["layers"])
    ]
    width, products = problem.units, []
    for layer in layers:
        layer.build((*shape[:2], width))
        products.append(Product(problem.positions, width, gates * units))
        products += [Product(problem.streams, units, gates * units)] * problem.steps
        width = units
    weights = [w for layer in layers for w in layer.trainable_variables]

    @tf.function(jit_compile=case.jit)
    def step():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            hidden = inputs
            for layer in layers:
                hidden = layer(hidden, training=True)
            total = tf.reduce_sum(hidden)
        return total, tape.gradient(total, [inputs, *[w.value for w in weights]])

    def run():
        total, (of_inputs, *_) = step()
        return float(total) + 0 * float(of_inputs[0, 0, 0])

    parameters = int(sum(np.prod(w.shape) for w in weights))
    return Program({GRADIENTS: run}, products, parameters)

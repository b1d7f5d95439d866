"""Our own programs that are timed: steps of heads and of recurrent layers."""

import dataclasses
import functools
import types

import numpy as np

from experiments.benchmarks.cases import FORWARD, GRADIENTS, NATS, STEP, Case, options_of, ways_of
from experiments.benchmarks.floor import Product
from tfsoftmax.lm.head_names import HEAD_NAMES

LEARNING_RATE = 0.1
PADDED = types.MappingProxyType({  # steps, and the share of their positions that is padding
    f"step, {share:.0%} padding": share for share in (0.0, 0.5, 0.85, 0.95)
})


def padding_suite(vocab_size):
    """Steps with padding, which is not computed, against steps of the other positions alone."""
    in_batch = "SampledSoftmax, InBatch", "sampled", {"num_samples": None, "sampler": "in_batch"}
    heads = [(HEAD_NAMES[head][0], head, options_of(head, vocab_size))
             for head in ("full", "sampled", "adaptive", "tree")]
    return [
        case for name, head, options in (*heads, in_batch)
        for case in ways_of(name, "padding", head, ("the rest alone",), tuple(PADDED), options)
    ]


def recurrent_suite(_):
    """LSTM and GRU layers by backend. They do not depend on V."""
    result = []
    for cell, layers, units in (("lstm", 1, 512), ("gru", 1, 512), ("lstm", 1, 2048),
                                ("lstm", 2, 2048)):
        group = f"{layers} × {units} {cell.upper()}"
        for backend in ("cell", "fused", "cudnn"):
            options = {"cell": cell, "layers": layers, "units": units, "backend": backend}
            result.append(Case(
                f"{group}, {backend}", "recurrent", backend, options, group,
                (f"{group}, cell",) if backend != "cell" else (), measures=(GRADIENTS,),
            ))
    return result


@dataclasses.dataclass
class Program:
    """What a worker times.

    Attributes:
        functions: {measure: function () -> float}. The number can only be returned when the device
            has finished.
        products: the matmuls of the floor; empty if there is no floor.
        parameters: number of trained parameters.
        facts: {name: value} of what else the row says.
        moves: (rows that a step changes, of how many, units); None where they cost little.
        gradients: whether the floor has the products of both gradients, too.
        memory: whether memory is measured: not where another process does the work.
    """

    functions: dict
    products: list
    parameters: int
    facts: dict = dataclasses.field(default_factory=dict)
    moves: tuple | None = None
    gradients: bool = True
    memory: bool = True


def head(case, problem):
    """Loss of a head, with and without gradients and Adagrad's update; or evaluations."""
    from experiments.benchmarks import adaptive_evaluation
    from experiments.benchmarks.head_products import evaluated, moves_of, products_of
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.optimizers import Adagrad

    layer, facts = built_head(case, problem)
    if set(case.measures) <= set(adaptive_evaluation.EVALUATIONS):
        return Program(
            adaptive_evaluation.ours(layer, problem), [], parameters_of(layer), facts
        )
    labels = problem.labels()
    if case.measures == (NATS,):
        return Program({NATS: _nats(layer, problem)}, evaluated(layer, labels),
                       parameters_of(layer), facts, gradients=False)
    loss = SoftmaxLoss()
    functions = steps_of(
        case, problem, lambda hidden, labels: loss(labels, layer(hidden, training=True)),
        layer.trainable_variables, Adagrad,
    )
    return Program(functions, products_of(layer, labels), parameters_of(layer), facts,
                   moves_of(layer, labels) if STEP in case.measures else None)


def padded(case, problem):
    """A step with padding, label 0, that the loss leaves out, or of the other positions alone."""
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.optimizers import Adagrad
    from tfsoftmax.profiling.head_step import head_step

    options, loss = {**case.options}, SoftmaxLoss(ignore_class=0)
    is_alone = options.pop("way", None) is not None
    layer, facts = built_head(dataclasses.replace(case, options=options), problem)
    hidden, labels, functions = problem.hidden(), np.maximum(problem.labels(), 1), {}
    for measure, share in PADDED.items():
        kept = problem.kept(share)
        batch = (hidden[kept], labels[kept]) if is_alone else (hidden, np.where(kept, labels, 0))
        functions[measure] = head_step(
            lambda hidden, labels: loss(labels, layer(hidden, training=True)),
            layer.trainable_variables, *batch, functools.partial(Adagrad, LEARNING_RATE),
        )
    return Program(functions, [], parameters_of(layer), facts)


def _nats(layer, problem):
    """A function of the sum of the exact nats of all labels."""
    import tensorflow as tf

    hidden, labels = tf.constant(problem.hidden()), tf.constant(problem.labels())
    total = tf.function(lambda: -tf.reduce_sum(layer.log_prob(hidden, labels)))
    return lambda: float(total())


def built_head(case, problem):
    """The head of a case, and facts about it that were decided here."""
    from tfsoftmax.lm.head_options import HEADS, WordCounts, head_for, known_options
    from tfsoftmax.partitions import tree_builders

    options, facts, counts = dict(case.options), {}, problem.counts()
    kind = HEADS[case.head]
    if "levels" in options:
        nested = _nested(problem.vocab_size, options.pop("levels"))
        options["tree"] = tree_builders.from_nested(nested)
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
    words = problem.words() if "words" in known_options(kind).vocabulary else None
    layer = head_for(WordCounts(counts, words), kind, dtype=case.precision, **options)
    layer.build((problem.positions, problem.units))
    return layer, facts


def _nested(vocab_size, levels):
    """Nested lists of words with the same number of branches at each level."""
    fan_out = int(np.ceil(vocab_size ** (1 / levels)))
    nested = list(range(vocab_size))
    for _ in range(levels - 1):
        nested = [nested[i : i + fan_out] for i in range(0, len(nested), fan_out)]
    return nested


def steps_of(case, problem, loss, variables, adagrad):
    """{measure: function of one step}, where a step is compiled at its first call.

    Args:
        case: `Case`; of its measures, STEP updates the variables, GRADIENTS does not, and FORWARD
            is the loss alone.
        problem: `Problem`.
        loss: function (hidden, labels) -> scalar tensor.
        variables: list of the trained Keras variables.
        adagrad: class of the optimiser.
    """
    import tensorflow as tf

    from tfsoftmax.profiling.head_step import head_step

    hidden, labels = problem.hidden(), problem.labels()

    def function_of(measure):
        if measure == FORWARD:
            given = tf.constant(hidden), tf.constant(labels)
            forward = tf.function(lambda: loss(*given), jit_compile=case.jit)
            return lambda: float(forward())
        made = functools.partial(adagrad, LEARNING_RATE, **case.optimizer)
        return head_step(
            loss, variables, hidden, labels, made if measure == STEP else None, case.jit
        )

    return {measure: function_of(measure) for measure in case.measures}


def parameters_of(layer):
    """Number of trained parameters."""
    return int(sum(np.prod(v.shape) for v in layer.trainable_variables))


def recurrent(case, problem):
    """The forward pass and all gradients of recurrent layers over (B, T, D)."""
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

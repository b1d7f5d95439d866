"""Whole training steps of language models, and the parts of such steps by themselves."""

import dataclasses
import itertools

from experiments.benchmarks.cases import MODULES, PARTS, WHOLE
from experiments.benchmarks.floor import Product
from experiments.benchmarks.programs import Program, built_head, parameters_of


def training(case, problem):
    """A whole training step of a run of an experiment, on the batches of its corpus."""
    from experiments.framework import catalogue
    from tfsoftmax.corpora.pipeline import batches
    from tfsoftmax.runs.compiled import compiled_model

    module = catalogue.load(case.options["experiment"])
    run = next(run for run in module.RUNS if run.name == case.head)
    corpus = run.task.corpus.load(problem.data)
    model = compiled_model(*run.of_corpus(problem.data).configs(), corpus, run.task)
    model.make_train_function()
    steps = iter(batches(corpus, "train").repeat())
    return Program(
        {WHOLE: lambda: float(model.train_function(steps)["loss"])}, [], parameters_of(model)
    )


def whole(case, problem):
    """A training step of embedding, LSTM and head with Adagrad, and each of them by itself."""
    import keras
    import tensorflow as tf

    from experiments.benchmarks.head_products import products_of
    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.model import language_model
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.metrics import Perplexity
    from tfsoftmax.optimizers import Adagrad
    from tfsoftmax.vocabulary import EOS, UNK, Vocabulary

    keras.utils.set_random_seed(1)
    config = ModelConfig(head=case.head, head_options=case.options, embedding_units=problem.units,
                         hidden_units=problem.units, dropout=0.0, precision=case.precision)
    counts = problem.counts().astype("int64")
    vocabulary = Vocabulary([UNK, EOS, *map(str, range(2, len(counts)))], counts)
    model = language_model(config, vocabulary, problem.streams, problem.steps)
    optimizer = Adagrad(0.1, global_clipnorm=5.0)
    optimizer.build(model.trainable_variables)
    loss = SoftmaxLoss(reduction="sum_over_steps")
    model.compile(optimizer, loss, weighted_metrics=[Perplexity()],
                  jit_compile=case.jit or "auto")
    model.make_train_function()
    labels = tf.constant(problem.labels().reshape(problem.streams, problem.steps))
    words = tf.roll(labels, 1, 1)
    batch = itertools.repeat((words, labels, tf.ones(labels.shape)))
    dataset = iter(tf.data.Dataset.from_tensors(next(batch)).repeat())
    functions, products = {WHOLE: lambda: float(model.train_function(dataset)["loss"])}, []
    if set(PARTS) <= set(case.measures):
        functions.update(zip(PARTS, _parts(model, loss, optimizer, words, labels)))
    else:  # the floor is that of the whole step
        of_head = products_of(model.get_layer("head"), problem.labels())
        products = [*_lstm_products(problem), *of_head]
    return Program(functions, products, parameters_of(model), {"head": case.head})


def _lstm_products(problem):
    """The matmuls of an LSTM: of the inputs all at once, of the states step by step."""
    units = problem.units
    of_states = Product(problem.streams, units, 4 * units)
    return [Product(problem.positions, units, 4 * units), *[of_states] * problem.steps]


def modules(case, problem):
    """The gradients of an embedding, of a recurrent layer of any cell, and of a head."""
    import keras
    import tensorflow as tf

    from tfsoftmax.layers.embedding import Embedding
    from tfsoftmax.layers.recurrent import recurrent_layer
    from tfsoftmax.losses import SoftmaxLoss

    cell, units = case.options["cell"], problem.units
    if cell == "rnn":  # the library has none
        recurrent = keras.layers.SimpleRNN(units, return_sequences=True)
    else:
        recurrent = recurrent_layer(cell, units, return_sequences=True)
    head, _ = built_head(dataclasses.replace(case, options={}), problem)
    layers = Embedding(problem.vocab_size, units), recurrent, head
    labels = tf.constant(problem.labels().reshape(problem.streams, problem.steps))
    parts = _gradients(layers, SoftmaxLoss(), tf.roll(labels, 1, 1), labels)
    functions = {name: lambda f=f: float(f()[0]) for name, f in zip(MODULES, parts)}
    return Program(functions, [], sum(map(parameters_of, layers)))


def _parts(model, loss, optimizer, words, labels):
    """Functions for the gradients of embedding, recurrent layer and head, and for the update."""
    import tensorflow as tf

    layers = [model.get_layer(name) for name in ("embedding", "lstm_1", "head")]
    parts = _gradients(layers, loss, words, labels)
    gradients = {}
    for layer, function in zip(layers, parts):
        found = function()[1]
        gradients.update({v.path: g for v, g in zip(layer.trainable_variables, found)})

    @tf.function
    def update(gradients):
        optimizer.apply(gradients, model.trainable_variables)
        return optimizer.iterations.value

    ready = [gradients[v.path] for v in model.trainable_variables]
    finish = [lambda f=f: float(f()[0]) for f in parts]
    return [*finish, lambda: float(update(ready))]


def _gradients(layers, loss, words, labels):
    """For embedding, recurrent layer and head a function each: () -> (result, gradients)."""
    import tensorflow as tf

    embedding, recurrent, head = layers
    inputs = tf.constant(embedding(words))
    hidden = tf.constant(recurrent(inputs))

    def part(layer, value, total):
        @tf.function
        def step(value):
            with tf.GradientTape() as tape:
                if value.dtype.is_floating:
                    tape.watch(value)
                result = total(layer(value, training=True))
            sources = [w.value for w in layer.trainable_variables]
            sources += [value] if value.dtype.is_floating else []
            return result, tape.gradient(result, sources)

        return lambda: step(value)

    return [
        part(embedding, words, tf.reduce_sum), part(recurrent, inputs, tf.reduce_sum),
        part(head, hidden, lambda logits: loss(labels, logits)),
    ]

"""Whole training steps of language models, and the parts of such steps by themselves."""

import itertools

from experiments.benchmarks.cases import PARTS, WHOLE
from experiments.benchmarks.programs import Program, Words, parameters_of


def training(case, problem):
    """A whole training step of a run of an experiment, on the batches of its corpus."""
    from experiments import catalogue
    from tfsoftmax.corpora.pipeline import batches
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.lm.compiled import compiled_model

    module = catalogue.load(case.options["experiment"])
    run = next(run for run in module.RUNS if run.name == case.head)
    corpus = Corpus.load(problem.data)
    model = compiled_model(*run.of_corpus(problem.data).configs(), corpus)
    model.make_train_function()
    steps = iter(batches(corpus, "train").repeat())
    return Program(
        {WHOLE: lambda: float(model.train_function(steps)["loss"])}, [], parameters_of(model)
    )


def whole(case, problem):
    """A training step of embedding, LSTM and head with Adagrad, and each of them by itself."""
    import keras
    import tensorflow as tf

    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.model import language_model
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.metrics import Perplexity
    from tfsoftmax.optimizers import Adagrad

    keras.utils.set_random_seed(1)
    config = ModelConfig(head=case.head, head_options=case.options, embedding_units=problem.units,
                         hidden_units=problem.units, dropout=0.0, precision=case.precision)
    vocabulary = Words(problem.counts())
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
    functions = {WHOLE: lambda: float(model.train_function(dataset)["loss"])}
    if set(PARTS) <= set(case.measures):
        functions.update(zip(PARTS, _parts(model, loss, optimizer, words, labels)))
    return Program(functions, [], parameters_of(model), {"head": case.head})


def _parts(model, loss, optimizer, words, labels):
    """Functions for the gradients of embedding, recurrent layer and head, and for the update."""
    import tensorflow as tf

    embedding, recurrent, head = (model.get_layer(n) for n in ("embedding", "lstm_1", "head"))
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

    parts = [
        part(embedding, words, tf.reduce_sum), part(recurrent, inputs, tf.reduce_sum),
        part(head, hidden, lambda logits: loss(labels, logits)),
    ]
    layers = embedding, recurrent, head
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

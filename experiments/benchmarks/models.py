"""Whole training steps of models, and the parts of such steps by themselves."""

import dataclasses
import types

from experiments.benchmarks.cases import KERAS_MODEL, MODULES, PARTS, WHOLE, Case, options_of
from experiments.benchmarks.floor import Product
from experiments.benchmarks.problem import ATTENDED, ATTENTION_HEADS, BLOCKS
from experiments.benchmarks.programs import Program, built_head, parameters_of
from tfsoftmax.lm.head_names import HEAD_NAMES

TORCH_MODELS = types.MappingProxyType({
    body: f"PyTorch {body} and AdaptiveLogSoftmaxWithLoss"
    for body in ("LSTM", "Transformer", "bag of words")
})


def suite(vocab_size):
    """Whole training steps by body and head, in turn, against `Dense` and against PyTorch's."""

    def ours(body, head, group, peers, precision="float32", name=""):
        options = {"body": body, "head_options": options_of(head, vocab_size)}
        return Case(name or f"{body} and {HEAD_NAMES[head][0]}", "whole", head, options, group,
                    peers, precision, measures=(WHOLE,))

    def torch(body, group, precision="float32", name=""):
        options = {"body": body, "head_options": options_of("adaptive", vocab_size)}
        return Case(name or TORCH_MODELS[body], "torch_model", "adaptive", options, group,
                    precision=precision, measures=(WHOLE,))

    result = [Case(KERAS_MODEL, "keras_model", "dense", group="LSTM", measures=(WHOLE,))]
    for head in ("full", "adaptive", "class", "tree", "sampled"):
        result.append(ours("LSTM", head, "LSTM", (KERAS_MODEL,)))
    half, theirs = "mixed_bfloat16", f"{TORCH_MODELS['LSTM']}, bfloat16"
    name, single = "LSTM and AdaptiveSoftmax, bfloat16", "LSTM and AdaptiveSoftmax, float32"
    result += [ours("LSTM", "adaptive", half, (single, theirs), half, name),
               ours("LSTM", "adaptive", half, (TORCH_MODELS["LSTM"],), name=single),
               torch("LSTM", half, half, theirs), torch("LSTM", half)]
    for body in ("Transformer", "bag of words"):
        result += [ours(body, "adaptive", body, (TORCH_MODELS[body],)), torch(body, body)]
    return result


def parts_suite(vocab_size):
    """A whole training step of a language model, and each of its parts by itself."""
    return [
        Case(f"LSTM and {head}", "whole", head, {"head_options": options_of(head, vocab_size)},
             head, measures=(WHOLE, *PARTS))
        for head in ("full", "adaptive", "sampled", "tree", "class")
    ]


def hub_suite(_):
    """Fine-tuning a model of keras_hub with a head of ours, against its own loss."""
    result = []
    for note, jit in (("", False), (", XLA", True)):
        theirs = f"keras_hub's own loss{note}"
        result += [
            Case(f'with_head(causal_lm, "full"){note}', "keras_hub", "full", group="hub",
                 peers=(theirs,), jit=jit, measures=(WHOLE,)),
            Case(theirs, "keras_hub", group="hub", jit=jit, measures=(WHOLE,)),
        ]
    return result



def training(case, problem):
    """A whole training step of a run of an experiment, on the batches of its corpus."""
    from experiments.framework import catalogue
    from tfsoftmax.corpora.pipeline import batches
    from tfsoftmax.lm.compiled import compiled_model

    module = catalogue.load(case.options["experiment"])
    run = next(run for run in module.RUNS if run.name == case.head)
    corpus = run.task.corpus.load(problem.data)
    model = compiled_model(*run.of_corpus(problem.data).configs(), corpus, run.task)
    model.make_train_function()
    steps = iter(batches(corpus, "train").repeat())
    return Program(
        {WHOLE: lambda: float(model.train_function(steps)["loss"])}, [], parameters_of(model)
    )


def compiled(case, problem):
    """A model with Adagrad: the model, its inputs and labels, and its bare products."""
    import keras

    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.metrics import Perplexity
    from tfsoftmax.optimizers import Adagrad

    keras.utils.set_random_seed(1)
    model, inputs, labels, products = BODIES[case.options.get("body", "LSTM")](case, problem)
    optimizer = Adagrad(0.1, global_clipnorm=5.0)
    optimizer.build(model.trainable_variables)
    loss = SoftmaxLoss(reduction="sum_over_steps" if labels.ndim == 2 else "sum_over_batch_size")
    model.compile(optimizer, loss, weighted_metrics=[Perplexity()],
                  jit_compile=case.jit or "auto")
    return model, inputs, labels, products


def whole(case, problem):
    """A training step of a model with Adagrad, and each of its parts by itself if asked for."""
    import tensorflow as tf

    model, inputs, labels, products = compiled(case, problem)
    model.make_train_function()
    inputs, labels = tf.constant(inputs), tf.constant(labels)
    dataset = iter(tf.data.Dataset.from_tensors((inputs, labels, tf.ones(labels.shape))).repeat())
    functions = {WHOLE: lambda: float(model.train_function(dataset)["loss"])}
    if set(PARTS) <= set(case.measures):
        functions.update(zip(PARTS, _parts(model, inputs, labels)))
        products = []  # the parts show what the whole step consists of
    return Program(functions, products, parameters_of(model), {"head": case.head})


def _language_model(case, problem, shape, products, **config):
    """A language model over streams and steps: the model, its inputs, labels, and products."""
    from experiments.benchmarks.head_products import products_of
    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.model import language_model

    config = ModelConfig(
        head=case.head, head_options=case.options.get("head_options", {}), dropout=0.0,
        embedding_units=problem.units, hidden_units=problem.units, precision=case.precision,
        **config,
    )
    stateful = config.cell == "lstm"
    model = language_model(config, problem.vocabulary(), *shape, stateful=stateful)
    words, labels = problem.sequences(shape)
    of_head = products_of(model.get_layer("head"), problem.labels())
    return model, words, labels, [*products, *of_head]


def _lstm(case, problem):
    units, of_steps = problem.units, Product(problem.streams, problem.units, 4 * problem.units)
    products = [Product(problem.positions, units, 4 * units), *[of_steps] * problem.steps]
    return _language_model(case, problem, (problem.streams, problem.steps), products)


def _transformer(case, problem):
    units, shape = problem.units, (problem.positions // ATTENDED, ATTENDED)
    dense = [Product(problem.positions, units, columns) for columns in (4 * units, 8 * units)]
    attention = [Product(problem.positions, units, ATTENDED)] * 2  # of all heads together
    return _language_model(
        case, problem, shape, [*dense, *attention] * BLOCKS, cell="transformer", layers=BLOCKS,
        context=ATTENDED, attention_heads=ATTENTION_HEADS,
    )


def _bag_of_words(case, problem):
    """A classifier of texts by the mean of their words' embeddings."""
    import keras

    from experiments.benchmarks.head_products import products_of
    from tfsoftmax.layers.embedding import Embedding

    texts = problem.texts()
    words = keras.Input(texts.shape[1:], dtype="int32")
    rows = Embedding(problem.text_words, problem.units, dtype=case.precision)(words)
    hidden = keras.layers.GlobalAveragePooling1D(dtype=case.precision)(rows)
    options = case.options.get("head_options", {})
    head, _ = built_head(dataclasses.replace(case, options=options), problem)
    model = keras.Model(words, head(hidden))
    return model, texts, problem.labels(), products_of(head, problem.labels())


BODIES = {"LSTM": _lstm, "Transformer": _transformer, "bag of words": _bag_of_words}


def keras_hub(case, problem):
    """A step of fine-tuning a small Gemma, with keras_hub's own loss or with a head of ours."""
    import keras
    import keras_hub
    import numpy as np

    import tfsoftmax

    keras.utils.set_random_seed(1)
    backbone = keras_hub.models.GemmaBackbone(
        vocabulary_size=problem.vocab_size, num_layers=2, num_query_heads=4,
        num_key_value_heads=1, hidden_dim=problem.units, intermediate_dim=4 * problem.units,
        head_dim=problem.units // 4, final_logit_soft_cap=30.0, dtype=case.precision,
    )
    model = keras_hub.models.GemmaCausalLM(backbone)
    if case.head:
        model = tfsoftmax.hub.with_head(model, case.head)
    model.compile(keras.optimizers.Adam(2e-5), weighted_metrics=[], jit_compile=case.jit)
    words, labels = problem.sequences((problem.streams, problem.steps))
    inputs = {"token_ids": words, "padding_mask": np.ones(words.shape, bool)}
    step = {WHOLE: lambda: float(model.train_on_batch(inputs, labels))}
    return Program(step, [], int(model.count_params()))


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


def _parts(model, words, labels):
    """Functions for the gradients of embedding, recurrent layer and head, and for the update."""
    import tensorflow as tf

    layers = [model.get_layer(name) for name in ("embedding", "lstm_1", "head")]
    parts = _gradients(layers, model.loss, words, labels)
    gradients = {}
    for layer, function in zip(layers, parts):
        found = function()[1]
        gradients.update({v.path: g for v, g in zip(layer.trainable_variables, found)})

    @tf.function
    def update(gradients):
        model.optimizer.apply(gradients, model.trainable_variables)
        return model.optimizer.iterations.value

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

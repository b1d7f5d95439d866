"""Other libraries: Keras's Dense, tf.nn's sampled losses, PyTorch's full and adaptive softmax."""

import os

import numpy as np

from experiments.benchmarks import adaptive_evaluation
from experiments.benchmarks.cases import STEP, WHOLE
from experiments.benchmarks.floor import Product
from experiments.benchmarks.problem import ATTENDED, ATTENTION_HEADS, BLOCKS
from experiments.benchmarks.programs import LEARNING_RATE, Program, parameters_of, steps_of


def keras_dense(case, problem):
    """`Dense(V)` and cross-entropy from logits, with Keras's Adagrad."""
    import keras

    layer = keras.layers.Dense(problem.vocab_size, dtype=case.precision)
    layer.build((problem.positions, problem.units))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    functions = steps_of(
        case, problem, lambda hidden, labels: loss(labels, layer(hidden, training=True)),
        layer.trainable_variables, keras.optimizers.Adagrad,
    )
    return Program(functions, [], parameters_of(layer))


def keras_model(case, problem):
    """A training step of Keras's embedding, LSTM and `Dense(V)`, with its Adagrad."""
    import keras
    import tensorflow as tf

    shape, units = (problem.streams, problem.steps), problem.units
    words = keras.Input(shape[1:], shape[0], dtype="int32")
    hidden = keras.layers.Embedding(problem.vocab_size, units)(words)
    hidden = keras.layers.LSTM(units, return_sequences=True, stateful=True)(hidden)
    model = keras.Model(words, keras.layers.Dense(problem.vocab_size)(hidden))
    model.compile(
        keras.optimizers.Adagrad(LEARNING_RATE, global_clipnorm=5.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.make_train_function()
    labels = tf.constant(problem.labels().reshape(shape))
    data = iter(tf.data.Dataset.from_tensors((tf.roll(labels, 1, 1), labels)).repeat())
    step = {WHOLE: lambda: float(model.train_function(data)["loss"])}
    return Program(step, [], parameters_of(model))


def tf_nn(case, problem):
    """`tf.nn.sampled_softmax_loss` or `nce_loss` with their defaults, with Keras's Adagrad."""
    import keras
    import tensorflow as tf

    size, units, samples = problem.vocab_size, problem.units, case.options["num_samples"]
    layer = keras.layers.Embedding(size, units)  # only owns the variables
    kernel = layer.add_weight(shape=(size, units), initializer="glorot_uniform", name="kernel")
    bias = layer.add_weight(shape=(size,), initializer="zeros", name="bias")
    function = {"sampled": tf.nn.sampled_softmax_loss, "nce": tf.nn.nce_loss}[case.head]

    def loss(hidden, labels):
        return tf.reduce_mean(
            function(kernel.value, bias.value, labels[:, None], hidden, samples, size)
        )

    functions = steps_of(case, problem, loss, [kernel, bias], keras.optimizers.Adagrad)
    return Program(functions, [Product(problem.positions, units, samples)], size * (units + 1))


def pytorch(case, problem):
    """PyTorch's full softmax, whole or in chunks of positions, or its adaptive softmax."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    labels = torch.tensor(problem.labels(), dtype=torch.int64, device=device)
    if case.head == "adaptive":
        module = torch.nn.AdaptiveLogSoftmaxWithLoss(
            problem.units, problem.vocab_size, case.options["cutoffs"], div_value=4.0
        ).to(device)
        if set(case.measures) <= set(adaptive_evaluation.EVALUATIONS):
            return Program(
                adaptive_evaluation.pytorch(module, problem, device), [], _torch_size(module)
            )

        def losses(hidden):
            yield module(hidden, labels).loss
    else:
        module = torch.nn.Linear(problem.units, problem.vocab_size).to(device)
        rows = case.options.get("chunk", problem.positions)

        def losses(hidden):
            for start in range(0, problem.positions, rows):
                part = slice(start, start + rows)
                yield torch.nn.functional.cross_entropy(
                    module(hidden[part]), labels[part], reduction="sum"
                ) / problem.positions

    hidden = torch.tensor(problem.hidden(), device=device, requires_grad=True)
    functions = {
        measure: _torch_step(module, hidden, losses, measure == STEP) for measure in case.measures
    }
    return Program(functions, [], _torch_size(module))


def pytorch_model(case, problem):
    """A training step of a model of PyTorch with its adaptive softmax and Adagrad."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    layers, hidden_of, inputs, labels = TORCH_BODIES[case.options["body"]](problem)
    head = torch.nn.AdaptiveLogSoftmaxWithLoss(
        problem.units, problem.vocab_size, case.options["head_options"]["cutoffs"], div_value=4.0
    )
    layers = torch.nn.ModuleList([*layers, head]).to(device)
    optimizer = torch.optim.Adagrad(layers.parameters(), LEARNING_RATE)
    inputs, labels = (torch.tensor(a, dtype=torch.int64, device=device) for a in (inputs, labels))

    def step():
        with torch.autocast(device, torch.bfloat16, enabled=case.precision != "float32"):
            loss = head(hidden_of(inputs).reshape(-1, problem.units), labels.reshape(-1)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(layers.parameters(), 5.0)
        optimizer.step()
        value = float(loss.detach())
        optimizer.zero_grad()
        return value

    return Program({WHOLE: step}, [], _torch_size(layers))


def _torch_lstm(problem):
    import torch

    embedding = torch.nn.Embedding(problem.vocab_size, problem.units)
    recurrent = torch.nn.LSTM(problem.units, problem.units, batch_first=True)
    carried = [None]

    def hidden_of(words):
        hidden, state = recurrent(embedding(words), carried[0])
        carried[0] = [part.detach() for part in state]
        return hidden

    shape = problem.streams, problem.steps
    return [embedding, recurrent], hidden_of, *problem.sequences(shape)


def _torch_transformer(problem):
    import torch

    embedding = torch.nn.Embedding(problem.vocab_size, problem.units)
    block = torch.nn.TransformerEncoderLayer(
        problem.units, ATTENTION_HEADS, 4 * problem.units, dropout=0.0, activation="gelu",
        batch_first=True, norm_first=True, bias=False,
    )
    blocks = torch.nn.TransformerEncoder(
        block, BLOCKS, torch.nn.RMSNorm(problem.units), enable_nested_tensor=False
    )
    shape = problem.positions // ATTENDED, ATTENDED

    def hidden_of(words):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ATTENDED, words.device)
        return blocks(problem.units**0.5 * embedding(words), mask, is_causal=True)

    return [embedding, blocks], hidden_of, *problem.sequences(shape)


def _torch_bag_of_words(problem):
    import torch

    bag = torch.nn.EmbeddingBag(problem.text_words, problem.units)  # the mean of a text's words
    return [bag], bag, problem.texts(), problem.labels()


TORCH_BODIES = {
    "LSTM": _torch_lstm, "Transformer": _torch_transformer, "bag of words": _torch_bag_of_words,
}


def _torch_step(module, hidden, losses, update):
    import torch

    made = []

    def run():
        if update and not made:
            made.append(torch.optim.Adagrad(module.parameters(), LEARNING_RATE))
        total = 0.0
        for loss in losses(hidden):
            loss.backward()
            total += loss.detach()
        if update:
            made[0].step()
        value = float(total) + 0 * float(hidden.grad[0, 0])
        module.zero_grad()  # now, or the next run would free them and hide its own
        hidden.grad = None
        return value

    return run


def _torch_size(module):
    return int(sum(np.prod(p.shape) for p in module.parameters()))

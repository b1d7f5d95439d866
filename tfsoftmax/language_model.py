"""A recurrent language model as a Keras model: embedding, recurrent layers, head."""

import keras

from tfsoftmax.embedding import Embedding
from tfsoftmax.heads import HEADS
from tfsoftmax.recurrent import recurrent_layer


def language_model(config, vocabulary, streams, steps=None):
    """Builds a stateful language model whose weights are drawn from Keras's global seed.

    Dropout stands before, between and after the recurrent layers (Zaremba et al. 2014).
    Weight matrices start uniform in [-init_scale, init_scale], biases at zero.

    Args:
        config: `ModelConfig`.
        vocabulary: `Vocabulary` of V words, whose counts some heads want too.
        streams: B, sentences read side by side; their states are carried from batch to batch.
        steps: T, or None for any number of steps.

    Returns:
        A functional `keras.Model` from words (B, T) int32 to logits (B, T, V). Its last layer,
        `head`, is the `SoftmaxHead`, and `model.get_layer("head").input` the hidden states.

    Source: Müller 2017, section 4.3 and table 4.5.
    """
    if config.head not in HEADS:
        raise ValueError(f"`head` must be one of {', '.join(HEADS)}. Received: {config.head!r}")
    policy = keras.DTypePolicy(config.precision)

    def uniform():
        return keras.initializers.RandomUniform(-config.init_scale, config.init_scale)

    words = keras.Input(batch_shape=(streams, steps), dtype="int32", name="words")
    embedding = Embedding(
        len(vocabulary), config.embedding, embeddings_initializer=uniform(), dtype=policy,
        name="embedding",
    )
    hidden = embedding(words)
    hidden = keras.layers.Dropout(config.dropout, dtype=policy, name="dropout_0")(hidden)
    forget_bias = {"unit_forget_bias": config.unit_forget_bias} if config.cell == "lstm" else {}
    for i in range(1, config.layers + 1):
        hidden = recurrent_layer(
            config.cell, config.hidden, config.backend, return_sequences=True, stateful=True,
            kernel_initializer=uniform(), recurrent_initializer=uniform(), dtype=policy,
            name=f"{config.cell}_{i}", **forget_bias,
        )(hidden)
        hidden = keras.layers.Dropout(config.dropout, dtype=policy, name=f"dropout_{i}")(hidden)
    options = {"tied_to": embedding} if config.tie_embeddings else {"kernel_initializer": uniform()}
    try:
        head = HEADS[config.head].for_vocabulary(
            vocabulary, dtype=policy, name="head", **{**options, **config.head_options}
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`head_options` must be arguments of {HEADS[config.head].__name__}: {error}. "
            f"Received: {config.head_options}"
        ) from None
    return keras.Model(words, head(hidden), name="language_model")


def recurrent_states(model):
    """The variables that hold the states of the model's recurrent layers."""
    return [state for layer in model.layers for state in getattr(layer, "states", None) or []]


def reset_states(model):
    """Sets the states of all recurrent layers to zero."""
    for state in recurrent_states(model):
        state.assign(keras.ops.zeros_like(state))

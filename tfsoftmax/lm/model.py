"""A language model as a Keras model: embedding, recurrent layers or a Transformer, head."""

import contextlib

import keras

from tfsoftmax.layers.dropout import Dropout
from tfsoftmax.layers.embedding import Embedding
from tfsoftmax.layers.names import TRANSFORMER
from tfsoftmax.layers.recurrent import recurrent_layer
from tfsoftmax.layers.transformer import TransformerBlock
from tfsoftmax.lm.config import ModelConfig
from tfsoftmax.lm.head_options import HEADS, head_for, known_options, tied_embedding
from tfsoftmax.ngrams.previous_word import PreviousWord
from tfsoftmax.support.arguments import check_positive, checks_arguments, expect, refusal
from tfsoftmax.support.vocabulary import Vocabulary


@checks_arguments
def language_model(
    config: ModelConfig, vocabulary: Vocabulary, streams: int | None,
    time_steps: int | None = None, stateful: bool = True,
) -> keras.Model:
    """Builds a language model whose weights are drawn from Keras's global seed.

    Dropout is applied before, between and after the recurrent layers (Zaremba et al. 2014). A
    Transformer multiplies the embeddings by the root of their units (Vaswani et al. 2017, section
    3.4), drops out units of these and of both branches of each block, and normalises what the last
    block returns. The state that it carries is the keys and values of the last words. All weight
    matrices, projections too, start uniform in [-init_scale, init_scale], and biases at zero,
    except for the forget bias with `unit_forget_bias`.

    Args:
        config: `ModelConfig`.
        vocabulary: `Vocabulary` of V words, whose counts some heads use too.
        streams: B, sentences read in parallel; None for any number, if not stateful.
        time_steps: T, or None for any number.
        stateful: whether states are carried from batch to batch; else they begin at zero.

    Returns:
        A functional `keras.Model` from words (B, T) int32 to logits (B, T, V). Its last layer,
        `head`, is the `SoftmaxHead`, and `model.get_layer("head").input` the hidden states.

    Source: Müller 2017, section 4.3 and table 4.5.
    """
    check_positive(streams=streams, time_steps=time_steps)
    check_head(config)
    policy = keras.DTypePolicy(config.precision)
    words = keras.Input(batch_shape=(streams, time_steps), dtype="int32", name="words")
    embedding, head_options = embedding_and_options(config, vocabulary)
    body = _transformer if config.cell == TRANSFORMER else _recurrent_layers
    hidden = body(config, embedding(words), policy, stateful)
    logits = head_logits(config, vocabulary, head_options, hidden, words)
    return keras.Model(words, logits, name="language_model")


def _recurrent_layers(config, hidden, policy, stateful):
    """The outputs (B, T, H) of the recurrent layers for embeddings (B, T, D)."""
    hidden = Dropout(config.dropout, dtype=policy, name="dropout_0")(hidden)
    for i in range(1, config.layers + 1):
        layer = recurrent(config, f"{config.cell}_{i}", stateful=stateful)
        hidden = Dropout(config.dropout, dtype=policy, name=f"dropout_{i}")(layer(hidden))
    return hidden


def _transformer(config, hidden, policy, stateful):
    """The normalised outputs (B, T, H) of the last Transformer block for embeddings (B, T, H)."""
    root = config.hidden_units**0.5
    hidden = keras.layers.Rescaling(root, dtype=policy, name="scaled_embedding")(hidden)
    hidden = Dropout(config.dropout, dtype=policy, name="dropout_0")(hidden)
    for i in range(1, config.layers + 1):
        hidden = TransformerBlock(
            config.hidden_units, config.attention_heads, config.context, config.dropout,
            uniform(config), return_sequences=True, stateful=stateful, dtype=policy,
            name=f"{config.cell}_{i}",
        )(hidden)
    return keras.layers.RMSNormalization(dtype=policy, name="norm")(hidden)


def check_head(config: ModelConfig) -> None:
    """Raises ValueError if there is no such head."""
    if config.head not in HEADS:
        raise refusal("head", f"be one of {', '.join(HEADS)}", received=f"{config.head!r}")


def uniform(config: ModelConfig) -> keras.initializers.Initializer:
    """A new initializer of weight matrices."""
    return keras.initializers.RandomUniform(-config.init_scale, config.init_scale)


def recurrent(config: ModelConfig, name: str, **options) -> keras.layers.Layer:
    """A recurrent layer of the configuration, which returns the outputs of all steps."""
    forget_bias = {"unit_forget_bias": config.unit_forget_bias} if config.cell == "lstm" else {}
    return recurrent_layer(
        config.cell, config.hidden_units, config.backend, return_sequences=True,
        kernel_initializer=uniform(config), recurrent_initializer=uniform(config),
        dtype=keras.DTypePolicy(config.precision), name=name, **forget_bias, **options,
    )


def embedding_and_options(config: ModelConfig, vocabulary: Vocabulary) -> tuple:
    """The layer `embedding`, and the options of the head, which may be tied to it."""
    head, units, options = HEADS[config.head], config.hidden_units, config.head_options
    given = {
        "embeddings_initializer": uniform(config), "name": "embedding",
        "dtype": keras.DTypePolicy(config.precision),
    }
    expect("tied_to" not in options, "head_options",
           "not have `tied_to`; set `tie_embeddings` instead", received=f"{options}")
    if config.tie_embeddings or "characters" in options:
        name, option = "embedding", "tie_embeddings"
        if not config.tie_embeddings:
            name = option = "characters"
        with _named_options(config):
            tied = tied_embedding(head, vocabulary, units, options, **{**given, "name": name})
        expect(tied is not None, option,
               "be given with a head that has a score for each word, or adaptive softmax",
               received=f"head={config.head!r}")
        if config.tie_embeddings:
            return tied
        options = tied[1]
    return Embedding(len(vocabulary), config.embedding_units, **given), options


def head_logits(config: ModelConfig, vocabulary: Vocabulary, options: dict, hidden, words):
    """The logits of the layer `head`, for the hidden states after reading words (B, T)."""
    policy = keras.DTypePolicy(config.precision)
    kind = HEADS[config.head]
    matrices = {name: uniform(config) for name in known_options(kind).matrices}
    with _named_options(config):
        head = head_for(vocabulary, kind, dtype=policy, name="head", **(matrices | options))
    if head.reads_previous_word:
        hidden = PreviousWord(dtype=policy, name="previous_word")([hidden, words])
    return head(hidden)


@contextlib.contextmanager
def _named_options(config):
    """Names `head_options` in the error where the head refuses one of its options."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise refusal("head_options", f"be arguments of {HEADS[config.head].__name__}: "
                      f"{str(error).rpartition('() ')[2]}",
                      received=f"{config.head_options}") from None


def split_at_head(model: keras.Model, vocabulary):
    """Splits a language model into its head and a model from words to the head's input.

    Returns:
        The head, and a `keras.Model` that shares the other layers.

    Raises:
        ValueError: the model has another number of words than the vocabulary.
    """
    head = model.get_layer("head")
    expect(head.vocab_size == len(vocabulary), "vocabulary",
           f"have as many words as the model, {head.vocab_size}", received=f"{vocabulary!r}")
    return head, keras.Model(model.input, head.input)


def context_of(model: keras.Model) -> dict[str, int]:
    """How many words before a word each layer attends to, as {"context": C}; {} if none does."""
    blocks = [layer for layer in model.layers if isinstance(layer, TransformerBlock)]
    return {"context": min(block.context for block in blocks)} if blocks else {}


def recurrent_states(model: keras.Model) -> list[keras.Variable]:
    """The variables that hold the states of the model's recurrent layers or Transformer blocks."""
    return [state for layer in model.layers for state in getattr(layer, "states", None) or []]


def reset_states(model: keras.Model) -> None:
    """Sets the states of all recurrent layers to zero."""
    for state in recurrent_states(model):
        state.assign(keras.ops.zeros_like(state))

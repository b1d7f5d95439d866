"""An encoder-decoder with attention as a Keras model, which ends in any head."""

import keras
import tensorflow as tf

from tfsoftmax.layers.dropout import Dropout
from tfsoftmax.layers.names import CELLS
from tfsoftmax.lm import model as lm_model
from tfsoftmax.pairs.config import Seq2SeqConfig
from tfsoftmax.support.arguments import check_positive, checks_arguments, refusal
from tfsoftmax.support.vocabulary import Vocabulary


@checks_arguments
def encoder_decoder(
    config: Seq2SeqConfig, vocabulary: Vocabulary, pairs: int | None = None
) -> keras.Model:
    """Builds a model that reads a source and predicts each next word of its target.

    With s_j the encoder's output at word j of the source, and h_t the decoder's after it has read
    the target up to word t, beginning with `<eos>`:

        a_tj = softmax over j of score(h_t, s_j), zero where the source is padded
        c_t  = Σ_j a_tj s_j
        h̃_t = tanh(W [c_t; h_t]), which is the hidden state that the head reads

        score(h, s) = hᵀ W_a s                   (luong; `general` in the paper)
        score(h, s) = vᵀ tanh(W_1 h + W_2 s)     (bahdanau)

    The decoder begins with the states that each layer of the encoder has after the last word of the
    source. Source and target share one vocabulary and one embedding. Dropout is applied where
    `language_model` applies it, on both sides, and to h̃. Matrices start as they do there.

    Args:
        config: `Seq2SeqConfig`.
        vocabulary: `Vocabulary` of V words, whose counts some heads use too.
        pairs: B, the number of pairs in a batch; None for any number.

    Returns:
        A functional `keras.Model` from (source (B, S), words (B, T)), int32, to logits (B, T, V).
        The source ends with `<eos>`, and what follows the first one is not read. The last layer,
        `head`, is the `SoftmaxHead`.

    Source: Luong et al. 2015, equations 5, 7 and 8; Bahdanau et al. 2015, whose score is used with
        h_t where the paper has h_{t-1}, so that all steps of the decoder are computed before they
        attend. The architecture is that of Shen et al. 2017, section 5.2, which names no equation.
    """
    check_positive(pairs=pairs)
    lm_model.check_head(config)
    if config.cell not in CELLS:
        raise refusal("cell", f"be one of {', '.join(CELLS)} for pairs of texts", config.cell)
    policy = keras.DTypePolicy(config.precision)
    source, words = (
        keras.Input(batch_shape=(pairs, None), dtype="int32", name=name)
        for name in ("source", "words")
    )
    mask = real_words(source, vocabulary.eos_id)
    embedding, head_options = lm_model.embedding_and_options(config, vocabulary)

    def drop(hidden, name):
        return Dropout(config.dropout, dtype=policy, name=name)(hidden)

    hidden, states = drop(embedding(source), "source_dropout_0"), []
    for i in range(1, config.layers + 1):
        layer = lm_model.recurrent(config, f"encoder_{i}", return_state=True)
        hidden, *last = layer(hidden, mask=mask)
        hidden = drop(hidden, f"source_dropout_{i}")
        states.append(last)
    memory, hidden = hidden, drop(embedding(words), "dropout_0")
    for i, last in enumerate(states, start=1):
        layer = lm_model.recurrent(config, f"decoder_{i}", return_state=True)
        hidden, *_ = layer(hidden, initial_state=last)
        hidden = drop(hidden, f"dropout_{i}")
    context, _ = _attend(config, hidden, memory, mask)
    hidden = keras.layers.Concatenate(dtype=policy, name="context_and_state")([context, hidden])
    hidden = drop(_projection(config, "attentional", activation="tanh")(hidden), "dropout_head")
    logits = lm_model.head_logits(config, vocabulary, head_options, hidden, words)
    return keras.Model((source, words), logits, name="encoder_decoder")


def real_words(source: tf.Tensor, eos_id: int) -> tf.Tensor:
    """Marks the words of sources and the `<eos>` after each, but not the padding behind.

    Args:
        source: int (B, S), sources of batches, or Keras's symbol for them. No text contains
            `<eos>` itself.
        eos_id: the id of `<eos>`.

    Returns:
        bool (B, S). Each row begins with at least one True, also that of an empty pair.
    """
    ends = keras.ops.cast(keras.ops.equal(source, eos_id), "int32")
    return keras.ops.equal(keras.ops.cumsum(ends, axis=1) - ends, 0)


def encoder_and_decoder_models(model: keras.Model) -> tuple[keras.Model, keras.Model]:
    """Splits an encoder-decoder into the part that reads a source and that which writes.

    Returns:
        The encoder, from source (B, S) to what the decoder needs: the encoder's outputs, their
        projections for attention, and the states of each layer. The decoder, from (source, words,
        all of these) to the head's input (B, T, D), the attention (B, T, S), and the states after
        the last word, all in one list. They share the layers of the model.
    """
    source, words = model.inputs
    layers = {layer.name: layer for layer in model.layers}
    count = sum(name.startswith("encoder_") for name in layers)
    encoders, decoders = (
        [layers[f"{part}_{i}"].output for i in range(1, count + 1)]
        for part in ("encoder", "decoder")
    )
    memory = [layers[f"source_dropout_{count}"].output, layers["keys"].output]
    before = [state for _, *states in encoders for state in states]
    after = [state for _, *states in decoders for state in states]
    _, attention = layers["attention"].output
    head_input = layers["head"].input
    encoder = keras.Model(source, [*memory, *before], name="encoder")
    decoder = keras.Model(
        [source, words, *memory, *before], [head_input, attention, *after], name="decoder"
    )
    return encoder, decoder


def _attend(config, hidden, memory, mask):
    """The contexts (B, T, H) of the decoder's states, and the attention (B, T, S)."""
    policy = keras.DTypePolicy(config.precision)
    keys = _projection(config, "keys")(memory)
    if config.attention == "luong":
        query, attention = hidden, keras.layers.Attention(dtype=policy, name="attention")
    else:
        query = _projection(config, "queries")(hidden)
        attention = keras.layers.AdditiveAttention(dtype=policy, name="attention")
    return attention([query, memory, keys], mask=[None, mask], return_attention_scores=True)


def _projection(config, name, activation=None):
    return keras.layers.Dense(
        config.hidden_units, activation, use_bias=False, name=name,
        kernel_initializer=lm_model.uniform(config), dtype=keras.DTypePolicy(config.precision),
    )

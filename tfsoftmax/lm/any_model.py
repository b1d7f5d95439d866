"""The model that a configuration describes: a language model or an encoder-decoder."""

import keras

from tfsoftmax.lm.config import ModelConfig, Seq2SeqConfig
from tfsoftmax.lm.model import language_model
from tfsoftmax.seq2seq.model import encoder_decoder
from tfsoftmax.vocabulary import Vocabulary


def model_of(
    config: ModelConfig, vocabulary: Vocabulary, rows: int | None, time_steps: int | None = None,
    stateful: bool = True,
) -> keras.Model:
    """Builds the model of a configuration.

    Args:
        config: a `ModelConfig`, or a `Seq2SeqConfig` for pairs of texts.
        vocabulary: the `Vocabulary`.
        rows: the number of streams or of pairs in a batch; None for any number.
        time_steps, stateful: arguments of `language_model`. An encoder-decoder takes texts of any
            lengths, and carries no states from one batch to the next.
    """
    if isinstance(config, Seq2SeqConfig):
        return encoder_decoder(config, vocabulary, rows)
    return language_model(config, vocabulary, rows, time_steps, stateful)

"""What a run on pairs of texts trains: an encoder-decoder."""

from tfsoftmax.lm.tasks import Task
from tfsoftmax.pairs.config import Seq2SeqConfig
from tfsoftmax.pairs.corpus import PairCorpus


def _encoder_decoder(config, vocabulary, rows, time_steps=None, stateful=True):
    from tfsoftmax.pairs.model import encoder_decoder

    return encoder_decoder(config, vocabulary, rows)


PAIRS = Task(PairCorpus, Seq2SeqConfig, _encoder_decoder)

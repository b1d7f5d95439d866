"""What a run on pairs of texts trains: an encoder-decoder."""

from tfsoftmax.lm.tasks import Task
from tfsoftmax.pairs.config import Seq2SeqConfig
from tfsoftmax.pairs.corpus import PairCorpus
from tfsoftmax.pairs.model import encoder_decoder

PAIRS = Task(
    PairCorpus, Seq2SeqConfig,
    lambda config, vocabulary, rows, time_steps=None, stateful=True:
        encoder_decoder(config, vocabulary, rows),
)

"""Trains an encoder-decoder with attention, which ends in any head.

    tfsoftmax train_pairs --data=data/pairs --run=runs/pairs --preset=demo
    tfsoftmax train_pairs --data=data/gigaword --run=runs/shen --preset=shen --head=self_organised

You may stop it at any time: the same command continues from the last checkpoint, as tfsoftmax train
does, whose help says more of runs, devices and TensorBoard. The encoder and the decoder have as
many recurrent layers, which the same flags describe. tfsoftmax evaluate_pairs, summarise and
export_pairs use the result. A flag that is given together with a preset takes precedence over it.
The presets are
- demo: trains for minutes
- shen: Shen et al. 2017, section 5.2
"""

from tfsoftmax.commands import train
from tfsoftmax.pairs.config import Seq2SeqConfig
from tfsoftmax.pairs.presets import PRESETS


def define_flags():
    train.define_training(Seq2SeqConfig, PRESETS)


def main():
    from tfsoftmax.pairs.corpus import PairCorpus

    train.train(PairCorpus, Seq2SeqConfig, PRESETS, _task)


def _task():
    from tfsoftmax.pairs.task import PAIRS

    return PAIRS

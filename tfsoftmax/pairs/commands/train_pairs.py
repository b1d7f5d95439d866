"""Trains an encoder-decoder with attention, which ends in any head.

    tfsoftmax train_pairs --data=data/pairs --run=runs/pairs --preset=demo
    tfsoftmax train_pairs --data=data/gigaword --run=runs/shen --preset=shen

You may stop it at any time: the same command continues from the last checkpoint, as with tfsoftmax
train; its help says more about runs, devices and TensorBoard. The encoder and the decoder have the
same number of recurrent layers, which the same flags describe. tfsoftmax evaluate_pairs, summarise
and export_pairs use the result. Other flags take precedence over a preset. The presets are
- demo: trains for a few minutes
- shen: Shen et al. 2017, section 5.2
"""

import dataclasses

from tfsoftmax.commands import train
from tfsoftmax.commands.shared import Devices
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.pairs.config import Seq2SeqConfig
from tfsoftmax.pairs.presets import PRESETS


@dataclasses.dataclass(frozen=True)
class TrainOptions(train.TrainOptions):
    """Corpus and run.

    Attributes:
        data: Directory of a corpus that `tfsoftmax prepare_pairs` made.
    """

    PRESETS = PRESETS
    CHOICES = {"preset": tuple(PRESETS)}


def main(
    options: TrainOptions, model_config: Seq2SeqConfig, config: TrainingConfig, devices: Devices
):
    from tfsoftmax.pairs.task import PAIRS

    train.train(options, model_config, config, devices, PAIRS)

"""Softmax output layers for large vocabularies, and a language-model toolkit built on them.

Importing the package registers every layer, loss, metric and optimiser with Keras, so that saved
models load. The `tfsoftmax` program imports only the modules that a command needs, so that
`--help` does not wait for TensorFlow.
"""

import importlib
import os
import sys

from tfsoftmax.support.version import __version__ as __version__


def _require_tensorflow(backend):
    if backend != "tensorflow":
        raise ImportError(
            '`KERAS_BACKEND` must be "tensorflow", the only backend of Keras that tfsoftmax runs '
            f"on. Received: KERAS_BACKEND={backend!r}"
        )


_NEED_EXTRAS = {"hub": "tfsoftmax.hub", "search": "tfsoftmax.retrieval.search"}


def __getattr__(name):
    if name in _NEED_EXTRAS:  # imported when they are used
        return importlib.import_module(_NEED_EXTRAS[name])
    raise AttributeError(f"module 'tfsoftmax' has no attribute {name!r}")


# This comes before the import of Keras, which fails if the chosen backend is not installed.
_require_tensorflow(os.environ.get("KERAS_BACKEND") or "tensorflow")

if "tfsoftmax_command" in sys.modules:
    os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever Keras's configuration file chooses
else:
    import keras

    _require_tensorflow(keras.backend.backend())  # Keras's configuration file may choose it too

    from tfsoftmax import (
        corpora,
        heads,
        layers,
        lm,
        losses,
        metrics,
        nbest,
        ops,
        optimizers,
        pairs,
        partitions,
        profiling,
        runs,
        samplers,
        survey,
    )
    from tfsoftmax.heads import *  # noqa: F403
    from tfsoftmax.heads.reassign import Reassign
    from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
    from tfsoftmax.layers.character_embedding import CharacterEmbedding
    from tfsoftmax.layers.embedding import Embedding
    from tfsoftmax.layers.recurrent import GRU, LSTM, SimpleRNN
    from tfsoftmax.layers.transformer import TransformerBlock
    from tfsoftmax.lm.advice import advise
    from tfsoftmax.lm.config import ModelConfig
    from tfsoftmax.lm.head_options import HEADS
    from tfsoftmax.lm.model import language_model
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.metrics import (
        ClusterPerplexity,
        EffectiveSampleSize,
        InClusterPerplexity,
        Normaliser,
        Perplexity,
    )
    from tfsoftmax.pairs.config import Seq2SeqConfig
    from tfsoftmax.pairs.model import encoder_decoder
    from tfsoftmax.profiling.monitor import TrainingMonitor
    from tfsoftmax.retrieval import export_retrieval
    from tfsoftmax.retrieval.catalogue import move_items, with_items
    from tfsoftmax.retrieval.hard_negatives import HardNegatives, MineHardNegatives
    from tfsoftmax.retrieval.item_tower import ItemTower
    from tfsoftmax.sharding import checkpoints as sharded_checkpoints
    from tfsoftmax.sharding.embedding import ShardedEmbedding
    from tfsoftmax.support.mends import mend_keras
    from tfsoftmax.support.vocabulary import Vocabulary
    from tfsoftmax.survey import *  # noqa: F403

    __all__ = [
        "GRU", "HEADS", "LSTM", "AdaptiveEmbedding", "CharacterEmbedding", "ClusterPerplexity",
        "EffectiveSampleSize", "Embedding", "HardNegatives", "InClusterPerplexity", "ItemTower",
        "MineHardNegatives", "ModelConfig", "Normaliser", "Perplexity", "Reassign", "Seq2SeqConfig",
        "ShardedEmbedding", "SimpleRNN", "SoftmaxLoss", "TrainingMonitor", "TransformerBlock",
        "Vocabulary", "advise", "corpora", "encoder_decoder", "export_retrieval", "heads",
        "language_model", "layers", "lm", "losses", "mend_keras", "metrics", "move_items", "nbest",
        "ops", "optimizers", "pairs", "partitions", "profiling", "runs", "samplers",
        "sharded_checkpoints", "survey", "with_items",
    ]
    __all__ += heads.__all__ + survey.__all__

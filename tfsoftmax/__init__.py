"""Softmax output layers for large vocabularies, and the language models that prove them.

Importing the package registers every layer, loss, metric and optimiser with Keras, so that saved
models load. Only the `tfsoftmax` program, which should answer `--help` at once, goes without.
"""

import sys

__version__ = "0.1.0"

if "tfsoftmax_command" not in sys.modules:
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
        partitions,
        profiling,
        samplers,
        vocabulary,
    )
    from tfsoftmax.heads import *  # noqa: F403
    from tfsoftmax.heads.reassign import Reassign
    from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
    from tfsoftmax.layers.embedding import Embedding
    from tfsoftmax.layers.recurrent import GRU, LSTM
    from tfsoftmax.lm.model import language_model
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.metrics import (
        ClusterPerplexity,
        EffectiveSampleSize,
        InClusterPerplexity,
        Normaliser,
        Perplexity,
    )
    from tfsoftmax.profiling.monitor import TrainingMonitor
    from tfsoftmax.vocabulary import Vocabulary

    __all__ = [
        "GRU", "LSTM", "AdaptiveEmbedding", "ClusterPerplexity", "EffectiveSampleSize",
        "Embedding", "InClusterPerplexity", "Normaliser", "Perplexity", "Reassign",
        "SoftmaxLoss", "TrainingMonitor", "Vocabulary", "corpora", "heads", "language_model",
        "layers", "lm", "losses", "metrics", "nbest", "ops", "optimizers", "partitions",
        "profiling", "samplers", "vocabulary",
    ]
    __all__ += heads.__all__

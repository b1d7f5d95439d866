"""What a run is: model and training as frozen, validated data, from which flags derive.

No TensorFlow here, so that `--help` answers at once.
"""

import dataclasses
import math

from tfsoftmax.layers.names import BACKENDS, CELLS

PRECISIONS = ("float32", "mixed_bfloat16")
OPTIMIZERS = ("adagrad", "sgd", "adam")


def option(default, help, choices=None):
    """A dataclass field with the help text, and the choices, of its flag."""
    metadata = {"help": help, "choices": choices}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Embedding, recurrent layers and head. The vocabulary and the batch come from the corpus."""

    head: str = option("full", "output layer: a name in tfsoftmax.heads.HEADS")
    head_options: dict = option({}, 'arguments of the head as JSON, e.g. {"soft_cap": 30}')
    embedding_units: int = option(512, "units of the input embedding")
    hidden_units: int = option(512, "units of each recurrent layer")
    layers: int = option(1, "number of recurrent layers")
    cell: str = option("lstm", "recurrent cell", CELLS)
    backend: str = option(
        "auto", "how the recurrence is computed; the weights are the same", BACKENDS
    )
    unit_forget_bias: bool = option(False, "start the LSTM's forget bias at one instead of zero")
    dropout: float = option(0.25, "rate of dropout before, between and after recurrent layers")
    init_scale: float = option(0.1, "weight matrices start uniform in [-init_scale, init_scale]")
    tie_embeddings: bool = option(
        False, "use the input embedding as the kernel of the head: those with a score a word, and "
        "adaptive softmax; needs embedding_units = hidden_units"
    )
    precision: str = option("float32", "Keras dtype policy of all layers", PRECISIONS)

    def __post_init__(self):
        _check_choices(self)
        for name in ("embedding_units", "hidden_units", "layers"):
            _check(getattr(self, name) >= 1, name, "must be at least 1", self)
        _check(0 <= self.dropout < 1, "dropout", "must lie in [0, 1)", self)
        _check(self.init_scale > 0, "init_scale", "must be positive", self)
        if self.unit_forget_bias:
            _check(self.cell == "lstm", "unit_forget_bias", "needs cell='lstm'", self)
        if self.tie_embeddings:
            _check(
                self.embedding_units == self.hidden_units, "tie_embeddings",
                f"needs embedding_units = hidden_units, not {self.embedding_units} and {self.hidden_units}", self,
            )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Optimisation and bookkeeping of one run."""

    optimizer: str = option("adagrad", "optimiser, from tfsoftmax.optimizers", OPTIMIZERS)
    learning_rate: float = option(0.2, "learning rate at the start")
    initial_accumulator: float = option(0.1, "Adagrad's accumulators start here")
    momentum: float = option(0.0, "momentum of SGD")
    decay: float = option(0.5, "factor on the learning rate when validation does not improve")
    decay_when: float = option(
        0.0, "decay when validation perplexity fell by no more than this since the last time"
    )
    clip_norm: float = option(0.25, "norm that gradients are clipped to; 0 for no clipping")
    clip: str = option("global", "norm of all gradients, or of each variable's", ("global", "variable"))
    reduce: str = option(
        "stream",
        "loss: nats summed over the steps and averaged over the streams, for which the papers' "
        "learning rates and norms are meant; or averaged over tokens, as Keras does",
        ("stream", "token"),
    )
    epochs: int = option(10, "passes over the training split")
    pseudo_epochs: int = option(1, "parts of an epoch, each ending with a validation")
    max_steps: int = option(0, "stop after so many steps; 0 for no limit")
    checkpoint_steps: int = option(200, "steps between checkpoints; also one at each validation")
    log_steps: int = option(10, "steps between lines of metrics.jsonl and TensorBoard")
    reassign_steps: int = option(
        1000, "head=self_organised: steps after which words choose their clusters anew"
    )
    pretrained: str = option("", "GloVe or word2vec text file to start the input embedding from")
    seed: int = option(1, "of initial weights, dropout and samples")

    # What may change between the start of a run and its continuation.
    EXTENSIBLE = ("epochs", "max_steps", "checkpoint_steps", "log_steps")

    def __post_init__(self):
        _check_choices(self)
        for name in ("epochs", "pseudo_epochs", "checkpoint_steps", "log_steps", "reassign_steps"):
            _check(getattr(self, name) >= 1, name, "must be at least 1", self)
        _check(self.learning_rate > 0, "learning_rate", "must be positive", self)
        _check(0 < self.decay <= 1, "decay", "must lie in (0, 1]", self)
        for name in ("clip_norm", "max_steps", "initial_accumulator", "momentum"):
            _check(getattr(self, name) >= 0, name, "must not be negative", self)
        if self.momentum:
            _check(self.optimizer == "sgd", "momentum", "needs optimizer='sgd'", self)
        _check(self.momentum <= 1, "momentum", "must lie in [0, 1]", self)
        _check(0 <= self.seed < 2**32, "seed", "must lie in [0, 2**32)", self)


PRESETS = {
    # Three minutes on two cores with the docstrings corpus.
    "demo": {
        "cell": "lstm", "layers": 1, "hidden_units": 128, "embedding_units": 128, "optimizer": "adagrad",
        "learning_rate": 0.5, "init_scale": 0.1, "clip_norm": 5.0, "dropout": 0.0,
        "reduce": "stream", "epochs": 2, "pseudo_epochs": 3,
    },
    # Müller 2017, table 4.5.
    "text8": {
        "cell": "lstm", "layers": 1, "hidden_units": 512, "embedding_units": 512, "optimizer": "adagrad",
        "learning_rate": 0.2, "decay": 0.5, "init_scale": 0.1, "clip_norm": 0.25, "dropout": 0.25,
        "reduce": "stream",
    },
    "fdt": {
        "cell": "lstm", "layers": 1, "hidden_units": 2048, "embedding_units": 512, "optimizer": "sgd",
        "learning_rate": 2.0, "decay": 1.0, "init_scale": 0.05, "clip_norm": 1.0, "dropout": 0.0,
        "reduce": "stream",
    },
}


# Names in `config.json` until November 2026, and what they are called now.
RENAMED = {
    "model": {"embedding": "embedding_units", "hidden": "hidden_units"},
    "training": {"embeddings": "pretrained"},
    "corpus": {"steps": "time_steps"},
}


def with_todays_names(config):
    """The contents of a run's `config.json`, whatever version of the toolkit wrote them."""
    return {
        part: {RENAMED[part].get(name, name): value for name, value in fields.items()}
        if part in RENAMED and isinstance(fields, dict) else fields
        for part, fields in config.items()
    }


def _check_choices(config):
    for field in dataclasses.fields(config):
        value, choices = getattr(config, field.name), field.metadata["choices"]
        if isinstance(value, float):
            _check(math.isfinite(value), field.name, "must be finite", config)
        if choices:
            _check(
                getattr(config, field.name) in choices, field.name,
                f"must be one of {', '.join(choices)}", config,
            )


def _check(condition, name, expectation, config):
    if not condition:
        raise ValueError(f"`{name}` {expectation}. Received: {name}={getattr(config, name)!r}")

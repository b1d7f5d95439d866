"""The settings of a run, model and training: frozen dataclasses, from which flags derive.

This module does not import TensorFlow, so that `--help` answers at once. The help of a flag is
what the docstring says of its attribute.
"""

import dataclasses

from tfsoftmax.layers.names import BACKENDS, CELLS, TRANSFORMER
from tfsoftmax.lm.head_names import HEAD_NAMES
from tfsoftmax.support.arguments import check_hint, expect
from tfsoftmax.support.conditions import needs, needs_above

MOST_LAYERS = 1000  # each of which makes the graph larger
OPTIMIZERS = ("adagrad", "sgd", "adam", "adamw")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The embedding, the body and the output layer (head) of a language model.

    The corpus decides the vocabulary and the size of a batch.

    Attributes:
        head: Output layer, one of the names in `tfsoftmax.HEADS`; `tfsoftmax heads` says what each
            is.
        head_options: Arguments of the output layer, in a flag as JSON, e.g. {"soft_cap": 30}, or
            {"characters": {...}} with the arguments of a CharacterEmbedding that computes its rows.
        embedding_units: Units of the input embedding.
        hidden_units: Units of each layer.
        layers: Number of layers.
        cell: Cell of recurrent layers, rnn being the vanilla RNN with tanh; or blocks of a causal
            Transformer, which need embedding_units = hidden_units.
        attention_heads: With cell=transformer: number of heads. hidden_units must be a multiple of
            twice this number.
        context: With cell=transformer: how many words before a word each layer attends to.
        backend: How the recurrence is computed: by Keras's loop (cell), by cuDNN, by our own loop
            (fused), or as suits the machine (auto). The weights do not depend on it.
        unit_forget_bias: Start the LSTM's forget bias at one instead of zero.
        dropout: Dropout rate before, between and after the recurrent layers; or of the embeddings
            and of both branches of each Transformer block.
        init_scale: Weight matrices start uniformly distributed in [-init_scale, init_scale].
        tie_embeddings: Use the input embedding as the kernel of the output layer, which must have
            a score for each word, or be adaptive. Needs embedding_units = hidden_units.
        precision: Keras dtype policy of all layers. mixed_bfloat16 saves time where the hardware
            multiplies bfloat16, and costs time elsewhere.

    Raises:
        ValueError: a field is out of its range.

    Example:
        options = {"cutoffs": [2]}
        config = tfsoftmax.ModelConfig(head="adaptive", head_options=options)
        vocabulary = tfsoftmax.Vocabulary(["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4])
        model = tfsoftmax.language_model(config, vocabulary, streams=2)
    """

    CHOICES = {
        "cell": (*CELLS, TRANSFORMER), "backend": BACKENDS,
        "precision": ("float32", "mixed_bfloat16"),
    }
    NEEDS = {
        "attention_heads": needs("cell", TRANSFORMER), "context": needs("cell", TRANSFORMER),
        "backend": needs("cell", *CELLS),
    }

    head: str = "full"
    head_options: dict = dataclasses.field(default_factory=dict)
    embedding_units: int = 512
    hidden_units: int = 512
    layers: int = 1
    cell: str = "lstm"
    attention_heads: int = 8
    context: int = 128
    backend: str = "auto"
    unit_forget_bias: bool = False
    dropout: float = 0.25
    init_scale: float = 0.1
    tie_embeddings: bool = False
    precision: str = "float32"

    def __post_init__(self):
        _check_fields(self)
        for name in ("embedding_units", "hidden_units", "layers", "attention_heads", "context"):
            _check(getattr(self, name) >= 1, name, "be at least 1", self)
        for name in ("embedding_units", "hidden_units", "context"):
            _check(getattr(self, name) < 1 << 31, name, "be less than 2**31", self)
        _check(self.layers <= MOST_LAYERS, "layers", f"be at most {MOST_LAYERS}", self)
        _check(0 <= self.dropout < 1, "dropout", "lie in [0, 1)", self)
        _check(0 < self.init_scale <= 1000, "init_scale", "lie in (0, 1000]", self)
        if self.unit_forget_bias:
            _check(self.cell == "lstm", "unit_forget_bias", "be False unless cell='lstm'", self)
        same_units = self.embedding_units == self.hidden_units
        needed = f"have embedding_units = hidden_units, not {self.embedding_units} and " \
                 f"{self.hidden_units}"
        if self.tie_embeddings:
            _check(same_units, "tie_embeddings", needed, self)
        if self.cell == TRANSFORMER:
            _check(same_units, "cell", needed, self)
            _check(
                self.hidden_units % (2 * self.attention_heads) == 0, "hidden_units",
                f"be a multiple of twice attention_heads, {2 * self.attention_heads}", self,
            )

    def with_head_options(self, options: dict) -> "ModelConfig":
        """The same configuration with some options of the head set to other values."""
        return dataclasses.replace(self, head_options={**self.head_options, **options})


# The text of `--help` names them.
ModelConfig.__doc__ = (ModelConfig.__doc__ or "").replace(
    " the names in `tfsoftmax.HEADS`;", f" {', '.join(HEAD_NAMES)};",
)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """The optimisation of a run and what it records.

    Attributes:
        optimizer: Optimiser, from tfsoftmax.optimizers.
        learning_rate: Learning rate at the start, or after warming up.
        schedule: What lowers the learning rate: a validation without a gain, by the factor decay;
            or a cosine or linear curve to zero at the last step.
        warmup_steps: Steps in which the learning rate rises from zero.
        initial_accumulator: Initial value of Adagrad's accumulators.
        accumulator: Accumulators for weights, or for rows of weights.
        momentum: Momentum of SGD.
        weight_decay: Share of each weight that a step subtracts, times the learning rate. Rows of
            words without a gradient do not decay.
        weight_decay_on: The weights that decay.
        decay: Factor on the learning rate when perplexity does not fall.
        decay_when: Decay the learning rate if perplexity falls by at most this.
        decay_after: Decay it after this epoch and each later one, too; 0: never.
        decay_at: Compare perplexities for the decay after each epoch, as in the thesis, or at each
            validation.
        clip_norm: Norm that gradients are clipped to; 0 for no clipping.
        clip: Clip by the norm of all gradients together, or of each variable's gradient.
        reduce: The loss: nats summed over time steps and averaged over streams, as in the papers,
            or averaged over tokens, as in Keras.
        epochs: Passes over the training split.
        patience: Stop after so many epochs without a new best result; 0: never.
        min_delta: How much perplexity must fall to count as a new best.
        pseudo_epochs: Number of parts of an epoch. A validation ends each part.
        valid_steps: Steps between two further validations; 0 for none.
        max_steps: Number of steps after which training stops; 0 for no limit.
        checkpoint_steps: Steps between two checkpoints, besides validations.
        log_steps: Steps between two lines of metrics.jsonl and of TensorBoard.
        reassign_steps: Steps after which words of self_organised choose new clusters.
        pretrained: GloVe or word2vec text file of initial input vectors.
        seed: Seed of the initial weights, of dropout and of samples.

    Raises:
        ValueError: a field is out of its range.

    Example:
        from tfsoftmax.lm import config
        from tfsoftmax.runs import training
        model = config.ModelConfig(hidden_units=128, embedding_units=128)
        short = config.TrainingConfig(learning_rate=0.5, clip_norm=5.0, max_steps=20)
        finished = training.train("data/docstrings", "runs/short", model, short)
    """

    CHOICES = {
        "optimizer": OPTIMIZERS, "accumulator": ("element", "row"),
        "clip": ("global", "variable"), "reduce": ("stream", "token"),
        "decay_at": ("epoch", "validation"), "weight_decay_on": ("all", "recurrent"),
        "schedule": ("validation", "cosine", "linear"),
    }
    NEEDS = {
        "initial_accumulator": needs("optimizer", "adagrad"),
        "accumulator": needs("optimizer", "adagrad"),
        "reassign_steps": needs("head", "self_organised"),
        "weight_decay_on": needs_above("weight_decay", 0), "clip": needs_above("clip_norm", 0),
        "decay_at": needs("schedule", "validation"),
        "decay": needs("schedule", "validation"), "decay_when": needs("schedule", "validation"),
        "decay_after": needs("schedule", "validation"),
        "warmup_steps": needs("schedule", "cosine", "linear"),
    }
    # The fields that may change between the start of a run and its continuation.
    EXTENSIBLE = ("epochs", "patience", "min_delta", "max_steps", "checkpoint_steps", "log_steps")

    optimizer: str = "adagrad"
    learning_rate: float = 0.2
    schedule: str = "validation"
    warmup_steps: int = 0
    initial_accumulator: float = 0.1
    accumulator: str = "element"
    momentum: float = 0.0
    weight_decay: float = 0.0
    weight_decay_on: str = "all"
    decay: float = 0.5
    decay_when: float = 0.0
    decay_after: int = 0
    decay_at: str = "epoch"
    clip_norm: float = 0.25
    clip: str = "global"
    reduce: str = "stream"
    epochs: int = 10
    patience: int = 0
    min_delta: float = 0.0
    pseudo_epochs: int = 1
    valid_steps: int = 0
    max_steps: int = 0
    checkpoint_steps: int = 200
    log_steps: int = 10
    reassign_steps: int = 1000
    pretrained: str = ""
    seed: int = 1

    def __post_init__(self):
        _check_fields(self)
        for name in ("epochs", "pseudo_epochs", "checkpoint_steps", "log_steps", "reassign_steps"):
            _check(getattr(self, name) >= 1, name, "be at least 1", self)
        _check(0 < self.learning_rate <= 1e6, "learning_rate", "lie in (0, 1e6]", self)
        _check(0 < self.decay <= 1, "decay", "lie in (0, 1]", self)
        for name in (
            "clip_norm", "max_steps", "initial_accumulator", "momentum", "weight_decay", "patience",
            "min_delta", "warmup_steps", "valid_steps", "decay_after",
        ):
            _check(getattr(self, name) >= 0, name, "be at least 0", self)
        _check(
            self.weight_decay * self.learning_rate <= 1, "weight_decay",
            f"be at most 1 / learning_rate, {1 / self.learning_rate:g}", self,
        )
        if self.warmup_steps:
            curve = self.schedule != "validation"
            _check(curve, "warmup_steps", "be zero unless schedule is cosine or linear", self)
        if self.momentum:
            _check(self.optimizer == "sgd", "momentum", "be zero unless optimizer='sgd'", self)
        if self.min_delta:
            _check(self.patience > 0, "min_delta", "be zero without patience", self)
        _check(self.momentum <= 1, "momentum", "lie in [0, 1]", self)
        _check(0 <= self.seed < 2**32, "seed", "lie in [0, 2**32)", self)


def _check_fields(config):
    for field in dataclasses.fields(config):
        name, value = field.name, getattr(config, field.name)
        check_hint(name, value, field.type)
        if field.type is int:
            object.__setattr__(config, name, int(value))  # NumPy's integers are not JSON
        if choices := config.CHOICES.get(name):
            _check(value in choices, name, f"be one of {', '.join(choices)}", config)


def _check(condition, name, rule, config):
    expect(condition, name, rule, getattr(config, name))

"""Language models of keras_hub with a tfsoftmax head, tied to their embedding.

keras_hub's models end by scoring all words at all positions, (B, T, V). With V = 256,000 these
logits, and what their gradient needs, take more memory than most models. The heads train without
them. This module needs `pip install keras-hub`; `import tfsoftmax` does not import it.
"""

import keras

from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.lm.head_options import HEADS
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.metrics import Perplexity
from tfsoftmax.support._compat import call_of
from tfsoftmax.support.arguments import expect

try:
    import keras_hub
except ImportError as error:
    raise ImportError(
        "tfsoftmax.hub needs keras_hub. Install it by `pip install keras-hub`."
    ) from error


@keras.saving.register_keras_serializable(package="tfsoftmax")
class HeadedCausalLM(keras_hub.models.CausalLM):
    """A `CausalLM` whose `fit` and `evaluate` use a tfsoftmax head; `with_head` makes it.

    It shares all weights with the `causal_lm` that it was made from, and uses its preprocessor and
    its `generate`. Its logits are those of `causal_lm`, up to rounding. To load a saved one in
    another process, import `tfsoftmax.hub` first; as with every task of keras_hub, `compile` it
    again if its own defaults do not suit. `save_to_preset` saves `causal_lm`.

    Args:
        causal_lm: a `keras_hub.models.CausalLM`.
        head: name of the head in `tfsoftmax.HEADS`.
        options: arguments of the head.
        **kwargs: arguments of `keras_hub.models.Task` (compile, name).

    Attributes:
        causal_lm: the model that it was made from.
        head: the head.

    Example:
        import keras_hub
        backbone = keras_hub.models.GPT2Backbone(1000, 2, 2, 16, 32, max_sequence_length=8)
        model = tfsoftmax.hub.with_head(keras_hub.models.GPT2CausalLM(backbone))
        assert isinstance(model, tfsoftmax.hub.HeadedCausalLM)
        inputs = {"token_ids": [[4, 2, 9]], "padding_mask": [[1, 1, 1]]}
        logits = model.predict(keras.tree.map_structure(keras.ops.array, inputs))  # (1, 3, 1000)
    """

    def __init__(
        self, causal_lm: keras_hub.models.CausalLM, head: str, options: dict | None = None, **kwargs
    ):
        self.backbone, self.preprocessor = causal_lm.backbone, causal_lm.preprocessor
        self.causal_lm = causal_lm
        self.head_name, self.options = head, dict(options or {})
        embedding, hidden = _end_of(causal_lm)
        self.head = _tied_head(embedding, head, self.options)
        super().__init__(inputs=causal_lm.input, outputs=self.head(hidden), **kwargs)

    def compile(
        self, optimizer="auto", loss="auto", *, weighted_metrics="auto", sampler="auto", **kwargs
    ):
        """As in `keras_hub.models.CausalLM`; "auto" is `SoftmaxLoss` and `Perplexity` here."""
        super().compile(
            optimizer=optimizer,
            loss=SoftmaxLoss() if loss == "auto" else loss,
            weighted_metrics=[Perplexity()] if weighted_metrics == "auto" else weighted_metrics,
            sampler=getattr(self.causal_lm, "sampler", "top_k") if sampler == "auto" else sampler,
            **kwargs,
        )
        self.causal_lm.sampler = self.sampler

    def generate_step(self, inputs: dict, stop_token_ids: tuple | None = None) -> dict:
        """The step of `causal_lm`."""
        return self.causal_lm.generate_step(inputs, stop_token_ids)

    def save_to_preset(self, preset_dir: str, **kwargs) -> None:
        """Saves `causal_lm`, which keras_hub alone can load."""
        self.causal_lm.save_to_preset(preset_dir, **kwargs)

    def get_config(self):
        return {
            "causal_lm": keras.saving.serialize_keras_object(self.causal_lm),
            "head": self.head_name,
            "options": keras.saving.serialize_keras_object(self.options),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config):
        parts = {k: keras.saving.deserialize_keras_object(config[k]) for k in config if k in (
            "causal_lm", "options"
        )}
        return cls(**{**config, **parts})


def with_head(
    causal_lm: keras_hub.models.CausalLM, head: str = "full", **options
) -> HeadedCausalLM:
    """A `CausalLM` whose training never has the logits of all words at all positions in memory.

    Args:
        causal_lm: a `keras_hub.models.CausalLM` that ends by calling its embedding in reverse,
            such as `GPT2CausalLM`, `GemmaCausalLM` or `LlamaCausalLM`. The result shares its
            weights, so training the result also trains `causal_lm`.
        head: name of the head in `tfsoftmax.HEADS`: "full", which trains the same loss as
            keras_hub, "sampled" or another one whose kernel may be tied to an embedding.
        **options: arguments of the head. Its kernel, its cap and its dtype are those of the model.

    Returns:
        A compiled `HeadedCausalLM`.

    Raises:
        ValueError: if the model does not end in this way, or the head does not fit it.

    Example:
        import keras_hub
        backbone = keras_hub.models.GPT2Backbone(1000, 2, 2, 16, 32, max_sequence_length=8)
        model = tfsoftmax.hub.with_head(keras_hub.models.GPT2CausalLM(backbone), "full")
        tokens = keras.random.randint((4, 9), 0, 1000)
        inputs = {"token_ids": tokens[:, :-1], "padding_mask": keras.ops.ones((4, 8))}
        model.fit(inputs, tokens[:, 1:])
    """
    return HeadedCausalLM(causal_lm, head, options)


def _end_of(causal_lm):
    """The embedding whose reverse call the model ends with, and its input, the hidden state."""
    operation, inputs = call_of(causal_lm.output)
    expect(
        isinstance(operation, keras.layers.Embedding), "causal_lm",
        "end by calling its embedding in reverse",
        received=f"{type(causal_lm).__name__}, which ends with {type(operation).__name__}",
    )
    return operation, inputs[0]


def _tied_head(embedding, name, options):
    """The head, built: its distribution is that of the embedding's reverse call."""
    fit = [each for each, head in HEADS.items() if issubclass(head, LinearHead)]
    expect(name in fit, "head", f"be one of {fit}", name)
    given = {"use_bias", "soft_cap", "tied_to", "dtype"} & set(options)
    expect(not given, "options", f"leave {sorted(given)} to the model", options)
    policy = embedding.dtype_policy
    taken = {"dtype": policy if policy.quantization_mode is None else policy.compute_dtype}
    if getattr(embedding, "reverse_dtype", None) is not None:
        taken["dtype"] = embedding.reverse_dtype
    if getattr(embedding, "logit_soft_cap", None) is not None and HEADS[name] is HEADS["full"]:
        taken["soft_cap"] = embedding.logit_soft_cap
    return HEADS[name](
        embedding.input_dim, tied_to=embedding, use_bias=False, name="head", **taken, **options
    )

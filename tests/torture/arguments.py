"""Bad arguments: every option of every head, sampler, optimiser, loss, metric and layer."""

import inspect
import math

import keras
import numpy as np

import tfsoftmax
from cases import CASES, ONE_OF_EACH, UNITS, counts, needed, positions
from tfsoftmax import HEADS, optimizers
from tfsoftmax.ngrams.backoff import BackoffBigrams
from tfsoftmax.ngrams.counts import Bigrams
from tfsoftmax.samplers import SAMPLERS

from .cases import Case

V = 13
HIDDEN, LABELS = positions(V, 6)


def bigrams(vocab_size):
    """A bigram model of a vocabulary."""
    text = np.arange(3 * vocab_size) % vocab_size
    counted = Bigrams.count([(text[:-1], text[1:])], vocab_size)
    return BackoffBigrams.from_counts(counted, np.bincount(text))


BAD = {
    bool: ["no", "False", 2, None, [], 0.5],
    int: [-1, 0, 1.5, math.nan, math.inf, "3", None, True, [2], 10**12, np.float32(2.5)],
    float: [-1.0, math.nan, math.inf, -math.inf, "0.1", None, True, [0.1], 1e39, 1j],
    "counts": [[], [1] * (V - 1), [-1] * V, [math.nan] * V, [math.inf] * V, "13", [[1] * V],
               [0] * V, ["a"] * V, 3],
    "permutation": [[], [0] * V, range(V + 1), [-1, *range(1, V)], "names", 3, [0.5] * V],
    "cutoffs": [[], [0], [V], [5, 3], [2.5], ["2"], "many", -1, None, [math.nan], [[1, 2]]],
    "units": [[], [1], [0, 1, 2], ["a"] * 3, 3, [math.nan] * 3, [1.5, 2, 3]],
    "shares": [[], [2.0, 2.0], [-1, 0.5], [math.nan] * 2, "half", 0.5],
    "sampler": ["", "zipf", 3, None, dict, "Unigram"],
    "sampler_options": [{"alhpa": 1}, {"alpha": "x"}, {"alpha": math.nan}, 3, {"unique": "no"}],
    "tree": ["", "oak", 3, [[]], {}, "no/such/file", [[0, 1], [0]], {"children": []}],
    "classes": ["", "odd", 3, [0] * 3, [-1] * V, [0.5] * V, "no/such/file", [V] * V],
    "keep_by": ["", "scores", 3, None, [], True], "binning": ["", "equal", 3, None, [], True],
    "ngram": ["", "no/such/file", 3, [], {}, True, [[0.1] * V] * V, {"log_unigram": 3},
              bigrams(V - 1), bigrams(V).to_config() | {"words": [V] * V},
              bigrams(V).to_config() | {"starts": [3, 0]},
              bigrams(V).to_config() | {"log_seen": ["a"]},
              bigrams(V).to_config() | {"log_backoff": [math.nan] * V}],
    "words": ["abc", ["a"] * V, 3, [1] * V],
    "mode": ["", "serial", None, 3],
    "activation": ["", "relux", 3],
    "Z": ["", "big", 0, -1, math.nan, math.inf, [1]],
    "tail_log_probs": [[], [math.nan] * V, [math.inf] * V, "a", [0.0] * (V + 1)],
    "tied_to": ["embedding", 3, keras.layers.Dense(3), keras.layers.Embedding(5, UNITS),
                keras.layers.Embedding(V, 3)],
    "initializer": ["", "gloriot", 3, math.nan],
    "regularizer": ["", "l3", 3], "constraint": ["", "nonneg", 3],
}
KINDS = {"clusters": "classes",
         "kernel_initializer": "initializer", "bias_initializer": "initializer",
         "projection_initializer": "initializer", "kernel_regularizer": "regularizer",
         "bias_regularizer": "regularizer", "kernel_constraint": "constraint",
         "bias_constraint": "constraint"}
SAMPLER_NEEDS = {"counts": counts, "ngram": bigrams}


def parameters(cls):
    """{name: type of its values, or of what BAD calls it} of a constructor."""
    found = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        text = inspect.formatannotation(parameter.annotation).removesuffix(" | None")
        kind = KINDS.get(name) or {"bool": bool, "int": int, "float": float}.get(text, name)
        if kind in BAD:
            found[name] = kind, "None" in str(parameter.annotation)
    return found


def is_allowed(kind, value, optional):
    """Whether a value is none of the bad ones after all."""
    if value is None:
        return optional
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if kind is float and not isinstance(value, complex):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and (
            math.isfinite(value)
        )
    return False


def named(option):
    """What an error about an option must name; Keras names an identifier by its kind."""
    inner = "|`alpha`|`unique`|Unrecognized keyword arguments" * (option == "sampler_options")
    return rf"`?{option}{inner}|Could not interpret [\w ]+ identifier: "


def head_case(name, option, value, kind, optional):
    def run():
        head = HEADS[name](**({"vocab_size": V} | needed(name, V) | {option: value}))
        nats = head.training_loss(HIDDEN, LABELS)
        exact = head.log_prob(HIDDEN, LABELS)
        if not (np.isfinite(nats).all() and np.isfinite(exact).all()):
            return "silent: the loss is not finite"
        if not is_allowed(kind, value, optional) and kind in (bool, int, float):
            return f"silent: {option}={value!r} was taken"
        keras.saving.serialize_keras_object(head)
        return None

    return Case(f"{name}({option}={value!r})", "options of heads", run, named(option))


def other_case(group, cls, arguments, option, value, kind, optional, use):
    def run():
        use(cls(**(arguments | {option: value})))
        if not is_allowed(kind, value, optional) and kind in (bool, int, float):
            return f"silent: {option}={value!r} was taken"
        return None

    return Case(f"{cls.__name__}({option}={value!r})", group, run, named(option))


def option_cases():
    for name, head in HEADS.items():
        found = parameters(head)
        for option, (kind, optional) in found.items():
            for value in BAD[kind]:
                if option == "seed" and isinstance(value, int):
                    continue  # any integer is a seed
                yield head_case(name, option, value, kind, optional)
    for sampler in SAMPLERS.values():
        arguments = {"vocab_size": V}
        found = parameters(sampler)
        arguments |= {name: make(V) for name, make in SAMPLER_NEEDS.items() if name in found}
        for option, (kind, optional) in found.items():
            for value in BAD[kind]:
                yield other_case(
                    "options of samplers", sampler, arguments, option, value, kind, optional,
                    _draw,
                )


def _draw(sampler):
    if sampler.units:
        sampler.sample_for_each(LABELS, 5, (1, 2), before=LABELS)
    else:
        given = isinstance(sampler, tfsoftmax.samplers.InBatch)
        sampler.sample(LABELS, None if given else 5, (1, 2))


def label_values():
    rng = np.random.default_rng(7)
    for value in (-1, V, -100, 2**31 - 1, -(2**31), 10**6):
        yield np.where(np.arange(6) == 3, value, LABELS)
    yield from (LABELS + 0.5, np.full(6, np.nan), np.full(6, np.inf), LABELS > 3)
    yield LABELS.astype(str)
    yield from (LABELS[:3], LABELS[:, None, None], np.eye(V)[LABELS], None, "labels", [], {}, 1j)
    yield from (rng.integers(-5, 20, 6), rng.normal(size=6), LABELS.astype(complex))


def hidden_values():
    yield from (HIDDEN[:, :3], HIDDEN[0, 0], HIDDEN.astype(complex), HIDDEN.astype(str), None, "h",
                [], {}, HIDDEN[None, None, :, :3], np.zeros((6, 0)), np.zeros((0, 3)), HIDDEN[:2])


def call_cases():
    methods = ("training_loss", "log_prob", "loss_and_nats")
    for case in ONE_OF_EACH:
        for method in methods:
            more = [np.ones(6, np.float32)] if method == "loss_and_nats" else []

            def run(hidden, labels, case=case, method=method, more=more):
                head = CASES[case](V)
                head.build((None, UNITS))
                result = getattr(head, method)(hidden, labels, *more)
                result = result[0] if method == "loss_and_nats" else result
                return None if np.isfinite(result).all() else "silent: the result is not finite"

            for i, labels in enumerate(label_values()):
                yield Case(
                    f"{case}.{method}, labels {i}: {labels!r}", "labels",
                    lambda labels=labels, run=run: run(HIDDEN, labels), "`labels`",
                )
            for i, hidden in enumerate(hidden_values()):
                yield Case(
                    f"{case}.{method}, hidden {i}", "hidden states",
                    lambda hidden=hidden, run=run: run(hidden, LABELS), "`hidden`|`labels`",
                )
        for k in (0, -1, V + 1, 2.5, True, None, "3", math.nan, [3]):
            yield Case(
                f"{case}.top_k(k={k!r})", "k",
                lambda k=k, case=case: CASES[case](V).top_k(HIDDEN, k) and "silent: k was taken",
                "`k`",
            )


def keras_cases():
    for name in ("Adagrad", "SGD", "Adam", "AdamW"):
        for option, values in {
            "learning_rate": BAD[float], "clipnorm": BAD[float], "global_clipnorm": BAD[float],
            "weight_decay": BAD[float], "gradient_accumulation_steps": BAD[int],
        }.items():
            for value in values:
                yield other_case(
                    "options of optimisers", getattr(optimizers, name), {}, option, value,
                    int if "steps" in option else float, True, one_step,
                )
    for value in ("average", 3, [], "MEAN"):
        yield other_case("losses and metrics", tfsoftmax.SoftmaxLoss, {}, "reduction", value,
                         "reduction", False, lambda loss: None)
    for cls in (tfsoftmax.SoftmaxLoss, tfsoftmax.Perplexity, tfsoftmax.metrics.Accuracy):
        for value in ("no", 1.5, math.nan, [3], True):
            yield other_case("losses and metrics", cls, {}, "ignore_class", value, int, True,
                             lambda made: None)
    for value in BAD[int]:
        yield other_case("losses and metrics", tfsoftmax.metrics.TopKAccuracy, {}, "k", value, int,
                         False, lambda metric: None)
    for option in ("input_dim", "output_dim"):
        for value in BAD[int]:
            yield other_case(
                "embeddings", tfsoftmax.AdaptiveEmbedding,
                {"input_dim": V, "output_dim": UNITS, "cutoffs": [4]}, option, value, int, False,
                lambda layer: layer(LABELS),
            )


def one_step(optimizer):
    variable = keras.Variable(np.ones((3, 2), np.float32))
    optimizer.build([variable])
    optimizer.apply([keras.ops.ones((3, 2))], [variable])


def cases():
    """All of them, in a fixed order."""
    return [*option_cases(), *call_cases(), *keras_cases()]

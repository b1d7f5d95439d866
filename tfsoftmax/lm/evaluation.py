"""Evaluates a model exactly on a split: each token counts once, and states are carried on."""

import math
import time
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from tqdm import tqdm

from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm.model import recurrent_states, reset_states
from tfsoftmax.metrics import ClusterPerplexity, InClusterPerplexity, Perplexity


def exact_evaluator(
    model: keras.Model, metrics: Sequence[keras.metrics.Metric] = ()
) -> Callable[..., dict]:
    """Makes a function that evaluates a model on the splits of corpora.

    The recurrent states are zero at the start of a split; afterwards they are restored.

    Args:
        model: a stateful model that `language_model` built for the streams and steps of the
            corpora.
        metrics: further metrics to measure in the same pass, such as `Normaliser()`.

    Returns:
        A function `evaluate(corpus, split, progress=False, stopped=None)` that may be called many
        times. It asks the function `stopped` before each batch, and returns None once that is
        true. Else it returns a dictionary: `perplexity`; `nats_per_token`; `tokens`, the words
        and one `<eos>` for each sentence; `oov_tokens`, how many of them are `<unk>`;
        `words_per_second`; and the results of `metrics`.
    """
    metric = Perplexity()

    @tf.function(reduce_retracing=True, autograph=False)
    def step(words, next_words, weights):
        logits = model(words, training=False)
        for each in (metric, *metrics):
            each.update_state(next_words, logits, weights)

    def evaluate(corpus, split, progress=False, stopped=None):
        before = [tf.identity(state.value) for state in recurrent_states(model)]
        reset_states(model)
        for each in (metric, *metrics):
            each.reset_state()
        dataset = batches(corpus, split)
        step.get_concrete_function(*dataset.element_spec)  # traced before the clock starts
        start = time.perf_counter()
        interrupted = False
        for batch in tqdm(dataset, desc=split, unit="batch", leave=False, disable=not progress):
            if interrupted := stopped is not None and stopped():
                break
            step(*batch)
        seconds = time.perf_counter() - start
        for state, value in zip(recurrent_states(model), before, strict=True):
            state.assign(value)
        if interrupted:
            return None
        nats, tokens = float(metric.nats.value), float(metric.tokens.value)
        return {
            **perplexity_and_nats(nats / tokens),
            "tokens": round(tokens),
            "oov_tokens": corpus.split(split).oov,
            "words_per_second": round(tokens / seconds, 1),
            **{k: float(v) for each in metrics for k, v in _results(each).items()},
        }

    return evaluate


def head_metrics(model: keras.Model) -> list[keras.metrics.Metric]:
    """Metrics of how the head splits its perplexity: into clusters and words within them."""
    if not hasattr(model.get_layer("head"), ClusterPerplexity.needs[0]):
        return []
    return [ClusterPerplexity(), InClusterPerplexity()]


def perplexity_and_nats(nats: float) -> dict[str, float]:
    """The perplexity of a text that costs this many nats a token, and these nats."""
    # Beyond 700 nats a token the exponential leaves the range of a double.
    return {"perplexity": math.exp(nats) if nats < 700 else math.inf, "nats_per_token": nats}


def _results(metric):
    result = metric.result()
    return result if isinstance(result, dict) else {metric.name: result}

"""Exact evaluation of a model on a split: every token once, states carried."""

import math
import time

import tensorflow as tf
from tqdm import tqdm

from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm.model import recurrent_states, reset_states
from tfsoftmax.metrics import Perplexity


def exact_evaluator(model, metrics=()):
    """Returns `evaluate(corpus, split, progress=False)`, which may be called many times.

    It returns a dictionary: `perplexity`, `nats_per_token`, `tokens` (words and one end of
    sentence for each sentence), `oov_tokens` (how many of them were `<unk>`),
    `words_per_second`; and what `metrics` result in, such as `Normaliser()`. The states of the model are zero at the start of the split, and
    afterwards what they were before.
    """
    metric = Perplexity()

    @tf.function(reduce_retracing=True)
    def step(words, next_words, weights):
        logits = model(words, training=False)
        for each in (metric, *metrics):
            each.update_state(next_words, logits, weights)

    def evaluate(corpus, split, progress=False):
        before = [tf.identity(state.value) for state in recurrent_states(model)]
        reset_states(model)
        for each in (metric, *metrics):
            each.reset_state()
        dataset = batches(corpus, split)
        step.get_concrete_function(*dataset.element_spec)  # tracing is not evaluating
        start = time.perf_counter()
        for batch in tqdm(dataset, desc=split, unit="batch", leave=False, disable=not progress):
            step(*batch)
        seconds = time.perf_counter() - start
        for state, value in zip(recurrent_states(model), before):
            state.assign(value)
        nats, tokens = float(metric.nats.value), float(metric.tokens.value)
        return {
            # Beyond 700 nats a token the exponential leaves the range of a double.
            "perplexity": math.exp(nats / tokens) if nats < 700 * tokens else math.inf,
            "nats_per_token": nats / tokens,
            "tokens": round(tokens),
            "oov_tokens": corpus.split(split).oov,
            "words_per_second": round(tokens / seconds, 1),
            **{k: float(v) for each in metrics for k, v in _results(each).items()},
        }

    return evaluate


def _results(metric):
    result = metric.result()
    return result if isinstance(result, dict) else {metric.name: result}

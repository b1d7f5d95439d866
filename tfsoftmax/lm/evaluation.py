"""Evaluates a model exactly on a split, or by the scores of sentences: each token counts once."""

import math
import time
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm.model import context_of, recurrent_states, reset_states
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.metrics import ClusterPerplexity, InClusterPerplexity, Perplexity
from tfsoftmax.support.progress import bar


def exact_evaluator(
    model: keras.Model, metrics: Sequence[keras.metrics.Metric] = ()
) -> Callable[..., dict]:
    """Makes a function that evaluates a model on the splits of corpora.

    The recurrent states are zero at the start of a split; afterwards they are restored. If the
    model was built under a strategy, all replicas evaluate, each its streams, and the results are
    those of all of them; each worker has to call the function.

    Args:
        model: a stateful model that `language_model` built for the streams and steps of the
            corpora, or for the streams of one replica; or that of another task.
        metrics: further metrics to measure in the same pass, such as `Normaliser()`.

    Returns:
        A function `evaluate(corpus, split, progress=False, stopped=None)` that may be called many
        times. It asks the function `stopped` before each batch, and returns None once that is true.
        Otherwise it returns a dictionary: `perplexity`; `nats_per_token`; `tokens`, the words and
        one `<eos>` for each sentence; `oov_tokens`, how many of them are `<unk>`; what
        `text_measures` adds; `words_per_second`; `context` for a Transformer, each of whose layers
        attends to this many words before a word, as far as its stream has them; and the results of
        `metrics`.
    """
    strategy = model.distribute_strategy
    with strategy.scope():
        metric = Perplexity()

    def replica_step(words, next_words, weights):
        logits = model(words, training=False)
        for each in (metric, *metrics):
            each.update_state(next_words, logits, weights)

    @tf.function(reduce_retracing=True, autograph=False)
    def step(*batch):
        strategy.run(replica_step, args=batch)

    def evaluate(corpus, split, progress=False, stopped=None):
        states = [
            state for states in recurrent_states(model)
            for state in strategy.experimental_local_results(states.value)
        ]
        before = [tf.identity(state) for state in states]
        reset_states(model)
        for each in (metric, *metrics):
            each.reset_state()
        dataset = batches(corpus, split, strategy=strategy)
        step.get_concrete_function(*dataset.element_spec)  # traced before the clock starts
        start = time.perf_counter()
        interrupted = False
        count = corpus.split(split).records
        with bar(split, count, "batches", progress) as done:
            for _, batch in zip(range(count), dataset):
                if interrupted := stopped is not None and stopped():
                    break
                step(*batch)
                done.update()
        seconds = time.perf_counter() - start
        for state, value in zip(states, before, strict=True):
            state.assign(value)
        if interrupted:
            return None
        nats, tokens = float(metric.nats.numpy()), float(metric.tokens.numpy())
        return {
            **perplexity_and_nats(nats / tokens),
            "tokens": round(tokens),
            "oov_tokens": corpus.split(split).oov,
            **text_measures(corpus.split(split), nats),
            "words_per_second": round(tokens / seconds, 1),
            **context_of(model),
            **{
                k: float(v) for each in metrics for k, v in _results(each).items()
                if not math.isnan(v)  # nothing was measured, and JSON has no such number
            },
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


def text_measures(text, nats: float) -> dict[str, float]:
    """What a text costs, in measures that do not depend on how it is split.

    Args:
        text: a `Split` or a `Tally`, or anything that has its counts.
        nats: what all tokens of the text cost.

    Returns:
        `word_perplexity`, where words and one `<eos>` for each sentence count, if the text is in
        pieces; of words it is the perplexity. And `bits_per_byte` of the text in UTF-8, if the
        tokens determine every byte. With `<unk>`, they do not: its probability does not say
        how the word is spelt.
    """
    result = {}
    if text.tokens != text.words + text.sentences:
        per_word = perplexity_and_nats(nats / (text.words + text.sentences))
        result["word_perplexity"] = per_word["perplexity"]
    if text.is_restorable:
        result["bits_per_byte"] = nats / math.log(2) / text.text_bytes
    return result


def _results(metric):
    result = metric.result()
    return result if isinstance(result, dict) else {metric.name: result}


class Totals:
    """Sums the scores of sentences into the perplexity of a text.

    Args:
        scorer: the `Scorer` that scores the sentences. Its `oov` and `normalisation` decide what
            is counted.

    Example:
        from tfsoftmax.lm import evaluation, scoring
        from tfsoftmax.runs import runs
        scorer = scoring.Scorer(*runs.load("runs/first", streams=1)[:2])
        text, words = evaluation.Totals(scorer), ["the", "number", "of", "bytes"]
        text.add(words, scorer.sentences([words])[0])
        print(text.result()["perplexity"])
    """

    def __init__(self, scorer: Scorer):
        self._scorer = scorer
        self.log_prob, self.sentences, self.tokens, self.oov_tokens = 0.0, 0, 0, 0

    @property
    def words(self) -> int:
        """The number of words, without `<eos>`."""
        return self.tokens - self.sentences

    def add(self, words: Sequence[str], log_probs: np.ndarray) -> None:
        """Adds a sentence and its scores, which are an array (words + 1,) of the scorer."""
        self.log_prob += log_probs.sum()
        self.sentences += 1
        self.tokens += len(log_probs)
        self.oov_tokens += int(self._scorer.unknown(words).sum())

    def result(self) -> dict:
        """The totals so far.

        Returns:
            Dictionary of `sentences`, `tokens`, `oov_tokens` and `oov_rate`, their share of the
            words, and of `perplexity` and `nats_per_token` over the tokens that count. If the
            scores are taken as they are (`normalisation="constant"`), it has
            `self_normalised_nats` instead of these two.
        """
        skipped = self.oov_tokens if self._scorer.oov == "skip" else 0
        counts = {
            "sentences": self.sentences, "tokens": self.tokens, "oov_tokens": self.oov_tokens,
            "oov_rate": self.oov_tokens / max(1, self.words),
        }
        if self.tokens == skipped:
            return counts
        nats = -self.log_prob / (self.tokens - skipped)
        if self._scorer.normalisation == "constant":
            return {"self_normalised_nats": nats, **counts}
        return {**perplexity_and_nats(nats), **counts}

"""Losses over the scores of a label and of samples: your own, and three from the literature.

Shapes: N positions, M sampled words.
"""

from collections.abc import Callable, Mapping
from typing import Unpack

import keras
import tensorflow as tf

from tfsoftmax.heads.options import ShardOptions
from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.ops.criteria import LEFT_OUT, Hits, Slopes
from tfsoftmax.samplers.base import Sampler
from tfsoftmax.support.arguments import ArrayLike, expect


def bpr(label: tf.Tensor, words: tf.Tensor, copies: tf.Tensor) -> tf.Tensor:
    """-Σ m ln σ(t - u) / Σ m: each sampled word should score below the label.

    Args:
        label: (N,) float32, the labels' scores t.
        words: (N, M) float32, the sampled words' scores u, -1e30 where one is left out.
        copies: (M,) float32, m, how often each word was drawn. Sums are over the words that are not
            left out. Under XLA, labels of weight zero are words that are left out everywhere.

    Returns:
        (N,) float32.

    Example:
        head = tfsoftmax.SampledObjective(1000, objective=tfsoftmax.survey.objectives.bpr)

    Source: Rendle et al. 2009, with words from any proposal and several for each label.
    """
    copies = tf.where(words > LEFT_OUT / 2, copies, 0.0)
    losses = tf.reduce_sum(copies * tf.math.softplus(words - label[:, None]), axis=1)
    return tf.math.divide_no_nan(losses, tf.reduce_sum(copies, axis=1))


def gbce(label: tf.Tensor, words: tf.Tensor, copies: tf.Tensor, beta: float = 0.5) -> tf.Tensor:
    """-β ln σ(t) - Σ m ln σ(-u): cross-entropy whose positive part is lowered.

    Sampled negatives are too few, so that plain cross-entropy (β = 1) is overconfident. With
    β = α (c (1 - 1/α) + 1/α) and the sampling rate α = S / (V - 1), c = 1 calibrates σ(t) fully.

    Args:
        label, words, copies: as in `bpr`.
        beta: β in (0, 1].

    Returns:
        (N,) float32.

    Example:
        rate, c = 256 / (40_000 - 1), 0.75
        head = tfsoftmax.SampledObjective(40_000, 256, "gbce", objective_options={
            "beta": rate * (c * (1 - 1 / rate) + 1 / rate)})

    Source: Petrov and Macdonald 2023 (gSASRec), equations 3 and 12.
    """
    return beta * tf.math.softplus(-label) + tf.linalg.matvec(tf.math.softplus(words), copies)


def pairwise_softmax(
    label: tf.Tensor, words: tf.Tensor, copies: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """ln Σ m (2 σ(2 (u - t)))^(1/τ) / Σ m: softmax over pairs, whose terms are bounded.

    2 σ(2 d) = 1 + tanh d replaces exp d, so a wrong label does not outweigh all other pairs. The
    loss is zero where all words are left out.

    Args:
        label, words, copies: as in `bpr`.
        temperature: τ > 0.

    Returns:
        (N,) float32.

    Example:
        head = tfsoftmax.SampledObjective(1000, 50, "pairwise_softmax")

    Source: Yang et al. 2024 (PSL), with tanh; the mean over the words in the place of the sum.
    """
    logs = tf.math.log(2.0) - tf.math.softplus(-2 * (words - label[:, None]))
    log_sum = tf.reduce_logsumexp(logs / temperature + tf.math.log(copies), axis=1)
    total = tf.reduce_sum(tf.where(words > LEFT_OUT / 2, copies, 0.0), axis=1)
    return tf.where(total > 0, log_sum - tf.math.log(total), 0.0)


OBJECTIVES = {"bpr": bpr, "gbce": gbce, "pairwise_softmax": pairwise_softmax}


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SampledObjective(SamplingHead):
    """A head that is trained by a loss of your own over the label and S sampled words.

    The loss is a function of scores, and TensorFlow differentiates it: a step costs as much as that
    of the other heads that sample. Outside training the probabilities are softmax(s), which a
    pairwise loss does not fit to the data: use them for ranking, and ignore perplexity.

    Args:
        vocab_size: V, the number of words.
        num_samples, sampler, counts, sampler_options: as in `sampling.SamplingHead`.
        objective: "bpr", "gbce", "pairwise_softmax", or a function like `bpr` of the labels' scores
            (N,), the words' scores (N, M) and their numbers of copies (M,) to losses (N,), each of
            which depends on its own row alone. Register it with
            `keras.saving.register_keras_serializable` if models are to be saved.
        objective_options: its further arguments.
        corrected: whether the logarithm of its expected count in the sample is subtracted from each
            score, the label's too, as `SampledSoftmax` does.
        remove_accidental_hits: whether words that equal the label are left out; None: they are.
        **kwargs: further arguments of `SamplingHead`.

    Raises:
        ValueError: if `objective` is neither a name nor a function.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        def hinge(label, words, copies):
            return keras.ops.max(keras.ops.relu(1 + words - label[:, None]), axis=1)
        head = tfsoftmax.SampledObjective(1000, 50, hinge, sampler="uniform")
        losses, best = head.training_loss(hidden, labels), head.top_k(hidden, 10)
    """

    saved_options = ("corrected", "objective_options")

    def __init__(
        self, vocab_size: int, num_samples: int | None = 1280, objective: str | Callable = "bpr",
        sampler: str | Sampler | None = None, counts: ArrayLike | None = None,
        sampler_options: dict | None = None, *, objective_options: Mapping | None = None,
        corrected: bool = False, **kwargs: Unpack[ShardOptions],
    ):
        super().__init__(vocab_size, num_samples, sampler, counts, sampler_options, **kwargs)
        known = callable(objective) or objective in OBJECTIVES
        expect(known, "objective", f"be a function, or one of {sorted(OBJECTIVES)}", objective)
        own = {} if objective_options is None else objective_options
        expect(isinstance(own, Mapping), "objective_options", "be a dict of arguments", own)
        self.objective_name, self.corrected = objective, corrected
        self.objective_options = dict(own)

    def _hits(self):
        return Hits.KEEP if self.remove_accidental_hits is False else Hits.REMOVE

    def _nats(self, hidden, labels):
        return self._sampled_loss(self._criterion, hidden, labels, self.corrected)

    def _criterion(self, label, words):
        function = OBJECTIVES.get(self.objective_name, self.objective_name)
        scores = words.corrected()
        with tf.GradientTape() as tape:
            tape.watch([label, scores])
            losses = function(label, scores, words.copies, **self.objective_options)
        of_label, of_scores = tape.gradient(
            losses, [label, scores], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return losses, Slopes(of_label, of_scores, tf.ones_like(label), None)

    def get_config(self):
        name = self.objective_name
        return {
            **super().get_config(),
            "objective": keras.saving.serialize_keras_object(name) if callable(name) else name,
        }

    @classmethod
    def from_config(cls, config):
        objective = keras.saving.deserialize_keras_object(config["objective"])
        return super().from_config({**config, "objective": objective})

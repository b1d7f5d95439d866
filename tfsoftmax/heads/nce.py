"""Noise contrastive estimation with a normalisation constant of the user's choice."""

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Literal, Unpack

import keras
import tensorflow as tf

from tfsoftmax.heads.options import ShardOptions
from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.ngrams.backoff import NgramOption
from tfsoftmax.ops.criteria import logistic
from tfsoftmax.samplers.base import Sampler
from tfsoftmax.support.arguments import ArrayLike, expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NCE(SamplingHead):
    """Logistic classification of the label w against k = S words v of a noise distribution q.

        loss = -ln σ(s_w - ln Z - ln k q(w)) - Σ_v ln σ(-(s_v - ln Z - ln k q(v)))

    The model assumes that its exponentiated scores sum to Z in every context: exp(s) / Z is the
    probability that the classifier compares with k q, and training makes the sum approach Z
    (`log_normaliser` measures it). `tf.nn.nce_loss` is the case Z = 1. With scores near zero at the
    start, probabilities then begin near one instead of 1 / V, and training has to correct that.

    With `train_z="context"`, training learns a normaliser for each context, a linear function of
    its hidden state. Subtracting its weights w from all rows of the kernel would have the same
    effect, but a step changes only the rows that it uses, whereas a change of w affects all words
    at once.

    With a sampler without replacement, k q is replaced by the probability that the sample
    includes the word. `tf.nn.nce_loss` takes 1 - (1 - q)^tries there.

    The minimum is exp(s) / Z = P(w | h), because the noise may contain the label: accidental hits
    are kept. Without them the minimum would be P / (1 - P): among ten words, a word with P = 0.9
    would get 0.989 after normalisation. So `remove_accidental_hits=True` is an error. With in-batch
    negatives, `samplers.InBatch`, the position's own label was not drawn, so it is left out once.
    The minimum is different with InBatch(counts=None), which corrects nothing, and with
    `TargetSampling`, where the words of each chunk sum to Z separately; the head is then not
    `self_normalised`.

    Args:
        vocab_size: V, the number of words.
        num_samples, sampler, counts, sampler_options, ngram, words: as in `sampling.SamplingHead`.
        remove_accidental_hits, shared_samples, seed, synchronized: as in `sampling.SamplingHead`.
        Z: normalisation constant, or "auto" for V.
        log_z: ln Z, instead of Z.
        train_z: whether ln Z is trained. True trains one parameter for all contexts, and "context"
            trains ln Z(h) = w h + b; both start at the given value. False trains neither.
        **kwargs: options of the weights and of the layer, `heads.options.ShardOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.NCE(1000, num_samples=50, sampler="log_uniform")
        nats = head.training_loss(hidden, labels)
        log_z = head.log_normaliser(hidden)  # training holds it near ln 1000

    Source: Müller 2017, equations 2.32, 2.37 and 2.44, section 3.3 (Gutmann and Hyvärinen 2012;
    Mnih and Teh 2012; Chen et al. 2015 for Z). Misprints there: in equation 2.36, the quotient is
    P / (k q) and not P / log(k q), and z_C is z_H; in the second line of 2.37, the noise words' P
    lacks its logarithm; in 2.43, z_H is -ln Σ exp(s), which makes the model sum to one, and not Σ
    s, so that Z is exp(-z_H) in 2.44, and its fixed value is Z = 1 and not z_H = 1; in 3.3, σ is
    taken of the score s minus log Q, and not of exp(s).
    """

    saved_options = ("train_z",)

    def __init__(
        self, vocab_size: int, num_samples: int | None = 1280, sampler: str | Sampler | None = None,
        counts: ArrayLike | None = None, sampler_options: dict | None = None,
        remove_accidental_hits: bool | None = None, shared_samples: bool = True,
        seed: int | None = None, synchronized: bool = True,
        ngram: NgramOption | None = None,
        words: Sequence[str] | None = None, *, Z: float | str = "auto",
        log_z: float | None = None, train_z: bool | Literal["context"] = False,
        **kwargs: Unpack[ShardOptions],
    ):
        super().__init__(
            vocab_size, num_samples, sampler, counts, sampler_options, remove_accidental_hits,
            shared_samples, seed, synchronized, ngram, words, **kwargs,
        )
        expect(
            not self.remove_accidental_hits, "remove_accidental_hits", "not be True for NCE, which "
            "would then learn P / (1 - P) instead of the probabilities P", True,
        )
        self.self_normalised = self.sampler.unbiased
        self.initial_log_z = _checked_log_z(Z, log_z, self.vocab_size)
        known = isinstance(train_z, bool) or train_z == "context"
        expect(known, "train_z", "be True, False or 'context'", train_z)
        self.train_z = train_z

    def build(self, hidden_shape):
        super().build(hidden_shape)
        if self.train_z:
            self.log_z = self.add_weight(
                name="log_z", shape=(), autocast=False,
                initializer=keras.initializers.Constant(self.initial_log_z),
            )
        if self.train_z == "context":
            self.log_z_kernel = self.add_weight(
                name="log_z_kernel", shape=(self._units,), initializer="zeros",
                autocast=False,
            )

    def _nats(self, hidden, labels):
        return self._sampled_loss(logistic, hidden, labels)

    def _compared_rows(self, ids):
        rows, biases = super()._compared_rows(ids)
        if self.train_z == "context":
            rows -= tf.cast(self.log_z_kernel.value, tf.float32)
        return rows, biases - self._log_z()

    def _self_normalised(self, hidden, labels):
        """s_w - ln Z."""
        log_z = self._log_z()
        if self.train_z == "context":
            wide = tf.cast(self.sampler.split(hidden)[0], tf.float32)
            log_z = log_z + tf.linalg.matvec(wide, tf.cast(self.log_z_kernel.value, tf.float32))
        return self._label_scores(hidden, labels) - log_z

    def _log_z(self):
        return tf.cast(self.log_z.value, tf.float32) if self.train_z else self.initial_log_z

    def get_config(self):
        return {**super().get_config(), "log_z": self.initial_log_z}

    @classmethod
    def from_config(cls, config):
        if config.get("remove_accidental_hits"):  # of files from when it was not refused
            warnings.warn(
                "NCE keeps accidental hits from now on. Without them it was trained towards "
                "P / (1 - P) instead of the probabilities P.", stacklevel=2,
            )
            config = {**config, "remove_accidental_hits": None}
        return super().from_config(config)


def _checked_log_z(Z, log_z, vocab_size):
    if log_z is not None:
        expect(Z == "auto" and math.isfinite(log_z), "log_z",
               "be a finite number, given without `Z`", received={"log_z": log_z, "Z": Z})
        return float(log_z)
    if Z == "auto":
        return math.log(vocab_size)
    positive = isinstance(Z, numbers.Real) and 0 < Z < math.inf
    expect(positive, "Z", "be a positive number or 'auto'", Z)
    return math.log(Z)

"""Target sampling: each part of the training stream has its own, smaller vocabulary."""

import math
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.random import uniform_words
from tfsoftmax.ops.replicas import add_state
from tfsoftmax.samplers.base import Candidates, Given, contains
from tfsoftmax.support.arguments import (
    ArrayLike,
    check_at_least,
    check_positive,
    checks_arguments,
    expect,
    refusal,
    whole_numbers,
)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TargetSampling(Given):
    """q(w) = 1 / S for the S words of the current chunk of the training stream, zero for others.

    The sample of every step is the chunk's whole vocabulary V_n, which contains every label of
    the chunk. Nothing is drawn, and `SampledSoftmax` computes the softmax over V_n alone. During a
    chunk, only S rows of the output matrix are in use. `update` counts the steps; the first chunk
    follows the last.

    Train on the batches that the vocabularies were made from, in the same order. If training
    starts elsewhere in the stream, assign the number of batches before that place to
    `sampler.step`. A label outside V_n raises an error in training. Under `jit_compile=True`,
    where no operation can raise one, the loss of `SampledSoftmax` for that label is NaN.

    Args:
        vocab_size: V.
        vocabularies: (C, S) integers, the words of each chunk, see `target_vocabularies`.
        ends: (C,) integers, the number of batches from the beginning of the stream to the end of
            each chunk.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if a row of `vocabularies` repeats a word or has one outside [0, V), or if
            `ends` are not C increasing numbers above 0.

    Example:
        stream = [[1, 2, 1], [2, 3, 1], [7, 8, 9], [8, 9, 9]]  # the labels of four batches
        vocabularies, ends = tfsoftmax.samplers.target_vocabularies(stream, 10, num_samples=4)
        sampler = tfsoftmax.samplers.TargetSampling(10, vocabularies, ends)
        head = tfsoftmax.SampledSoftmax(10, num_samples=4, sampler=sampler)

    Source: Müller 2017, equation 2.31; Jean et al. 2015, section 3.2; Chen et al. 2015 (the name).
    """

    saved_options = ("vocabularies", "ends")
    unbiased = False

    def __init__(self, vocab_size: int, vocabularies: ArrayLike, ends: ArrayLike, **kwargs):
        super().__init__(vocab_size, unique=True, **kwargs)
        self.vocabularies = np.sort(_checked_vocabularies(vocabularies, vocab_size), axis=1)
        self.ends = _checked_ends(ends, len(self.vocabularies))
        with tf.init_scope():
            self._words, self._ends = tf.constant(self.vocabularies), tf.constant(self.ends)
        self.step = add_state(self, "step", (), "int64")

    def chunk(self) -> tf.Tensor:
        """Number of the current chunk: scalar int32."""
        ends = held(self._ends)
        step = self.step.value % ends[-1]
        return tf.searchsorted(ends, step[None], side="right")[0]

    def sample(self, labels: tf.Tensor, num_samples: int, seed: int | tf.Tensor) -> Candidates:
        """Returns the vocabulary of the current chunk in increasing order.

        Args:
            labels: (...) integers.
            num_samples: S, the size of the chunks' vocabularies.
            seed: has no effect, because nothing is drawn.

        Returns:
            `Candidates`. Their `log_expected` are zeros, because each word of the chunk is
            certain to be in the sample. `log_expected_labels` are zero for words of the chunk
            and -inf for others.

        Raises:
            ValueError: if `num_samples` is not S.
        """
        self.check_size(num_samples)
        words, labels = self._vocabulary(), self._checked(labels)
        log_expected_labels = _log(contains(words, labels))
        return Candidates(words, tf.zeros([num_samples]), log_expected_labels)

    def check_use(self, *, label_smoothing=0.0, **options):
        super().check_use(**options)
        expect(not label_smoothing, "label_smoothing", "be 0 with TargetSampling, whose chunks "
               "lack other words", label_smoothing)

    def log_q(self, ids):
        size = self.vocabularies.shape[1]
        return _log(contains(self._vocabulary(), ids)) - np.float32(math.log(size))

    def update(self, labels):
        inside = contains(self._vocabulary(), labels) | (labels < 0)  # below zero is no label
        check = tf.debugging.Assert(tf.reduce_all(inside), [
            "`labels` must come from the stream that `vocabularies` were made from, in its order. "
            "Received a word that is not in the chunk's vocabulary, at step, chunk, word:",
            self.step.value, self.chunk(), tf.boolean_mask(labels, ~inside)[:1],
        ])
        with tf.control_dependencies([check] if check is not None else []):
            self.step.assign_add(1)

    def _vocabulary(self):
        return tf.gather(held(self._words), self.chunk())

    def _draw(self, count, seed):
        place = uniform_words(count, self.vocabularies.shape[1], seed)
        return tf.gather(self._vocabulary(), place)

    def check_size(self, num_samples: int | None) -> None:
        """Raises ValueError unless this is the size of the chunks' vocabularies."""
        size = self.vocabularies.shape[1]
        expect(num_samples == size, "num_samples",
               f"be {size}, the size of the chunks' vocabularies", num_samples)


@checks_arguments
def target_vocabularies(
    label_batches: Iterable[ArrayLike], vocab_size: int, num_samples: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a training stream into chunks of batches with at most S different words each.

    A chunk ends before the batch that would give it more than S words. The free places in its
    vocabulary are filled with other words, all equally likely.

    Args:
        label_batches: iterable of (...) integer arrays or tensors, the labels of each step, such
            as `(labels for _, labels, _ in tfsoftmax.corpora.pipeline.batches(corpus, "train"))`.
            Write word 0 for labels that `SoftmaxLoss(ignore_class=...)` leaves out.
        vocab_size: V.
        num_samples: S, at most V.
        seed: seed of the words that fill the vocabularies.

    Returns:
        vocabularies: (C, S) int32, increasing in each row.
        ends: (C,) int64, the number of batches from the beginning of the stream to the end of
            each chunk.

    Raises:
        ValueError: if a batch has more than S different words or a word outside [0, V), if S does
            not lie in [1, V], or if the stream is empty.

    Source: Jean et al. 2015, section 3.2. Departure: chunks consist of whole batches, and their
    vocabularies are filled.
    """
    check_positive(vocab_size=vocab_size)
    check_at_least(0, seed=seed)
    right = 1 <= num_samples <= vocab_size
    expect(right, "num_samples", f"lie in [1, vocab_size={vocab_size}]", num_samples)
    rng = np.random.default_rng(seed)
    vocabularies, ends, steps = [], [], 0
    inside, count = np.zeros(vocab_size, bool), 0

    def close():
        others = rng.choice(np.flatnonzero(~inside), num_samples - count, replace=False)
        inside[others] = True
        vocabularies.append(np.flatnonzero(inside).astype(np.int32))
        ends.append(steps)

    for labels in label_batches:
        words = _checked_words(labels, vocab_size, num_samples, steps)
        new = words[~inside[words]]
        if count + len(new) > num_samples:
            close()
            inside[:], count, new = False, 0, words
        inside[new] = True
        count += len(new)
        steps += 1
    expect(steps, "label_batches", "not be empty", received="no batch")
    close()
    return np.stack(vocabularies), np.array(ends, np.int64)


def _checked_words(labels, vocab_size, num_samples, step):
    words = np.unique(whole_numbers("label_batches", labels))
    if np.any(words < 0) or np.any(words >= vocab_size):
        raise refusal("label_batches", f"hold words in [0, {vocab_size})",
                      received=f"from {words[0]} to {words[-1]} in batch {step}")
    rule = "be at least the number of different words of any batch"
    expect(len(words) <= num_samples, "num_samples", f"{rule}, {len(words)} in batch {step}",
           num_samples)
    return words


def _checked_vocabularies(vocabularies, vocab_size):
    vocabularies = whole_numbers("vocabularies", vocabularies, "int32")
    right = vocabularies.ndim == 2 and vocabularies.size
    expect(right, "vocabularies", "be of shape (chunks, num_samples)",
           received=f"shape {vocabularies.shape}")
    low, high = vocabularies.min(), vocabularies.max()
    expect(0 <= low <= high < vocab_size, "vocabularies", f"hold words in [0, {vocab_size})",
           received=f"from {low} to {high}")
    repeats = np.any(np.diff(np.sort(vocabularies, axis=1)) == 0, axis=1)
    expect(not repeats.any(), "vocabularies", "have different words in each row",
           received=f"a repeated word in row {np.argmax(repeats)}")
    return vocabularies


def _checked_ends(ends, chunks):
    ends = whole_numbers("ends", ends)
    right = ends.shape == (chunks,) and np.all(np.diff(ends, prepend=0) > 0)
    rule = f"be {chunks} numbers, one for each chunk, that increase strictly from above 0"
    expect(right, "ends", rule, ends.tolist())
    return ends


def _log(inside):
    return tf.where(inside, 0.0, float("-inf"))

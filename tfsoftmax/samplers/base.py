"""The base of all proposal distributions: draws with and without replacement."""

import operator
import warnings
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.ops.criteria import LEFT_OUT, Hits
from tfsoftmax.ops.inputs import checked_ids, dense
from tfsoftmax.ops.ranking import places_among
from tfsoftmax.ops.replicas import in_replica
from tfsoftmax.samplers.poisson_race import poisson_race, tries_needed
from tfsoftmax.support.arguments import expect, is_whole
from tfsoftmax.support.renumbering import Renumbering
from tfsoftmax.support.saved_options import SavedOptions


class Candidates(NamedTuple):
    """A sample of words, and the expected count of each.

    Attributes:
        ids: (S,) int32, the words of the sample; (N, S) if each label has its own sample.
        log_expected: (S,) float32, ln of the expected count of each; (N, S) if it differs between
            labels.
        log_expected_labels: (...) float32, ln of the expected count of each label.

    Example:
        sampler = tfsoftmax.samplers.Uniform(1000)
        sample = sampler.sample(labels=[3, 5], num_samples=50, seed=0)
        assert sample.ids.shape == sample.log_expected.shape == (50,)
        assert sample.log_expected_labels.shape == (2,)
    """

    ids: tf.Tensor
    log_expected: tf.Tensor
    log_expected_labels: tf.Tensor


class Sampler(SavedOptions, keras.layers.Layer):
    """A proposal distribution q over V words, from which a head draws samples.

    The type of a sampler says what its samples are. A plain `Sampler` draws words that all
    positions share, or words for each position. A `Given` sample, such as the labels of the
    batch, needs no drawing, and an `after_word.AfterWord` draws for each position given the word
    before it. The sampler is a sublayer of the head. A subclass implements `log_q` and `_draw`,
    `update` if its distribution changes in training, and `check_use` if some options of a head do
    not suit it.

    Args:
        vocab_size: V, at most 2^30.
        unique: whether all words of a sample differ (sampling without replacement).
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `vocab_size` lies outside [1, 2^30].

    Example:
        sampler = tfsoftmax.samplers.Unigram(4, counts=[50, 30, 15, 5], unique=True)
        assert isinstance(sampler, tfsoftmax.samplers.Sampler)
        print(sampler.sample(labels=[0, 3], num_samples=2, seed=1).ids)
        head = tfsoftmax.SampledSoftmax(4, num_samples=2, sampler=sampler)
    """

    saved_options = ("vocab_size", "unique")
    hits = Hits.KEEP  # what should happen to samples that equal a label, unless one asks for others
    unbiased = True  # whether the expected counts are the words' own; if not, all are the same
    units = 0  # of the hidden states, the last ones, which the sampler reads
    exclude = ()  # words that are never drawn, which `Excluding` sets

    def __init__(self, vocab_size: int, unique: bool = False, **kwargs):
        super().__init__(**kwargs)
        expect(1 <= vocab_size <= 1 << 30, "vocab_size", "lie in [1, 2**30]", vocab_size)
        self.vocab_size = operator.index(vocab_size)
        self.unique = bool(unique)
        self._tries = {}
        self.built = True

    def sample(self, labels: tf.Tensor, num_samples: int, seed: int | tf.Tensor) -> Candidates:
        """Draws words and returns the expected count of each in this sample.

        Args:
            labels: (...) integers, words whose expected counts the caller needs too.
            num_samples: S, at most V if `unique`.
            seed: int, or (2,) integers; the same seed draws the same words on every device.

        Returns:
            `Candidates`. The expected count of a word is S q with replacement. Without replacement,
            it is the exact probability of inclusion given the arrivals of the other words (see
            `poisson_race`).

        Raises:
            ValueError: if `num_samples` is below 1, or above V for a sample without replacement.

        Source: Müller 2017, section 3.2. Departure: the expected counts without replacement are
            those of order sampling (Duffield, Lund, Thorup 2007) instead of 1 - (1 - q)^tries.
        """
        self.check_size(num_samples)
        labels = self._checked(labels)
        if self.unique:
            return self._sample_unique(labels, num_samples, stateless(seed))
        ids = self._draw(num_samples, stateless(seed))
        return self._with_replacement(ids, labels, num_samples)

    def move_from(self, old, renumbering):
        """Takes over what an earlier sampler learned, by the `Renumbering` of the words."""
        renumbering = renumbering.among(old.exclude, self.exclude)
        inner, earlier = (getattr(x, "sampler", x) for x in (self, old))
        inner.take_over(earlier, renumbering)

    def take_over(self, old: "Sampler", renumbering: Renumbering) -> None:
        """`move_from` for words that can be drawn; by default, it moves the weights."""
        renumbering.move_weights(self, old)

    def sample_of_step(self, labels, num_samples, seed, label_smoothing):
        """`sample` for a step whose head has replaced a share of the labels by uniform words."""
        del label_smoothing  # which matters where the labels are the sample
        return self.sample(labels, num_samples, seed)

    def sample_others(
        self, labels: tf.Tensor, num_samples: int, seed: int | tf.Tensor
    ) -> Candidates:
        """Draws one sample that holds, for each label, S different words other than the label.

        The candidates of a position are its label and the first S other words of the race. One time
        determines the expected counts of all of them: the arrival of the first word that is not a
        candidate. Hence the label, given the candidates, is distributed as their probabilities over
        their expected counts, and the softmax over the candidates has its minimum at the true
        distribution. `sample` uses two times, which is right for each word separately, but not for
        words that are compared.

        Args:
            labels: (N,) integers.
            num_samples: S, at most V.
            seed: as in `sample`.

        Returns:
            `Candidates` with ids (M,), M = min(S + 1, V), and log_expected (N, M), which is 1e30
            for the last word if the label is not in the sample, so that this word does not count.
            If the label is in the sample, the loss leaves it out.
        """
        self.check_size(num_samples)
        size = min(num_samples + 1, self.vocab_size)
        labels = self._checked(labels)
        ids, inside, outside = self._race(size, stateless(seed))
        is_inside = contains(tf.sort(ids), labels)
        log_q = self.log_q(ids)
        without_last = tf.concat([_log_inclusion(log_q[:-1], outside), [-LEFT_OUT]], 0)
        log_expected = tf.where(
            is_inside[:, None], _log_inclusion(log_q, inside), without_last
        )
        times = tf.where(is_inside, inside, outside)
        log_expected_labels = _log_inclusion(self.log_q(labels), times)
        return Candidates(ids, log_expected, log_expected_labels)

    def sample_for_each(
        self, labels: tf.Tensor, num_samples: int, seed: int | tf.Tensor
    ) -> Candidates:
        """Draws S words for each label separately, with replacement.

        Args:
            labels: (N,) integers.
            num_samples: S.
            seed: as in `sample`.

        Returns:
            `Candidates` with ids (N, S), log_expected (N, S) and log_expected_labels (N,).
        """
        labels = self._checked(labels)
        ids = self._draw(tf.size(labels) * num_samples, stateless(seed))
        return self._with_replacement(tf.reshape(ids, [-1, num_samples]), labels, num_samples)

    def log_q(self, ids: tf.Tensor) -> tf.Tensor:
        """Natural logarithm of the probability of each word: (...) float32 for ids (...)."""
        raise NotImplementedError

    def load_own_variables(self, store):
        """Keeps the current state if the file has none, or one of other shapes."""
        own = {}
        self.save_own_variables(own)
        shapes, own_shapes = ({key: tuple(s[key].shape) for key in s.keys()} for s in (store, own))
        if shapes == own_shapes:
            super().load_own_variables(store)
        elif shapes:
            warnings.warn(
                f"{type(self).__name__} keeps its own state, as the file has that of another "
                f"sampler, of shapes {[*shapes.values()]}.", stacklevel=2,
            )

    def update(self, labels: tf.Tensor) -> None:
        """Adapts the distribution to a training step with these labels (...), if it changes.

        A label of -1 does not count, as at positions of weight zero. If `trainable` is False,
        nothing is learned from labels.
        """
        del labels

    def split(self, hidden: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The hidden states that are scored, and a list with the previous words, if it reads
        them."""
        return hidden, []

    def check_use(
        self, *, num_samples: int | None = None, shared_samples: bool = True,
        keep: int | None = None, label_in_sum: bool = True, label_smoothing: float = 0.0,
        remove_accidental_hits: bool | None = None, restore_proposal: bool = False,
        labels_known: bool = True,
    ) -> None:
        """Raises ValueError if a head with these options cannot use samples of this kind.

        Args:
            num_samples, shared_samples, keep: those of the heads that sample.
            label_in_sum, label_smoothing, remove_accidental_hits, restore_proposal: as above.
            labels_known: whether a sample is drawn for the labels of a training step.
        """
        expect(shared_samples or not self.unique, "shared_samples",
               "be True for a sampler without replacement", shared_samples)
        expect(keep is None or 0 < keep <= num_samples, "keep",
               f"lie in [1, num_samples={num_samples}]", keep)
        expect(keep is None or self.unique, "keep",
               "be None for a sampler with replacement", keep)
        expect(
            not (restore_proposal and self.unique), "restore_proposal", "be False for a sampler "
            "without replacement, which draws a word w fewer than k q(w) times", True,
        )

    def _checked(self, ids, name="labels", least=0):
        """Ids of words in [least, V) as int32. A word that is -1, none, becomes the least one.

        A head that is traced has checked its labels, which are int32 by then. Replicas may lack
        labels.
        """
        ids = dense(ids, name)
        if ids.dtype != tf.int32 or tf.executing_eagerly():
            ids, _ = checked_ids(ids, self.vocab_size, name, -1 if in_replica() else least)
        return tf.maximum(ids, least)

    def _with_replacement(self, ids, labels, num_samples):
        log_size = np.float32(np.log(num_samples))
        return Candidates(ids, self.log_q(ids) + log_size, self.log_q(labels) + log_size)

    def _draw(self, count, seed):
        """Independent words (count,) int32 by a stateless seed (2,)."""
        raise NotImplementedError

    def _race(self, num_samples, seed):
        return poisson_race(
            self._draw, lambda: self.log_q(tf.range(self.vocab_size)), self.vocab_size,
            num_samples, self._tries_for(num_samples), seed,
        )

    def _sample_unique(self, labels, num_samples, seed):
        ids, inside, outside = self._race(num_samples, seed)
        time = tf.where(contains(tf.sort(ids), labels), inside, outside)
        log_expected_labels = _log_inclusion(self.log_q(labels), time)
        return Candidates(ids, _log_inclusion(self.log_q(ids), inside), log_expected_labels)

    def _tries_for(self, num_samples):
        if num_samples not in self._tries:
            with tf.init_scope():
                self._tries[num_samples] = tries_needed(self._typical_q(), num_samples)
        return self._tries[num_samples]

    def _typical_q(self):
        """(V,) float64, a distribution that needs at least as many draws for S different words."""
        return np.exp(self.log_q(tf.range(self.vocab_size)).numpy().astype(np.float64))

    def check_size(self, num_samples: int | None) -> None:
        """Raises ValueError if the sampler cannot draw samples of this size."""
        most = self.vocab_size if self.unique else 1 << 30
        right = is_whole(num_samples) and 1 <= num_samples <= most
        rule = f"be a positive integer of at most {most}" + ", as `unique` is set" * self.unique
        expect(right, "num_samples", rule, num_samples)


class Given(Sampler):
    """A sample that is not drawn: all positions share the given words.

    Args:
        vocab_size: V.
        **kwargs: arguments of `Sampler`.

    Example:
        sampler = tfsoftmax.samplers.InBatch(1000, counts=None)
        assert isinstance(sampler, tfsoftmax.samplers.base.Given)
        assert list(sampler.sample([3, 5], num_samples=None, seed=0).ids) == [3, 5]
    """

    decided_options = ("unique",)

    def sample_others(self, labels, num_samples, seed):
        return self.sample(labels, num_samples, seed)


def stateless(seed):
    """The seed (2,) of stateless draws for an int or (2,) integers.

    Raises:
        ValueError: if it is neither.
    """
    try:
        tensor = dense(seed, "seed")
    except TypeError:
        tensor = tf.constant("")
    one = tensor.shape.rank == 0
    right = tensor.dtype.is_integer and (one or tensor.shape.is_compatible_with([2]))
    expect(right, "seed", "be an integer, or two", seed)
    return tf.stack([tensor, tf.zeros_like(tensor)]) if one else tensor


def contains(words: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Whether each label (...) is among the words (S,) int32, which increase."""
    return places_among(tf.saturate_cast(labels, tf.int32), words)[1]


def _log_inclusion(log_q, time):
    """ln(1 - exp(-q t)), which is ln(q t) where q t is so small that it may underflow."""
    log_product = log_q + tf.math.log(time)
    usual = tf.math.log(-tf.math.expm1(-tf.exp(log_q) * time))
    return tf.where(log_product < -15.0, log_product, usual)

"""Search for the likeliest words without the scores of all words.

The likeliest word has the largest inner product of its [w, b] with [h, 1], so an index for maximum
inner product search finds it. This module needs `pip install faiss-cpu`;
`import tfsoftmax` does not import it.
"""

import hashlib
import json
import os
import typing
import zipfile
import zlib

import numpy as np
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.inputs import checked_k, flatten, refuse_xla, restore
from tfsoftmax.heads.vectors import softmax_of
from tfsoftmax.ops.chunks import chunk_rows, map_chunks
from tfsoftmax.ops.inclusion import inclusion_probabilities
from tfsoftmax.ops.logits import with_one
from tfsoftmax.ops.ranking import best, found
from tfsoftmax.retrieval import found_words
from tfsoftmax.retrieval.faiss_indexes import faiss, filled, for_graphs
from tfsoftmax.retrieval.fitting import softmax_for
from tfsoftmax.support.arguments import (
    ArrayLike,
    CheckedArguments,
    check_at_least,
    check_hint,
    check_positive,
    checks_arguments,
    expect,
    refusal,
)
from tfsoftmax.support.counts import checked_counts, with_unseen
from tfsoftmax.support.whole_files import errors_name, written_whole

# What reading a damaged file raises. zipfile: NotImplementedError for an unknown method of
# compression, and MemoryError where a damaged size asks for more than there is.
_DAMAGED = (
    zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, RuntimeError, MemoryError,
    zlib.error,
)


class Found(typing.NamedTuple):
    """The words that a search found, the likeliest first, and an estimate of ln Z.

    Attributes:
        ids: (..., k) int32.
        scores: (..., k) float32, their logits, which are exact.
        log_z: (...) float32, estimated ln Z, nats.
        error: (...) float32, standard error of `log_z`, nats, as the sample shows it. It is itself
            an estimate, and too small on average, even with `counts`: few samples contain the
            likely words that the search missed, and the other samples do not show that these are
            missing. experiments/results/search measures how often ln Z lies in the interval below.
            It is NaN without a sample, when `log_z` is ln Σ exp(z) of the words found and therefore
            too small.

    Example:
        head = tfsoftmax.FullSoftmax(1000)
        head.build((None, 64))
        found = tfsoftmax.search.WordIndex(head).likeliest(head, keras.random.normal((8, 64)), 5)
        assert isinstance(found, tfsoftmax.search.Found)
        interval = found.log_z - 1.96 * found.error, found.log_z + 1.96 * found.error
    """

    ids: tf.Tensor
    scores: tf.Tensor
    log_z: tf.Tensor
    error: tf.Tensor

    @property
    def estimated_log_probs(self) -> tf.Tensor:
        """(..., k) float32: `scores` minus `log_z`; all have the error of `log_z`."""
        return self.scores - self.log_z[..., None]


class WordIndex(CheckedArguments):
    """An index of the words of a head, for `head.top_k(hidden, k, index=index)`.

    A search asks the index for `candidates` words, computes their exact scores, and keeps the k
    best. It may miss words; `recall` measures how many. ln Z is estimated from the words found and
    from a sample of the others, see `Found`. The sample is drawn when the index is built, so that
    the same hidden state always gives the same result.

    Scores come from the weights that the head has when it is called. The index keeps the vectors it
    was built from: after training the head further, build another one. `load` compares the two.

    Searches run in Python, eagerly and within `tf.function`. They cannot be compiled by XLA, have
    no gradient, and do not work in a model that was exported, which has no Python.

    Args:
        head: a built head whose distribution is softmax of h Wᵀ + b: `FullSoftmax`,
            `SelfNormalisedSoftmax` and the heads that sample, including tied ones, but not with
            a proposal that reads the word before.
        kind: "ivf" for clusters by k-means; "hnsw" for a graph of neighbours, which takes four to
            fifteen times as long to build (experiments/results/search and retrieval) and, with some
            tens of thousands of words, finds more of them; or an index of faiss for inner products,
            empty or with the rows of `head.vectors()`.
        candidates: C, how many words are found and scored at each position, or k if that is more.
        samples: S, how many words to draw in all for ln Z, at most V; 0 for no estimate.
        counts: (V,) occurrences of the words. With them, a word is drawn in proportion to the
            root of its count, which makes the error smaller where some words are far likelier
            than others; without, all words are equally likely.
        seed: seed of the sample.
        **options: for "ivf": `lists` (2 √V), clusters; `probes` (32), those that are searched. For
            "hnsw": `links` (32), neighbours of a word; `construction` (100) and `breadth` (200),
            words that are kept while the index is built and searched.

    Raises:
        ValueError: for another head, or if an argument is out of its range.

    Example:
        hidden = keras.random.normal((8, 64))
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        head.build(hidden.shape)
        index = tfsoftmax.search.WordIndex(head)
        ids, estimated_log_probs = head.top_k(hidden, 5, index=index)  # (8, 5) each
        print(index.recall(head, hidden, 5))

    Source: Müller 2017, section 2.2.4.2 (Auvolat et al. 2015 for k-means; Malkov and Yashunin 2020
    for HNSW, with inner products as in Morozov and Babenko 2018). Departures: Z there is the sum
    over the words found; hash tables (Vijayanarasimhan et al. 2014) find fewer words, see
    experiments/results/search.
    """

    def __init__(
        self, head: SoftmaxHead, kind: "str | faiss.Index" = "ivf", candidates: int = 200,
        samples: int = 1024, counts: ArrayLike | None = None, seed: int = 1, **options: int,
    ):
        check_positive(candidates=candidates)
        check_at_least(0, samples=samples, seed=seed)
        softmax_of(head)  # raises for what is no head, too
        vectors = head.vectors()
        self._sha256, self._scale = _sha256(vectors), 1.0
        if none := list(getattr(head, "not_items", ())):  # as plain as any, and never listed
            vectors[none] = np.delete(vectors, none, axis=0).mean(0)
        expect(np.isfinite(vectors).all(), "head", "have finite weights",
               received=f"{head.name}, with weights that are not")
        if kind == "hnsw":
            vectors, self._scale = for_graphs(vectors, vectors.shape[1] > head.input_spec.axes[-1])
        self._index = filled(kind, vectors, options)
        self.candidates, self.sample = candidates, None
        if samples:
            words = len(vectors)
            sizes = np.ones(words) if counts is None else np.sqrt(
                with_unseen(checked_counts(counts, words))
            )
            inclusion = inclusion_probabilities(sizes, min(samples, words))
            self.sample = found_words.sample_of(inclusion, seed)

    def likeliest(
        self, head: SoftmaxHead, hidden: ArrayLike, k: int, at_least: int | None = None
    ) -> Found:
        """The k likeliest words that the index finds, with exact scores and an estimated ln Z.

        Args:
            head: the head that the index was built from.
            hidden: (..., D) float.
            k: how many words.
            at_least: how many of them the index must find, or None for k, unless the hidden state
                is not finite. Ids in the places that are left are -1, and their scores -inf.

        Raises:
            ValueError: if the head has other words or units than the index, or the index found
                fewer than `at_least` words, which within `tf.function` is an InvalidArgumentError.
            NotImplementedError: if XLA is to compile the search.
        """
        refuse_xla("A search with an `index` runs in Python and cannot be compiled by XLA")
        softmax = softmax_for(self, head)
        k = checked_k(k, head.vocab_size)
        rows, leading = flatten(head._as_hidden(hidden))
        if at_least is not None:
            at_least = checked_k(at_least, k, "at_least")
        sampled = 0 if self.sample is None else 4 * len(self.sample.ids)
        most = chunk_rows(4 * max(softmax.kernel.shape[1] * max(k, self.candidates), sampled))
        results = map_chunks(lambda part: self._best(part, softmax, k), rows, most)
        results = _with_enough(at_least or k, rows, *results)
        return Found(*(restore(t, leading, *t.shape[1:]) for t in results))

    def recall(self, head: SoftmaxHead, hidden: ArrayLike, k: int) -> float:
        """The share of the exact `head.top_k(hidden, k)` that the index finds, in [0, 1]."""
        lists = head.top_k(hidden, k)[0], self.likeliest(head, hidden, k).ids
        exact, ours = (np.reshape(ids, [-1, k]) for ids in lists)
        hits = sum(len(np.intersect1d(e[e >= 0], o)) for e, o in zip(exact, ours))
        return float(hits / np.sum(exact >= 0))

    def save(self, path: str | os.PathLike) -> None:
        """Writes the index to a file, for example beside the `.keras` file of the model."""
        about = {
            "candidates": self.candidates, "scale": self._scale, "weights_sha256": self._sha256
        }
        with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr("about.json", json.dumps(about))
            for name, values in (self.sample._asdict() if self.sample else {}).items():
                with archive.open(f"{name}.npy", "w") as part:
                    np.save(part, values)
            with archive.open("words.faiss", "w", force_zip64=True) as part:
                faiss.write_index(self._index, faiss.PyCallbackIOWriter(part.write))

    def write_faiss(self, path: str | os.PathLike) -> None:
        """Writes what `faiss.read_index` reads, for programs without tfsoftmax.

        It finds candidates for queries [h | scale], or h for a head without biases.
        """
        faiss.write_index(self._index, os.fspath(path))

    @classmethod
    @checks_arguments
    def load(cls, path: str | os.PathLike, head: SoftmaxHead, stale: bool = False) -> "WordIndex":
        """Reads an index from a file.

        Args:
            path: what `save` wrote. It must come from someone you trust.
            head: the head that it is for, with its weights.
            stale: whether the weights may have changed since the index was built. Recall is then
                lower; scores are still exact.

        Raises:
            ValueError: if the file is not an index, or the weights have changed.
        """
        index = cls.__new__(cls)
        try:
            with errors_name(path), zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read("about.json"))
                index.candidates, index._scale, index._sha256 = (
                    about[name] for name in ("candidates", "scale", "weights_sha256")
                )
                arrays = {}
                for name in set(found_words.Sample._fields) & {n[:-4] for n in archive.namelist()}:
                    with archive.open(f"{name}.npy") as part:
                        arrays[name] = np.load(part, allow_pickle=False)
                with archive.open("words.faiss") as part:
                    index._index = faiss.read_index(faiss.PyCallbackIOReader(part.read))
                    part.read()  # to the end, where the checksum of the file is compared
            check_positive(candidates=index.candidates)
            check_hint("scale", index._scale, float)
            sample = found_words.Sample(**arrays) if arrays else None
            index.sample = sample and found_words.checked_sample(sample, index.words)
        except _DAMAGED as error:
            raise refusal(f"{os.fspath(path)}:", "be an index that `save` wrote",
                          received=str(error) or type(error).__name__) from error
        expect(
            stale or index._sha256 == _sha256(head.vectors()), f"{os.fspath(path)}:",
            f"be an index of the present weights of {head.name!r}; build it again, or pass "
            "`stale=True`", received="an index of other weights",
        )
        return index

    @property
    def scale(self) -> float:
        """What replaces the 1 of [h | 1] in a query: 1 for all kinds but "hnsw"."""
        return self._scale

    @property
    def words(self) -> int:
        """V."""
        return self._index.ntotal

    @property
    def units(self) -> int:
        """D, or D + 1 for a head with biases."""
        return self._index.d

    def _best(self, hidden, softmax, k):
        kernel, bias, soft_cap = softmax.kernel, softmax.bias, softmax.soft_cap
        ids = self._candidates(hidden, bias is not None, k)
        scores = found_words.scores_of(hidden, kernel, bias, ids, soft_cap)
        highest, likeliest = best(k, (scores, ids))
        if self.sample is None:
            log_z = tf.reduce_logsumexp(scores, axis=1)
            error = tf.fill(tf.shape(log_z), float("nan"))
        else:
            log_z, error = found_words.estimated_log_z(
                hidden, kernel, bias, ids, scores, self.sample, soft_cap
            )
        words = found(likeliest, highest)
        return tuple(map(tf.stop_gradient, (*words, log_z, error)))

    def _candidates(self, hidden, with_bias, k):
        """Ids (N, C) int32 of words with large scores, in no order; -1 in empty places."""
        count = min(max(k, self.candidates), self.words)

        def searched(queries):
            return self._index.search(np.ascontiguousarray(queries), count)[1].astype(np.int32)

        queries = with_one(hidden, self._scale) if with_bias else tf.cast(hidden, tf.float32)
        ids = tf.numpy_function(searched, [queries], tf.int32, stateful=False)
        ids.set_shape([hidden.shape[0], count])
        return ids


def _with_enough(at_least, hidden, ids, *others):
    """What was found; an error if a position (N, k) has fewer ids than it must.

    Where a hidden state (N, D) is not finite, nothing can be found.
    """

    def checked(ids, able):
        of_able = ids[able]
        if (of_able[:, at_least - 1] < 0).any():  # empty places come last
            rule = f"find {at_least} words; give `kind` more `probes` or `breadth`"
            raise refusal("index", rule, received=f"{np.sum(of_able >= 0, 1).min()} of them")
        return ids

    shape = ids.shape
    able = tf.reduce_all(tf.math.is_finite(hidden), axis=1)
    ids = tf.numpy_function(checked, [ids, able], ids.dtype, stateful=False)
    return tf.ensure_shape(ids, shape), *others


def _sha256(vectors):
    return hashlib.sha256(vectors).hexdigest()

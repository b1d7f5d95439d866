"""Scores sentences by several workers, each of which has the whole model and some sentences."""

import contextlib
from collections.abc import Sequence

import numpy as np

from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.runs import runs
from tfsoftmax.sharding.workers import Workers


class SharedScorer(Scorer):
    """A `Scorer` whose method `sentences` several workers call together with the same sentences.

    Each scores a part of them that follow one another, since neighbours often share a beginning,
    and all get all scores. The workers do not share the text of `stream`.

    Args:
        workers: the `Workers`.
        *args, **kwargs: as in `Scorer`, with the model that `load` returns for the workers.

    Example:
        from tfsoftmax.sharding import workers
        from tfsoftmax.runs import shared_scoring
        alone = workers.Workers()
        model, vocabulary, _ = shared_scoring.load(alone, "runs/first", streams=128)
        scorer = shared_scoring.SharedScorer(alone, model, vocabulary)
        log_probs = scorer.sentences([["the", "number", "of", "bytes"], ["the", "name"]])
    """

    def __init__(self, workers: Workers, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._workers = workers

    def sentences(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """What `Scorer.sentences` returns, in each worker."""
        rank, size = self._workers.rank, self._workers.size
        if size == 1 or not sentences:
            return super().sentences(sentences)
        ends = np.cumsum([len(words) + 1 for words in sentences])
        # A sentence belongs to the worker in whose part of the words it ends.
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, size) / size, side="right")
        first, last = np.concatenate([[0], cuts, [len(sentences)]])[rank : rank + 2]
        scores = super().sentences(sentences[first:last])
        whole = np.zeros(ends[-1])
        if first < last:
            begin = ends[first - 1] if first else 0
            whole[begin : ends[last - 1]] = np.concatenate(scores)
        return np.split(self._workers.sum(whole), ends[:-1])


def load(workers: Workers, directory: str, streams: int) -> tuple:
    """`runs.load` of a model for a `SharedScorer`.

    One worker puts it on all its devices, unless it has one stream, which they cannot share. Of
    several workers, each uses one device, as they do not all have as much to score.

    Args:
        workers: the `Workers`.
        directory: the folder of the run.
        streams: the streams of each device.
    """
    all_devices = workers.size == 1 and streams > 1
    with workers.strategy.scope() if all_devices else contextlib.nullcontext():
        return runs.load(directory, streams, workers=workers)

"""Exports a model that retrieves items as a SavedModel of plain TensorFlow."""

import os
import re
from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf

from tfsoftmax.heads.inputs import checked_k
from tfsoftmax.heads.models import head_and_hidden_model
from tfsoftmax.heads.vectors import check_is_index, softmax_of
from tfsoftmax.ops.inputs import checked_ids
from tfsoftmax.ops.ranking import among, best, found, repeated
from tfsoftmax.retrieval.fitting import softmax_for
from tfsoftmax.retrieval.found_words import scores_of
from tfsoftmax.support.arguments import checks_arguments, expect
from tfsoftmax.support.saved_models import Words, export_functions

INDEX = "items.faiss"


@checks_arguments
def export_retrieval(
    model: keras.Model, folder: str | os.PathLike, k: int = 100, ids: Iterable[str] | None = None,
    exclude: bool = True, index: object | None = None, position: int | None = None,
) -> None:
    """Saves a model that returns the k best items of each query, to serve without tfsoftmax.

    The SavedModel has the signature

        retrieve(inputs of the model, exclude (B, E) string) ->
            ids (B, k) string, the best first; scores (B, k) float32, exact log-probabilities

    `exclude` are items to leave out, padded with empty strings; ids that the model does not know
    exclude nothing, and E may be any number. If fewer than k items are left, or fewer than k have a
    score that is not NaN, the last ids are empty and their scores -inf. The batch may have any
    size; the scores of all items are held in memory for a few queries at a time.

    With an index, "assets.extra/items.faiss" in the folder is what `faiss.read_index` reads, in
    Python or C++, and two more signatures search with it:

        query(inputs of the model) -> queries (B, D + 1) float32, what to search the index for
        rescore(queries, candidates (B, C) int64, exclude (B, E) string) ->
            ids and scores (B, k) as above, among the rows that the index found. -1 means no
            candidate, a row may appear twice, and C must be k or more. Scores are exact logits,
            which differ from the log-probabilities by ln Z of the query.

    Args:
        model: a functional or sequential model, one of whose outputs is that of a head. To export a
            model of your own class, make it the last layer of such a model,
            `keras.Model(inputs, own(inputs))`.
        folder: a new or empty directory. Files appear there only when the export is complete.
        k: how many items to return.
        ids: V distinct strings, the names of the items, in the order of the head's rows. None:
            the numbers of the rows.
        exclude: whether requests name items to exclude.
        index: a `tfsoftmax.search.WordIndex` of the head, or None.
        position: for a model of sequences, whose hidden states are (B, T, D), the time step that is
            the query: -1 for the last, if sequences are padded on the left.

    Raises:
        ValueError: an argument is out of its range, or does not fit the model.

    Example:
        history = keras.Input((5,), dtype="int32", name="history")
        hidden = keras.layers.GlobalAveragePooling1D()(tfsoftmax.Embedding(1000, 16)(history))
        model = keras.Model(history, tfsoftmax.SampledSoftmax(1000, 50)(hidden))
        tfsoftmax.export_retrieval(model, "served", k=10, ids=[f"item {i}" for i in range(1000)])
    """
    head, hidden_model = head_and_hidden_model(model)
    if index is not None:
        check_is_index(index)
        softmax_for(index, head)
    k = checked_k(k, head.vocab_size)
    ids = _checked_ids(map(str, range(head.vocab_size)) if ids is None else ids, head.vocab_size)
    inputs = [tf.TensorSpec(x.shape, x.dtype, name=x.name) for x in hidden_model.inputs]
    taken = {"exclude", "queries", "candidates"} & {x.name for x in inputs}
    rule = "have no inputs named exclude, queries or candidates, as the signatures have them"
    expect(not taken, "model", rule, received=str(sorted(taken)))
    wrong = [x.name for x in inputs if not re.fullmatch(r"[A-Za-z0-9.][A-Za-z0-9_.-]*", x.name)]
    rule = "have inputs whose names are letters, digits and _ only, as those of the signatures are"
    expect(not wrong, "model", rule, received=str(wrong))
    _check_position(hidden_model.outputs[0].shape, position)
    seen = [tf.TensorSpec([None, None], tf.string, name="exclude")] if exclude else []

    def functions(ids_of, words_of):
        parts = _Served(head, hidden_model, ids_of, words_of, k, position)
        result = {"retrieve": (parts.retrieve, *inputs, *seen)}
        if index is not None:
            softmax = softmax_of(head)
            size = softmax.kernel.shape[1] + (softmax.bias is not None)
            queries = tf.TensorSpec([None, size], name="queries")
            candidates = tf.TensorSpec([None, None], tf.int64, name="candidates")
            result["query"] = (lambda *inputs: parts.query(inputs, index.scale), *inputs)
            result["rescore"] = (parts.rescore, queries, candidates, *seen)
        return result

    beside = {} if index is None else {INDEX: index.write_faiss}
    words = Words(_saver(ids), -1, "", "items.txt")
    export_functions(functions, words, folder, beside, [hidden_model, head], "folder")


class _Served:
    """The functions behind the signatures."""

    def __init__(self, head, hidden_model, ids_of, words_of, k, position):
        self.head, self.hidden_model, self.k = head, hidden_model, k
        self.ids_of, self.words_of, self.position = ids_of, words_of, position

    def retrieve(self, *arguments):
        count = len(self.hidden_model.inputs)
        inputs, seen = arguments[:count], arguments[count:]
        hidden, exclude = self._hidden(inputs), self._rows(*seen) if seen else None
        return self._named(*self.head.top_k(hidden, self.k, exclude=exclude))

    def query(self, inputs, scale):
        hidden = self._hidden(inputs)
        queries = self.head.queries(hidden)
        if queries.shape[1] > hidden.shape[1]:
            queries = tf.concat([queries[:, :-1], scale * queries[:, -1:]], 1)
        return {"queries": queries}

    def rescore(self, queries, candidates, *seen):
        softmax = softmax_of(self.head)
        kernel, bias, soft_cap = softmax.kernel, softmax.bias, softmax.soft_cap
        candidates = checked_ids(candidates, self.head.vocab_size, "candidates", least=-1)[0]
        candidates = tf.where(repeated(candidates), -1, candidates)
        if getattr(self.head, "not_items", ()):
            candidates = tf.where(self.head._is_none(candidates), -1, candidates)
        if seen:
            candidates = tf.where(among(candidates, self._rows(*seen)), -1, candidates)
        hidden = tf.cast(queries[:, : kernel.shape[1]], self.head.compute_dtype)
        scores = scores_of(hidden, kernel, bias, candidates, soft_cap)
        scores, ids = best(self.k, (scores, candidates))
        return self._named(*found(ids, scores))

    def _hidden(self, inputs):
        hidden = self.hidden_model(list(inputs), training=False)
        return hidden if self.position is None else hidden[:, self.position]

    def _rows(self, words):
        return tf.cast(self.ids_of.lookup(words), tf.int32)

    def _named(self, ids, scores):
        return {"ids": self.words_of.lookup(tf.cast(ids, tf.int64)), "scores": scores}


def _check_position(shape, position):
    received = f"hidden states of shape {shape}"
    if position is None:
        rule = "make one query (B, D) of each sample; else give `position`"
        expect(len(shape) == 2, "model", rule, received=received)
        return
    expect(len(shape) == 3, "position", "be None unless hidden states are (B, T, D)",
           received=received)
    steps = shape[1]
    fits = steps is None or -steps <= position < steps
    expect(fits, "position", f"lie in [-{steps}, {steps})", position)


def _saver(ids: Sequence[str]):
    def save(path):
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{name}\n" for name in ids)

    return save


def _checked_ids(ids, items):
    ids = list(ids)
    wrong = [x for x in ids if not isinstance(x, str) or not x or {*"\t\r\n"} & {*x}]
    rule = "be strings that are not empty and have no tabs and no ends of lines"
    expect(not wrong, "ids", rule, wrong)
    kinds, rule = len(set(ids)), f"be {items} different strings, one for each item"
    expect(len(ids) == kinds == items, "ids", rule, received=f"{len(ids)}, of which {kinds} differ")
    return ids

"""Bad arguments of every public name, by its signature and a table of arguments that are valid.

The names are those that modules list: a name without an entry fails a test. An entry has one use
or several: a call with valid arguments, of which each in turn is made wrong as its kind says, and
what shows a mistake that the call itself does not. The options of the heads of `HEADS` and of the
samplers of `SAMPLERS` are in `arguments`.
"""

import dataclasses
import importlib.util
import inspect
import math
import os
import tempfile
import types
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

import tfsoftmax
from cases import UNITS, positions, spelled
from tfsoftmax import metrics, optimizers, samplers
from tfsoftmax.lm.config import ModelConfig, Seq2SeqConfig
from tfsoftmax.partitions import tree, tree_builders

from .arguments import BAD, HIDDEN, LABELS, V, bigrams, is_allowed, named, one_step
from .cases import Case

COUNTS = np.arange(V, 0, -1)
WORDS = ["<unk>", "<eos>", *(f"w{i}" for i in range(V - 2))]
STREAM = [[1, 2, 1], [2, 3, 1], [7, 8, 9], [8, 9, 9]]
# Names that users get, but do not make, and bases of which they make subclasses.
RESULTS = {"samplers.Audit", "samplers.Candidates", "search.Found"}
BASES = {"SoftmaxHead", "samplers.Sampler", "optimizers.SparseRows"}
HUGE = (2**32, 2**32 + 1, 2**62, -(2**32))  # what a cast to int32 makes 0, 1, 0 and 0


@dataclasses.dataclass(frozen=True)
class Use:
    """A call of a public name.

    Attributes:
        call: what is called with the arguments, by name.
        valid: arguments that are valid; all others have defaults.
        then: what to do with the result.
        of: what has the signature, if not `call`.
        kinds: {argument: kind}, where the hint does not tell.
        group: the row of the report.
    """

    call: Callable
    valid: dict = dataclasses.field(default_factory=dict)
    then: Callable = lambda result: None
    of: Callable | None = None
    kinds: dict = dataclasses.field(default_factory=dict)
    group: str = "public names"


def public_names():
    """{name: object} of the classes and functions that the package and its modules list."""
    found = {n: getattr(tfsoftmax, n) for n in tfsoftmax.__all__}
    for name in [*found]:
        if isinstance(found[name], types.ModuleType):
            module = found.pop(name)
            found |= {f"{name}.{n}": getattr(module, n) for n in getattr(module, "__all__", ())}
    if importlib.util.find_spec("faiss"):
        found |= {f"search.{n}": getattr(tfsoftmax.search, n) for n in ("Found", "WordIndex")}
    kept, seen = {}, []
    for name, value in found.items():
        if (inspect.isclass(value) or inspect.isfunction(value)) and value not in seen:
            seen.append(value)
            kept[name] = value
    return kept


def table():
    """{name: uses} of the public names, and of a few others that users call."""
    vocabulary = tfsoftmax.Vocabulary(WORDS, COUNTS)
    small = {"embedding_units": 4, "hidden_units": 4, "attention_heads": 1}
    ids, states = {"words": "ids"}, {"hidden": "states"}
    recurrent = {"valid": {"units": 3}, "then": lambda layer: layer(HIDDEN[None])}
    head = _built(tfsoftmax.SampledSoftmax(V, 5, "uniform"))
    both = {"input_dim": V, "output_dim": UNITS}
    logits = {"ignore_class": "class", "dtype": "name"}

    def calls(made, kinds, **valid):
        return Use(lambda **given: made(*given.values()), valid, of=made.call, kinds=kinds)

    def metric(cls, head_of=None, **valid):
        def then(made):
            made.update_state(LABELS, (head_of or head)(HIDDEN))
            made.result()

        return [Use(cls, valid, then, kinds=logits, group="losses and metrics")]

    organised = _built(tfsoftmax.SelfOrganisedSoftmax(V, counts=COUNTS))
    tower = tfsoftmax.ItemTower(keras.layers.Dense(4), np.ones((V, 3)))
    negatives = tfsoftmax.HardNegatives(6, 2)
    model = retrieval_model()
    uniform = samplers.Uniform(V)
    draw = {"labels": LABELS, "num_samples": 5, "seed": 1}

    def draws(made, **more):
        method = made.sample_for_each if made.reads_previous_word else made.sample
        kinds = {"labels": "ids", "before": "ids", "num_samples": int, "seed": "draw seed"}
        return Use(method, draw | more, kinds=kinds, group="draws")

    entries = {
        "Embedding": [Use(tfsoftmax.Embedding, both, lambda e: e(LABELS)),
                      calls(tfsoftmax.Embedding(V, UNITS), ids, words=LABELS)],
        "ShardedEmbedding": [Use(tfsoftmax.ShardedEmbedding, both, lambda e: e(LABELS)),
                             calls(tfsoftmax.ShardedEmbedding(V, UNITS), ids, words=LABELS)],
        "AdaptiveEmbedding": [
            Use(tfsoftmax.AdaptiveEmbedding, both | {"cutoffs": [4]}, lambda e: e(LABELS)),
            calls(tfsoftmax.AdaptiveEmbedding(V, UNITS, [4]), ids, words=LABELS),
        ],
        "CharacterEmbedding": [Use(
            tfsoftmax.CharacterEmbedding, both | {"words": spelled(V), "filters": [2, 1]},
            lambda e: e(LABELS), kinds={"words": "words", "filters": "filters"},
        ), calls(tfsoftmax.CharacterEmbedding(V, UNITS, spelled(V)), ids, words=LABELS)],
        "ItemTower": [
            Use(lambda **given: tfsoftmax.ItemTower(**{"model": keras.layers.Dense(4), **given}),
                {"model": keras.layers.Dense(4), "features": np.ones((V, 3))},
                lambda made: made(LABELS), of=tfsoftmax.ItemTower,
                kinds={"features": "features", "model": "model"}),
            calls(tower, ids, words=LABELS),
        ],
        "HardNegatives": [
            Use(tfsoftmax.HardNegatives, {"num_queries": 6, "num_negatives": 2},
                lambda made: made([0, 1])),
            calls(tfsoftmax.HardNegatives(V, 2), {"queries": "ids"}, queries=LABELS),
        ],
        "MineHardNegatives": [Use(
            tfsoftmax.MineHardNegatives, {"negatives": negatives, "inputs": np.arange(6)},
            lambda made: _fit(made, *mined_model(negatives)), kinds={"inputs": "inputs"},
        )],
        "AdjustNumSamples": [Use(
            tfsoftmax.AdjustNumSamples, {"target": 3.0}, _fit_sampled, kinds={"monitor": "monitor"},
        )],
        "Reassign": [Use(tfsoftmax.Reassign, {"every": 2})],
        "TrainingMonitor": [Use(
            tfsoftmax.TrainingMonitor, {"log_dir": tempfile.gettempdir()},
            kinds={"profile_batch": "two steps"},
        )],
        **{name: [Use(getattr(tfsoftmax, name), **recurrent, kinds={"backend": "mode"})]
           for name in ("LSTM", "GRU", "SimpleRNN")},
        "TransformerBlock": [Use(
            tfsoftmax.TransformerBlock, {"units": UNITS - 1, "attention_heads": 1},
            lambda layer: layer(HIDDEN[None, :, :-1]), of=tfsoftmax.layers.transformer.TransformerCell,
        )],
        "TopK": [Use(tfsoftmax.TopK, {"head": head, "k": 3}, lambda made: made(HIDDEN)),
                 calls(tfsoftmax.TopK(head, 3), states | {"exclude": "lists"},
                       hidden=HIDDEN, exclude=LABELS[:, None])],
        "LogProb": [Use(tfsoftmax.LogProb, {"head": head}, lambda made: made(HIDDEN, LABELS)),
                    calls(tfsoftmax.LogProb(head), states | {"labels": "ids"},
                          hidden=HIDDEN, labels=LABELS)],
        "SampledSoftmax": [
            Use(head.training_loss, kinds=states | {"labels": "ids", "hard_negatives": "lists"},
                valid={"hidden": HIDDEN, "labels": LABELS, "hard_negatives": LABELS[:, None]}),
            Use(head.top_k, {"hidden": HIDDEN, "k": 3, "exclude": LABELS[:, None]},
                kinds=states | {"exclude": "lists", "k": int, "index": "index"}),
        ],
        "TreeSoftmax": [Use(
            _built(tfsoftmax.TreeSoftmax(V)).sample, {"hidden": HIDDEN, "seed": (1, 2)},
            kinds=states | {"seed": "draw seed"},
        )],
        "SoftmaxLoss": [
            Use(tfsoftmax.SoftmaxLoss, {}, lambda loss: loss(LABELS, head(HIDDEN)), kinds=logits),
            Use(lambda **given: tfsoftmax.SoftmaxLoss()(y_pred=head(HIDDEN), **given),
                {"y_true": LABELS, "sample_weight": np.ones(len(LABELS))},
                of=lambda y_true, sample_weight: None,
                kinds={"y_true": "ids", "sample_weight": "weights"}),
        ],
        "Perplexity": metric(tfsoftmax.Perplexity), "Normaliser": metric(tfsoftmax.Normaliser),
        "EffectiveSampleSize": metric(tfsoftmax.EffectiveSampleSize),
        "ClusterPerplexity": metric(tfsoftmax.ClusterPerplexity, organised),
        "InClusterPerplexity": metric(tfsoftmax.InClusterPerplexity, organised),
        **{f"metrics.{name}": metric(getattr(metrics, name))
           for name in ("MRR", "NDCG", "RecallAtK", "Accuracy", "TopKAccuracy")},
        "metrics.NatsByFrequency": metric(metrics.NatsByFrequency, counts=COUNTS),
        "Vocabulary": [Use(tfsoftmax.Vocabulary, {"words": WORDS, "counts": COUNTS},
                           kinds={"counts": "occurrences", "words": "vocabulary"})],
        "ModelConfig": [Use(ModelConfig, small, lambda c: tfsoftmax.language_model(
            c, vocabulary, 2))],
        "Seq2SeqConfig": [Use(Seq2SeqConfig, small, lambda c: tfsoftmax.encoder_decoder(
            c, vocabulary))],
        "language_model": [Use(tfsoftmax.language_model, {
            "config": ModelConfig(**small), "vocabulary": vocabulary, "streams": 2})],
        "encoder_decoder": [Use(tfsoftmax.encoder_decoder, {
            "config": Seq2SeqConfig(**small), "vocabulary": vocabulary})],
        "export_retrieval": [Use(
            tfsoftmax.export_retrieval, {"model": model, "folder": _Folder(), "k": 3},
            kinds={"index": "index", "ids": "names", "folder": "folder", "model": "model"},
        )],
        **{f"optimizers.{name}": [Use(
            getattr(optimizers, name), {}, one_step, group="options of optimisers",
        )] for name in ("SGD", "Adagrad", "Adam", "AdamW")},
        "optimizers.sum_duplicates": [Use(optimizers.sum_duplicates, {
            "gradient": tf.IndexedSlices(tf.ones([2, 3]), tf.constant([1, 1]))})],
        "samplers.Uniform": [draws(uniform)],
        "samplers.LogUniform": [draws(samplers.LogUniform(V))],
        "samplers.Unigram": [draws(samplers.Unigram(V, COUNTS))],
        "samplers.Interpolated": [draws(samplers.Interpolated(V, COUNTS)), Use(
            samplers.Interpolated, {"vocab_size": V, "counts": COUNTS},
            kinds={"counts": "counts", "unigram_weight": "share"},
        )],
        "samplers.LearnedUnigram": [draws(samplers.LearnedUnigram(V)), Use(
            samplers.LearnedUnigram(V).update, {"labels": LABELS}, kinds={"labels": "ids"},
        )],
        "samplers.InBatch": [Use(
            samplers.InBatch(V, COUNTS).sample, draw, group="draws",
            kinds={"labels": "ids or none", "num_samples": "words or none", "seed": "draw seed",
                   "label_smoothing": "free"},
        )],
        "samplers.Bigram": [draws(samplers.Bigram(V, bigrams(V)), before=LABELS)],
        "samplers.OnlineBigram": [draws(samplers.OnlineBigram(V), before=LABELS)],
        "samplers.TargetSampling": [Use(
            samplers.TargetSampling, {"vocab_size": V, "vocabularies": [[1, 2], [3, 4]],
                                      "ends": [1, 2]},
            kinds={"vocabularies": "rows of ids", "ends": "ends"},
        )],
        "samplers.target_vocabularies": [Use(
            samplers.target_vocabularies, {"label_batches": STREAM, "vocab_size": V,
                                           "num_samples": 4},
            kinds={"label_batches": "rows of ids"},
        )],
        "samplers.audit_sampler": [Use(samplers.audit_sampler, {
            "sampler": uniform, "num_samples": 5, "draws": 3})],
        "samplers.get_sampler": [Use(
            lambda sampler, vocab_size: samplers.get_sampler(sampler, vocab_size),
            {"sampler": "uniform", "vocab_size": V}, kinds={"sampler": "sampler", "vocab_size": int},
        )],
        "partitions.tree.Tree": [
            Use(tree.Tree, {"sizes": [2, 2], "words": [2, -1, 0, 1]},
                kinds={"sizes": "ends", "words": "ends"}),
            Use(tree.Tree.from_config, {"config": {"sizes": 2, "words": [2, -1, 0, 1]}},
                kinds={"config": "tree"}),
        ],
        "partitions.tree_builders.from_nested": [Use(
            tree_builders.from_nested, {"nested": [[0, 1], 2]}, kinds={"nested": "nested"},
        )],
        "partitions.tree_builders.from_codes": [Use(
            tree_builders.from_codes, {"codes": ["00", "01", "1"]}, kinds={"codes": "codes"},
        )],
    }
    if importlib.util.find_spec("faiss"):
        from tfsoftmax.search import WordIndex

        index = WordIndex(head)
        entries["search.WordIndex"] = [
            Use(WordIndex, {"head": head, "samples": 5}, lambda made: made.likeliest(
                head, HIDDEN, 3), kinds={"counts": "counts", "kind": "mode"}),
            Use(index.likeliest, {"head": head, "hidden": HIDDEN, "k": 3}, kinds=states),
            Use(WordIndex.load, {"path": _Saved(index), "head": head},
                kinds={"path": "folder"}),
        ]
    return entries


class _Folder:
    """A new folder each time that it is asked for."""

    def __call__(self):
        return os.path.join(tempfile.mkdtemp(), "new")


class _Saved:
    """The path of an index in a file."""

    def __init__(self, index):
        self.index = index

    def __call__(self):
        path = os.path.join(tempfile.mkdtemp(), "index")
        self.index.save(path)
        return path


def _built(head):
    head.build((None, UNITS))
    return head


def retrieval_model():
    inputs = keras.Input((UNITS,), name="query")
    return keras.Model(inputs, tfsoftmax.SampledSoftmax(V, 5, "uniform")(inputs))


def mined_model(negatives):
    users = keras.Input((), dtype="int32")
    head = tfsoftmax.SampledSoftmax(V, 5, "uniform")
    model = keras.Model(users, head(tfsoftmax.Embedding(6, 4)(users), negatives(users)))
    return model, np.arange(6)


def _fit(callback, model, inputs):
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), run_eagerly=True)
    model.fit(inputs, np.arange(6), 6, epochs=2, verbose=0, callbacks=[callback])


def _fit_sampled(callback):
    model = keras.Sequential([tfsoftmax.SampledSoftmax(V, 4, "uniform")])
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), run_eagerly=True,
                  weighted_metrics=[tfsoftmax.EffectiveSampleSize()])
    model.fit(HIDDEN, LABELS, verbose=0, callbacks=[callback])


def _ragged(array):
    return tf.RaggedTensor.from_row_lengths(array, [1, len(array) - 1])


def wrong_arrays(array):
    """Ids that are wrong, from valid ones: (name, value)."""
    def one(value, dtype):
        changed = np.array(array, dtype)
        changed.flat[1] = value
        return changed

    yield from ((f"an id of {value}", one(value, np.int64)) for value in (V, *HUGE, -1, -V))
    yield from ((f"an id of {value}", one(value, np.float64)) for value in (0.5, math.nan, math.inf))
    yield "an id of 2**64 - 1", one(2**64 - 1, np.uint64)
    yield from (("booleans", array > 3), ("texts", array.astype(str)), ("complex", array + 1j))
    yield from (("None", None), ("a text", "words"), ("an object", object()))
    yield "sparse", tf.sparse.from_dense(array)
    yield "ragged", _ragged(array)


def wrong_values(kind, valid):
    """What is wrong for a kind: (name, value)."""
    if kind in ("ids", "ids or none", "lists"):
        for name, value in wrong_arrays(np.asarray(valid)):
            if name not in {"ids or none": ("an id of -1",),
                            "lists": ("an id of -1", "None")}.get(kind, ()):
                yield name, value
        return
    for value in WRONG.get(kind, BAD.get(kind, ())):
        yield repr(value)[:60], value


OBJECT = object()
WRONG = {
    str: [3, OBJECT, ["a"], b"a", math.nan],
    object: [OBJECT, 3, 2.5, "nonsense", [OBJECT]],
    "object": [OBJECT],
    "class": ["no", 1.5, math.nan, [3], True],
    "states": [None, OBJECT, "h", HIDDEN[:, :3], HIDDEN.astype(complex), HIDDEN.astype(str),
               _ragged(HIDDEN), tf.sparse.from_dense(HIDDEN), np.float32(1)],
    "weights": [OBJECT, "h", np.full(6, "a"), np.ones(6, complex), np.ones((6, 2)), np.ones(5),
                _ragged(np.ones(6))],
    "features": [None, OBJECT, [], 1.0, np.ones(V), np.ones((V, 3), complex), _ragged(np.ones(V)),
                 tf.sparse.from_dense(np.ones((V, 3))), [[1, 2], [3]], {"a": None}, {},
                 np.full((V, 3), "a")],
    "model": [None, OBJECT, 3, "model", lambda x: x, keras.layers.Flatten],
    "inputs": [None, OBJECT, 3, "a", np.arange(5), np.arange(6)[:, None, None] / 2,
               np.full(6, "a"), [], {"a": np.arange(6)}, np.arange(6) + 2**32],
    "index": [OBJECT, 3, "index", [1], True],
    "names": [OBJECT, 3, "a" * V, [1] * V, [f"{i}" for i in range(V - 1)], ["a"] * V, {}],
    "folder": [OBJECT, 3, None, "", ["a"], os.devnull, os.path.dirname(__file__)],
    "draw seed": [1.5, None, "a", True, [1, 2, 3], [1.5, 2], OBJECT, [], 2**70],
    "rows of ids": [OBJECT, 3, None, "ab", [], [[0, V]], [[-1, 0]], [[0.5, 1]], [[2**32, 1]],
                    [["a", "b"]], [[math.nan, 1.0]]],
    "ends": [OBJECT, "ab", None, [0.5, 1.5], ["a"], [[1, 2]], [2**40, 2**41], [math.nan] * 2, []],
    "share": [*BAD[float], {}, {"class_name": "Odd", "config": {}}, 2.0, OBJECT],
    "words or none": [-1, 0, 1.5, "3", True, [2], OBJECT],
    "nested": [3, [], [0, 1.5], [0, "a"], [0, [True, 1]], None, OBJECT, [[]], [0, 0], [0, 2**40]],
    "codes": [[], "0101", [0, 1], ["0", "01"], None, OBJECT, [b"0"]],
    "two steps": [(1,), (0, 1), (2, 1), (1.5, 2), ("1", "2"), 3, "ab", OBJECT, (True, True)],
    "filters": [[-1], [0.5], ["a"], [True], 3, "ab", [0], OBJECT],
    "occurrences": [[1.5] * V, [math.nan] * V, ["a"] * V, [1] * (V - 1), 3, None, OBJECT,
                    [2**70] * V, [-1] * V],
    "vocabulary": [3, None, OBJECT, "ab", [1] * V, ["a b", *WORDS[1:]], WORDS[1:], [*WORDS[1:], ""]],
    "monitor": [3, None, "loss_of_another", OBJECT],
    "name": [3, OBJECT, "float33", []],
}


def kind_of(parameter, kinds):
    """(kind, whether None is valid) of an argument, by its name, its hint or its default."""
    hint, name = parameter.annotation, parameter.name
    optional = "None" in str(hint) or parameter.default is None
    if name in kinds:
        return kinds[name], optional and name not in ("words", "seed")
    text = inspect.formatannotation(hint).removesuffix(" | None")
    known = {"bool": bool, "int": int, "float": float, "str": str}
    if text in known:
        return known[text], optional
    if name in BAD:
        return name, optional
    if hint is inspect.Parameter.empty and type(parameter.default) in known.values():
        return type(parameter.default), optional
    return "object", optional


def signature(use):
    """{name: parameter} that can be made wrong, of a class also those that it passes on."""
    target = use.of or use.call
    if not inspect.isclass(target):
        functions = [target]
    else:
        own = [c for c in target.__mro__ if c.__module__.startswith("tfsoftmax")]
        functions = [c.__init__ for c in own if "__init__" in vars(c)] or [target.__init__]
    found = {}
    for function in functions:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                found.setdefault(name, parameter)
    for name in ("self", "training", "mask", *getattr(target, "decided_options", ())):
        found.pop(name, None)
    return found


def cases_of(name, use):
    """The cases of one use of a public name."""
    for option, parameter in signature(use).items():
        kind, optional = kind_of(parameter, use.kinds)
        for shown, value in wrong_values(kind, use.valid.get(option)):
            if value is None and optional:
                continue

            def run(option=option, value=value, kind=kind, optional=optional, shown=shown):
                valid = {n: v() if isinstance(v, (_Folder, _Saved)) else v
                         for n, v in use.valid.items()}
                result = use.call(**(valid | {option: value}))
                use.then(result)
                if is_taken_rightly(kind, value, optional):
                    return None
                return f"silent: {option}: {shown} was taken"

            told = {"sampler_options": "alpha"}.get(option, option)
            yield Case(f"{name}({option}: {shown})", use.group, run, named(told))


def is_taken_rightly(kind, value, optional):
    """Whether a value that was taken is right after all, so that nothing is silent."""
    if kind in (bool, int, float):
        return is_allowed(kind, value, optional)
    return kind in BAD or (kind == "draw seed" and value is True)


def cases():
    """All of them, in a fixed order."""
    return [case for name, uses in table().items() for use in uses for case in cases_of(name, use)]

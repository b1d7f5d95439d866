"""Valid arguments of the public names, from which `public` derives the wrong ones."""

import dataclasses
import importlib.util
import os
import tempfile
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

import tfsoftmax
from cases import UNITS, spelled
from tfsoftmax import ModelConfig, Seq2SeqConfig, metrics, optimizers, samplers
from tfsoftmax.layers.transformer import TransformerCell
from tfsoftmax.partitions import tree, tree_builders

from .arguments import HIDDEN, LABELS, V, bigrams, one_step
from .wrong import WORDS

COUNTS = np.arange(V, 0, -1)
STREAM = [[1, 2, 1], [2, 3, 1], [7, 8, 9], [8, 9, 9]]
_PLACE = tempfile.TemporaryDirectory()  # it is removed with the process


@dataclasses.dataclass(frozen=True)
class Use:
    """A call of a public name.

    Attributes:
        call: what is called with the arguments, by name.
        valid: arguments that are valid; all others have defaults.
        then: what to do with the result.
        of: what has the signature, if not `call`.
        kinds: {argument: kind}, where the hint does not tell.
        told: {argument: a pattern of what else an error may name}.
        group: the row of the report.
    """

    call: Callable
    valid: dict = dataclasses.field(default_factory=dict)
    then: Callable = lambda result: None
    of: Callable | None = None
    kinds: dict = dataclasses.field(default_factory=dict)
    told: dict = dataclasses.field(default_factory=dict)
    group: str = "public names"


def table():
    """{name: uses} of the public names, and of a few others that users call."""
    vocabulary = tfsoftmax.Vocabulary(WORDS, COUNTS)
    small = {"embedding_units": 4, "hidden_units": 4, "attention_heads": 1}
    ids, states, tensors = {"words": "ids"}, {"hidden": "states"}, {"hidden": "tensors"}
    recurrent = {"valid": {"units": 3}, "then": lambda layer: layer(HIDDEN[None])}
    head = _built(tfsoftmax.SampledSoftmax(V, 5, "uniform"))
    both = {"input_dim": V, "output_dim": UNITS}
    logits = {"ignore_class": "class", "dtype": "name"}

    def calls(made, kinds, **valid):
        return Use(lambda **given: made(**given), valid, of=made.call, kinds=kinds)

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
        method = made.sample_for_each if made.units else made.sample
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
                lambda made: made(np.arange(2))),
            calls(tfsoftmax.HardNegatives(V, 2), {"queries": "ids"}, queries=LABELS),
        ],
        "MineHardNegatives": [Use(
            tfsoftmax.MineHardNegatives, {"negatives": negatives, "inputs": np.arange(6)},
            lambda made: _fit(made, *mined_model(negatives)), kinds={"inputs": "inputs"},
        )],
        "AdjustNumSamples": [Use(
            tfsoftmax.AdjustNumSamples, {"target": 3.0}, _fit_sampled, kinds={"monitor": "monitor"},
        )],
        "with_items": [Use(
            tfsoftmax.with_items, {"model": model, "before": [*range(V), -1]},
            kinds={"before": "earlier ids", "features": "features"},
        )],
        "move_items": [Use(
            tfsoftmax.move_items, {"model": model, "new": retrieval_model(), "before": range(V)},
            kinds={"before": "earlier ids"},
        )],
        "mend_keras": [],  # which has no arguments
        "Reassign": [Use(tfsoftmax.Reassign, {"every": 2})],
        "TrainingMonitor": [Use(
            tfsoftmax.TrainingMonitor, {"log_dir": tempfile.gettempdir()},
            kinds={"profile_batch": "two steps"},
        )],
        **{name: [Use(getattr(tfsoftmax, name), **recurrent, kinds={"backend": "mode"})]
           for name in ("LSTM", "GRU", "SimpleRNN")},
        "TransformerBlock": [Use(
            tfsoftmax.TransformerBlock, {"units": UNITS - 1, "attention_heads": 1},
            lambda layer: layer(HIDDEN[None, :, :-1]), of=TransformerCell,
        )],
        "TopK": [Use(tfsoftmax.TopK, {"head": head, "k": 3}, lambda made: made(HIDDEN)),
                 calls(tfsoftmax.TopK(head, 3), tensors | {"exclude": "lists"},
                       hidden=HIDDEN, exclude=LABELS[:, None])],
        "LogProb": [Use(tfsoftmax.LogProb, {"head": head}, lambda made: made(HIDDEN, LABELS)),
                    calls(tfsoftmax.LogProb(head), tensors | {"labels": "ids"},
                          hidden=HIDDEN, labels=LABELS)],
        "SampledSoftmax": [
            Use(head.training_loss, kinds=states | {"labels": "ids", "hard_negatives": "lists"},
                valid={"hidden": HIDDEN, "labels": LABELS, "hard_negatives": LABELS[:, None]}),
            Use(head.top_k, {"hidden": HIDDEN, "k": 3, "exclude": LABELS[:, None]},
                kinds=states | {"exclude": "lists", "k": int, "index": "index"}),
        ],
        "CubicScores": [Use(
            tfsoftmax.CubicScores, {"vocab_size": V}, lambda made: made.training_loss(
                HIDDEN, LABELS), group="options of heads",
        ), Use(_built(tfsoftmax.CubicScores(V)).training_loss, {
            "hidden": HIDDEN, "labels": LABELS}, kinds=states | {"labels": "ids"})],
        "SampledObjective": [Use(
            tfsoftmax.SampledObjective, {"vocab_size": V, "num_samples": 3, "objective": "gbce"},
            lambda made: made.training_loss(HIDDEN, LABELS), group="options of heads",
        )],
        "TreeSoftmax": [Use(
            _built(tfsoftmax.TreeSoftmax(V)).sample, {"hidden": HIDDEN, "seed": (1, 2)},
            kinds=states | {"seed": "draw seed"},
        )],
        "SoftmaxLoss": [
            Use(tfsoftmax.SoftmaxLoss, {}, lambda loss: loss(LABELS, head(HIDDEN)), kinds=logits),
            Use(lambda **given: tfsoftmax.SoftmaxLoss()(y_pred=head(HIDDEN), **given),
                {"y_true": LABELS, "sample_weight": np.ones(len(LABELS))},
                of=lambda y_true, sample_weight: None,
                kinds={"y_true": "ids", "sample_weight": "weights"},
                told={"y_true": "`labels`|`sample_weight`"}),
        ],
        "Perplexity": metric(tfsoftmax.Perplexity), "Normaliser": metric(tfsoftmax.Normaliser),
        "EffectiveSampleSize": metric(tfsoftmax.EffectiveSampleSize),
        "ClusterPerplexity": metric(tfsoftmax.ClusterPerplexity, organised),
        "InClusterPerplexity": metric(tfsoftmax.InClusterPerplexity, organised),
        **{f"metrics.{name}": metric(getattr(metrics, name))
           for name in (
               "MAP", "MRR", "NDCG", "RecallAtK", "PrecisionAtK", "Accuracy", "TopKAccuracy",
           )},
        "metrics.Coverage": metric(metrics.Coverage, vocab_size=V),
        "metrics.NatsByFrequency": metric(metrics.NatsByFrequency, counts=COUNTS),
        "Vocabulary": [Use(tfsoftmax.Vocabulary, {"words": WORDS, "counts": COUNTS},
                           kinds={"counts": "occurrences", "words": "vocabulary"},
                           told={"words": "`counts`"})],
        "ModelConfig": [Use(ModelConfig, small, lambda c: tfsoftmax.language_model(
            c, vocabulary, 2))],
        "Seq2SeqConfig": [Use(Seq2SeqConfig, small, lambda c: tfsoftmax.encoder_decoder(
            c, vocabulary))],
        "language_model": [Use(tfsoftmax.language_model, {
            "config": ModelConfig(**small), "vocabulary": vocabulary, "streams": 2})],
        "advise": [Use(tfsoftmax.advise, {
            "vocab_size": 100, "units": 4, "positions": 8, "only": ["full"], "seconds": 5.0,
        }, kinds={"counts": "occurrences"})],
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
            samplers.LearnedUnigram(V).update, {"labels": LABELS}, kinds={"labels": "ids or none"},
        )],
        "samplers.Excluding": [
            draws(samplers.Excluding(V, [0], samplers.Uniform(V - 1))),
            Use(samplers.Excluding,
                {"vocab_size": V, "exclude": [0], "sampler": samplers.Uniform(V - 1)},
                kinds={"exclude": "excluded", "sampler": "object"}),
        ],
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
            kinds={"vocabularies": "rows of ids", "ends": "batches"},
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
            {"sampler": "uniform", "vocab_size": V},
            kinds={"sampler": "sampler", "vocab_size": int},
        )],
        "partitions.tree.Tree": [
            Use(tree.Tree, {"sizes": [2, 2], "words": [2, -1, 0, 1]},
                kinds={"sizes": "ends", "words": "ends"}),
            Use(tree.Tree.from_config, {"config": {"sizes": 2, "words": [2, -1, 0, 1]}},
                kinds={"config": "tree"}),
        ],
        "partitions.tree_builders.from_nested": [Use(
            tree_builders.from_nested, {"nested": [[0, 1], 2]}, kinds={"nested": "nested"},
            told={"nested": "`words`"},
        )],
        "partitions.tree_builders.from_codes": [Use(
            tree_builders.from_codes, {"codes": ["00", "01", "1"]}, kinds={"codes": "codes"},
        )],
    }
    if importlib.util.find_spec("faiss"):
        from tfsoftmax.retrieval.search import WordIndex

        index = WordIndex(head)
        entries["search.WordIndex"] = [
            Use(WordIndex, {"head": head, "samples": 5}, lambda made: made.likeliest(
                head, HIDDEN, 3), kinds={"counts": "counts", "kind": "mode"}),
            Use(index.likeliest, {"head": head, "hidden": HIDDEN, "k": 3}, kinds=states),
            Use(WordIndex.load, {"path": _Saved(index), "head": head},
                kinds={"path": "folder"}, told={"path": "''|/dev/null|/torture'"}),
        ]
    return entries


def with_paths(valid):
    """Valid arguments, with a new path for each that needs one."""
    return {n: v() if isinstance(v, (_Folder, _Saved)) else v for n, v in valid.items()}


class _Folder:
    """A new folder each time that it is asked for."""

    def __call__(self):
        return os.path.join(tempfile.mkdtemp(dir=_PLACE.name), "new")


class _Saved:
    """The path of an index in a file."""

    def __init__(self, index):
        self.index = index

    def __call__(self):
        path = os.path.join(tempfile.mkdtemp(dir=_PLACE.name), "index")
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

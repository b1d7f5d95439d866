"""Catalogues that change: models with more rows, with replaced ones, and with retired ones."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.items import Items
from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
from tfsoftmax.retrieval.item_tower import ItemTower, as_tensors, map_stored
from tfsoftmax.samplers.excluding import Excluding, different_ids
from tfsoftmax.sharding.shards import sharded_words
from tfsoftmax.support._compat import ObjectSharingScope, layers_of
from tfsoftmax.support.arguments import ArrayLike, checks_arguments, expect, refusing
from tfsoftmax.support.packing import packed, unpacked
from tfsoftmax.support.renumbering import Renumbering

SIZES = ("vocab_size", "input_dim")  # the arguments that are V
SIZED = ("Embedding", "ReversibleEmbedding", "Coverage")  # whose rows may have any order
FIXED = ("Bigram", "TargetSampling")  # samplers that are made for their words
ROWS_OF_ITEMS = ("have only rows of `Embedding`, `ItemTower` and heads that take `not_items`, none "
                 "that are ordered, computed from spelling or transposed")


@checks_arguments
def with_items(
    model: keras.Model, before: ArrayLike, features: ArrayLike | Mapping | list | None = None,
    not_items: Sequence[int] | None = None,
) -> keras.Model:
    """A copy of a model for a catalogue, or vocabulary, in which items came and went.

    Old items keep exactly their rows, the rows' optimiser slots, and what samplers have learned
    about them, even if their ids change. New items have rows as in a new model, empty slots, and
    the counts of items that were never seen. Everything else is copied, so that training can
    continue. Each head that has a row for each item, each embedding and each `ItemTower` of so many
    items changes, as do metrics of them, such as `Coverage`.

    Args:
        model: a built model with a head, which `model.save` can save, and whose weights are not in
            shards. For other models, use `move_items`.
        before: (V',) integers, the id of each item in `model`, or -1 for a new item. Items whose
            ids are missing here are removed.
        features: for a model with an `ItemTower`: the features of the V' items. They may be left
            out if no item is new.
        not_items: new ids of all rows that are not items, such as padding and retired items that
            keep their rows; None for the same rows as before.

    Raises:
        ValueError: if `before` or `not_items` do not fit, as when padding that an embedding masks,
            or the `ignore_class` of a loss or metric, would have another id; if `features` are
            missing; or if a layer orders its rows, as adaptive and tree heads do, or computes them
            from spelling.

    Example:
        words = keras.Input((20,), dtype="int32")
        embedding = tfsoftmax.Embedding(1000, 64)
        head = tfsoftmax.SampledSoftmax(1000, 50, tied_to=embedding)
        model = keras.Model(words, head(embedding(words)))
        model.compile(tfsoftmax.optimizers.Adagrad(0.1), tfsoftmax.SoftmaxLoss())
        grown = tfsoftmax.with_items(model, [*range(1000), *[-1] * 200])  # 200 new items
        fewer = tfsoftmax.with_items(model, range(1000), not_items=[3, 7])  # two are retired
    """
    renumbering = _renumbering(model, before)
    if features is not None:
        _check_features(model, features, len(renumbering))
    if not_items is not None:
        not_items = _check_not_items(model, not_items, renumbering)
    own = [type(layer) for layer in (model, *layers_of(model))]
    classes = {cls.__name__: cls for cls in own if not cls.__module__.startswith("keras.")}
    with ObjectSharingScope():
        config = keras.saving.serialize_keras_object(model)
    config = _Catalogue(renumbering, features, not_items).config(config)
    rule = "be a model that Keras can make from its configuration; else call `move_items`"
    received = f"{model}, of which Keras says: "
    with refusing(TypeError, "model", rule, before=received), ObjectSharingScope():
        new = keras.saving.deserialize_keras_object(  # of what was in memory a moment ago
            config, custom_objects=classes, safe_mode=False)
    _move(model, new, renumbering)
    return new


@checks_arguments
def move_items(model: keras.Model, new: keras.Model, before: ArrayLike) -> None:
    """Copies what an earlier model has learned to a new model in which items have other ids.

    It does the same as `with_items` for a new model that you create yourself, with the code that
    made `model` and with the size, counts and features of the new catalogue.

    Args:
        model: a built model with a head of V items.
        new: a built model with the same layers, for V' items. If both are compiled, with the same
            optimiser, its slots move as well.
        before: (V',) integers, as in `with_items`.

    Raises:
        ValueError: if `before` does not fit, if a layer orders its rows, or if the models differ in
            more than their items.

    Example:
        def two_towers(items):
            embedding, users = tfsoftmax.Embedding(500, 64), keras.Input((), dtype="int32")
            return keras.Model(users, tfsoftmax.FullSoftmax(items)(embedding(users)))

        model, new = two_towers(1000), two_towers(1200)
        tfsoftmax.move_items(model, new, [*range(1000), *[-1] * 200])
    """
    _move(model, new, _renumbering(model, before))


def _renumbering(model, before):
    heads = [layer for layer in layers_of(model) if isinstance(layer, SoftmaxHead)]
    expect(heads, "model", "have a head of tfsoftmax", model)
    renumbering = Renumbering(before, heads[-1].vocab_size)
    for layer in layers_of(model):
        kept = isinstance(layer, Items) or not isinstance(layer, (SoftmaxHead, AdaptiveEmbedding))
        kept &= getattr(layer, "tie_weights", True)  # else Keras has scores by columns, (D, V)
        of_items = renumbering.size in (getattr(layer, size, None) for size in SIZES)
        expect(kept or not of_items, "model", ROWS_OF_ITEMS, layer)
    first = int(renumbering.before[0])
    rule = "begin with 0, the padding that an embedding with `mask_zero` masks"
    expect(first == 0 or not _padding(model, renumbering.size), "before", rule, first)
    return renumbering


def _padding(model, size):
    """Whether item 0 is padding: an embedding of all items masks it."""
    return any(
        getattr(layer, "mask_zero", False) and getattr(layer, "input_dim", None) == size
        for layer in layers_of(model)
    )


def _check_not_items(model, not_items, renumbering):
    """ValueError if padding, which was no item, would become one."""
    not_items = different_ids("not_items", not_items, len(renumbering))
    was_none = any(0 in getattr(layer, "not_items", ()) for layer in layers_of(model))
    fits = 0 in not_items or not (was_none and _padding(model, renumbering.size))
    rule = "hold 0, which was no item: an embedding with `mask_zero` masks it"
    expect(fits, "not_items", rule, list(not_items))
    return not_items


def _check_features(model, features, items):
    towers = any(isinstance(layer, ItemTower) for layer in layers_of(model))
    expect(towers, "features", "be unset for a model without an `ItemTower`", features)
    rows = {len(each) for each in tf.nest.flatten(as_tensors(features))}
    rule = f"have a row for each of the {items} items"
    expect(rows == {items}, "features", rule, received=f"arrays of {sorted(rows)} rows")


def _move(old, new, renumbering):
    for model in (old, new):
        shards = [weight.path for weight in model.weights if sharded_words(weight)]
        expect(not shards, "model", "have whole weights, not shards", received=f"{shards}")
    renumbering.move(new, old)
    slots, earlier = (getattr(model, "optimizer", None) for model in (new, old))
    if slots is None or earlier is None or not earlier.built:
        return
    if not slots.built:
        slots.build(new.trainable_variables)
    expect(len(slots.variables) == len(earlier.variables), "new", "have the optimiser of `model`",
           received=f"{slots} and {earlier}")
    inner = getattr(slots, "inner_optimizer", slots)
    if inner.use_ema:  # Keras's averages begin with zeros, which it forgets in the first step only
        for weight, mean in zip(new.trainable_variables, inner._model_variables_moving_average):
            mean.assign(weight)
    prefixes = tuple(x.path.replace("/", "_") + "_" for x in renumbering.row_variables)
    names = {x.name for x in renumbering.row_variables}  # which Adafactor gives to its slots
    for slot, other in zip(slots.variables, earlier.variables, strict=True):
        has_rows = other.name in names or other.name.startswith(prefixes)
        has_rows &= other.shape[:1] == (renumbering.size,)
        (renumbering.copy_rows if has_rows else renumbering.copy)(slot, other)


class _Catalogue:
    """Writes configurations for other items.

    Args:
        words: the `Renumbering`.
        features: the features of an `ItemTower`, or None to take them over later.
        not_items: new ids, or None for those of before.
    """

    def __init__(self, words, features, not_items):
        self.words, self.features, self.not_items = words, features, not_items

    def config(self, config):
        """A serialised object, or what it consists of, for the other items."""
        if isinstance(config, list):
            return [self.config(each) for each in config]
        if not isinstance(config, Mapping):
            return config
        if isinstance(config.get("config"), Mapping) and "class_name" in config:
            others = {name: value for name, value in config.items() if name != "config"}
            arguments = self._arguments(config["class_name"], config["config"])
            return {**self.config(others), "config": arguments}
        return {name: self.config(value) for name, value in config.items()}

    def _arguments(self, name, arguments):
        words, ignored = self.words, arguments.get("ignore_class")
        if ignored is not None and 0 <= ignored < words.size:
            expect(words.before[ignored : ignored + 1].tolist() == [ignored], "before",
                   "leave the class that losses and metrics ignore where it is; else call "
                   "`move_items`", received=f"{name} with ignore_class={ignored}")
        if name == "ItemTower":
            features = self.features
            if features is None:  # only their types and shapes
                features = map_stored(
                    lambda x: {**x, "shape": [len(words), *x["shape"][1:]]}, arguments["features"]
                )
            return {**arguments, "features": features}
        if name == "NatsByFrequency":
            return _sized(arguments, words)
        if not any(arguments.get(size) == words.size for size in SIZES):
            return {name: self.config(value) for name, value in arguments.items()}
        if "not_items" in arguments and "words" not in arguments:  # which `CharCnnSoftmax` spells
            return self._of_head(arguments)
        expect(name in SIZED, "model", ROWS_OF_ITEMS, received=f"{name} {arguments.get('name')!r}")
        return _sized(arguments, words)

    def _of_head(self, arguments):
        kept = self.words.ids(np.asarray(arguments["not_items"], int))
        new = kept[kept >= 0].tolist() if self.not_items is None else list(self.not_items)
        own = {"not_items": new, "tied_to": self.config(arguments["tied_to"])}
        if "sampler" in arguments:
            own["sampler"] = _sampler(arguments["sampler"], self.words, new)
        return {**_sized(arguments, self.words), **own}


def _sized(arguments, words):
    """Arguments with the number of words, and with their counts; new words have counts of zero."""
    sizes = {name: len(words) for name in SIZES if name in arguments}
    counts = unpacked(arguments.get("counts"))
    if counts is not None and not isinstance(counts, str):
        sizes["counts"] = packed(words.rows(np.asarray(counts), 0))
    return {**arguments, **sizes}


def _sampler(config, words, exclude):
    """The configuration of a sampler, which never draws some of the other words."""
    name, arguments, left_out = config["class_name"], config["config"], ()
    if name == "InBatch":  # the words that join the batch's are drawn
        extra = arguments["extra"] and _sampler(arguments["extra"], words, exclude)
        return {**config, "config": {**_sized(arguments, words), "extra": extra}}
    if name == "Excluding":
        left_out, config = arguments["exclude"], arguments["sampler"]
        name, arguments = config["class_name"], config["config"]
    expect(name not in FIXED, "model", "draw its samples from all items: this sampler is made for "
           "its words. Make a new model, and call `move_items`", received=name)
    inner = {**config, "config": _sized(arguments, words.among(left_out, exclude))}
    if not exclude:
        return inner
    own = {"vocab_size": len(words), "exclude": exclude, "sampler": inner}
    return {**config, "class_name": "Excluding", "module": Excluding.__module__,
            "registered_name": "tfsoftmax>Excluding", "config": own}

"""Samplers by their names, which `register` gives them."""

import inspect
from collections.abc import Callable

import keras

from tfsoftmax.samplers.base import Given, Sampler
from tfsoftmax.samplers.excluding import Excluding
from tfsoftmax.support.arguments import ArrayLike, expect

SAMPLERS = {}


def register(name: str) -> Callable[[type[Sampler]], type[Sampler]]:
    """A decorator that registers a sampler with Keras, and by its name in `SAMPLERS`."""

    def registered(cls):
        SAMPLERS[name] = keras.saving.register_keras_serializable(package="tfsoftmax")(cls)
        return cls

    return registered


def may_exclude(sampler: "str | Sampler") -> bool:
    """Whether a sampler that is given by this name takes `exclude`."""
    cls = SAMPLERS.get(sampler) if isinstance(sampler, str) else None
    return cls is not None and not (issubclass(cls, Given) or cls.units)


def get_sampler(
    sampler: str | Sampler, vocab_size: int, counts: ArrayLike | None = None, /, **options
) -> Sampler:
    """Makes a sampler by its name.

    Args:
        sampler: a key of `SAMPLERS`, or a `Sampler`, which is returned as it is.
        vocab_size: V.
        counts: (V,) occurrences of the words, for the samplers that take them.
        **options: arguments of the sampler's class; `counts` among them overrides the argument.
            `exclude`, ids of words that are never drawn, wraps the sampler in an `Excluding`.

    Raises:
        ValueError: if the name is unknown, if the sampler needs counts or an n-gram model and
            there is none, or if a `Sampler` is given for another V or together with options.
    """
    if isinstance(sampler, Sampler):
        expect(
            sampler.vocab_size == vocab_size and not options, "sampler",
            f"be made for {vocab_size} words and take no more options",
            received=f"a sampler of {sampler.vocab_size} words, options={options}",
        )
        return sampler
    expect(sampler in SAMPLERS, "sampler", f"be one of {sorted(SAMPLERS)}", sampler)
    cls = SAMPLERS[sampler]
    if (exclude := options.pop("exclude", None)) is not None:
        counts = options.pop("counts", counts)
        exclude, counts = Excluding.without(cls, exclude, vocab_size, counts)
        others = get_sampler(sampler, vocab_size - len(exclude), counts, **options)
        return Excluding(vocab_size, exclude, others)
    taken = inspect.signature(cls).parameters
    if counts is not None and "counts" in taken:
        options = {"counts": counts, **options}
    for name in ("counts", "ngram"):
        needed = name in taken and taken[name].default is inspect.Parameter.empty
        given = name in options if name == "counts" else options.get(name) is not None
        expect(given or not needed, name, f"be given for sampler={sampler!r}")
        expect(name in taken or not given, name, f"be unset for sampler={sampler!r}",
               options.get(name))
    return cls(vocab_size, **options)

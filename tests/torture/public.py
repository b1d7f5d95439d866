"""Bad arguments of every public name, by its signature and a table of arguments that are valid.

The names are those that modules list: a name without an entry fails a test. An entry has one use
or several: a call with valid arguments, of which each in turn is made wrong as its kind says, and
what shows a mistake that the call itself does not. The options of the heads of `HEADS` and of the
samplers of `SAMPLERS` are in `arguments`.
"""

import importlib.util
import inspect
import types

import tfsoftmax

from .arguments import BAD, is_allowed, named
from .cases import Case
from .valid import table, with_paths
from .wrong import wrong_values

# Names that users get, but do not make, and bases of which they make subclasses.
RESULTS = {"samplers.Audit", "samplers.Candidates", "search.Found"}
BASES = {"SoftmaxHead", "samplers.Sampler", "optimizers.SparseRows"}


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
    return {
        name: parameter
        for name, parameter in inspect.signature(use.of or use.call).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and name not in ("training", "mask")
    }


def cases_of(name, use):
    """The cases of one use of a public name."""
    for option, parameter in signature(use).items():
        kind, optional = kind_of(parameter, use.kinds)
        for shown, value in wrong_values(kind, use.valid.get(option)):
            if value is None and optional:
                continue

            def run(option=option, value=value, kind=kind, optional=optional, shown=shown):
                result = use.call(**(with_paths(use.valid) | {option: value}))
                use.then(result)
                if is_taken_rightly(kind, value, optional):
                    return None
                return f"silent: {option}: {shown} was taken"

            told = named(option) + (f"|{use.told[option]}" if option in use.told else "")
            yield Case(f"{name}({option}: {shown})", use.group, run, told)


def is_taken_rightly(kind, value, optional):
    """Whether a value that was taken is right after all, so that nothing is silent."""
    if kind in (bool, int, float):
        return is_allowed(kind, value, optional)
    return kind in BAD or (kind == "draw seed" and value is True)


def cases():
    """All of them, in a fixed order."""
    return [case for name, uses in table().items() for use in uses for case in cases_of(name, use)]

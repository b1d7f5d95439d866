"""absl flags from the fields of configuration dataclasses, and back."""

import dataclasses
import json
import types

from absl import flags


def define(*configs):
    """Defines a flag for each field: its name, default, help and choices."""
    for config in configs:
        for field in dataclasses.fields(config):
            _define(field)


def define_scoring():
    """Defines the flags of what scores sentences."""
    flags.DEFINE_enum(
        "oov", "unk", ["unk", "skip", "spread"], "what words count for that the vocabulary lacks"
    )
    flags.DEFINE_integer("unseen_words", None, "number of words that share <unk>; for spread")
    flags.DEFINE_enum(
        "normalisation", "exact", ["exact", "constant"],
        "constant: take the scores of self-normalised heads as they are",
    )


def parse(config, preset=None):
    """Builds a `config` from the flags; a preset gives way to flags that were given."""
    values = {}
    for field in dataclasses.fields(config):
        flag = flags.FLAGS[field.name]
        values[field.name] = _as_field(flag.value, field)
        if preset and field.name in preset and not flag.present:
            values[field.name] = preset[field.name]
    return config(**values)


def _default(field):
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _define(field):
    default, text = _default(field), field.metadata.get("help", "")
    if field.metadata.get("choices"):
        flags.DEFINE_enum(field.name, default, field.metadata["choices"], text)
    elif isinstance(default, bool):
        flags.DEFINE_bool(field.name, default, text)
    elif isinstance(default, dict):
        flags.DEFINE_string(field.name, json.dumps(default), text)
    elif isinstance(default, tuple):
        flags.DEFINE_list(field.name, list(default), text)
    elif isinstance(default, float):
        flags.DEFINE_float(field.name, default, text)
    elif isinstance(default, int) or int in _types(field):
        flags.DEFINE_integer(field.name, default, text)
    else:
        flags.DEFINE_string(field.name, default, text)
    if default is None and type(None) not in _types(field):
        flags.mark_flag_as_required(field.name)


def _types(field):
    """The types in an annotation such as `int | None`."""
    if isinstance(field.type, types.UnionType):
        return field.type.__args__
    return (field.type,)


def _as_field(value, field):
    default = _default(field)
    if isinstance(default, tuple):
        return tuple(value)
    if isinstance(default, dict):
        try:
            options = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"`{field.name}` must be JSON: {error}. Received: {value!r}") from None
        if not isinstance(options, dict):
            raise ValueError(f"`{field.name}` must be a JSON object. Received: {value!r}")
        return options
    return value

"""absl flags from the fields of configuration dataclasses, and back."""

import dataclasses
import json
import os
import re
import sys
import tempfile
import types

from absl import app, flags, logging


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


def run(main):
    """Runs `main` under absl; mistakes of the user end in one sentence, not a traceback."""

    def quiet(argv):
        if len(argv) > 1:
            sys.exit(f"error: all arguments are flags, --name=value. Received: {argv[1]!r}")
        logging.set_verbosity(logging.WARNING)
        try:
            return main()
        except KeyboardInterrupt:
            sys.exit(130)
        except BrokenPipeError:  # whoever reads has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing left to flush to
            sys.exit(141)
        except Exception as error:
            if flags.FLAGS.traceback or not _is_of_the_user(error):
                raise
            sys.exit(f"error: {_sentence(error)}")

    flags.DEFINE_bool("traceback", False, "show the whole traceback of an error")
    if {"--help", "-h", "-help"} & set(sys.argv):
        print(_help())
        return
    sys.stdout, sys.stderr = (s or open(os.devnull, "w") for s in (sys.stdout, sys.stderr))
    app.run(quiet)


def _help():
    """The tool's docstring and its own flags; absl's are under --helpfull."""
    modules = [m for m in flags.FLAGS.flags_by_module_dict() if not m.startswith("absl")]
    listings = [flags.FLAGS.module_help(m).partition("\n")[2].strip("\n") for m in modules]
    return "\n".join([sys.modules["__main__"].__doc__, "flags:", *listings])


def _sentence(error):
    """What an error says: of a file the flag that named it, of TensorFlow no names of ops."""
    path = getattr(error, "filename", None)
    named = [name for name in flags.FLAGS if path and flags.FLAGS[name].value == path]
    if named:
        return f"`{named[0]}` cannot be used: {error.strerror}. Received: {named[0]}={path!r}"
    return re.sub(r"\{\{function_node .*?\}\}\s*|\s*\[Op:.*?\]", "", str(error))


def load_tensorflow():
    """Imports TensorFlow without the messages that it writes before its log level is read."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), 2)
        try:
            import tensorflow
        except Exception:
            messages.seek(0)
            os.write(stderr, messages.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    return tensorflow


def _is_of_the_user(error):
    """Whether an error's own sentence says it all: bad input, or one that TensorFlow met."""
    tensorflow = type(error).__module__.startswith("tensorflow")
    return tensorflow or isinstance(error, (ValueError, OSError, RuntimeError))


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

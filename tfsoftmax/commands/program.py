"""The `tfsoftmax` program: finds the command, prints help at once, and answers mistakes briefly."""

import importlib
import os
import re
import sys
import tempfile

from absl import app, flags, logging

COMMANDS = (
    "prepare", "train", "evaluate", "generate", "score", "rescore", "export", "cutoffs", "brown",
    "show_clusters", "tfprof", "memory_timeline",
)
HELP = {"--help", "-h", "-help"}


def main(arguments):
    """Runs the command that the first argument names.

    Args:
        arguments: list of str, the name of the command and its flags.
    """
    if not arguments or arguments[0] in HELP:
        print(_list_of_commands())
        return
    name, *rest = arguments
    if name not in COMMANDS:
        sys.exit(f"error: the command must be one of {', '.join(COMMANDS)}. Received: {name!r}")
    command = _module(name)
    command.define_flags()
    run(command.main, command.__doc__, [f"tfsoftmax {name}", *rest])


def run(function, doc, argv):
    """Runs a program whose flags are defined: its help, or its main function under absl.

    Args:
        function: the main function, without arguments.
        doc: text of the help, above the list of flags.
        argv: the program's name and its flags.
    """
    flags.DEFINE_bool("traceback", False, "Show the whole traceback of an error.")
    if HELP & set(argv[1:]):
        print(_help(doc))
        return
    sys.stdout, sys.stderr = (s or open(os.devnull, "w") for s in (sys.stdout, sys.stderr))
    app.run(lambda rest: _quietly(function, rest), argv)


def _quietly(function, argv):
    """Mistakes of the user end in one sentence instead of a traceback."""
    if len(argv) > 1:
        sys.exit(f"error: all arguments are flags, --name=value. Received: {argv[1]!r}")
    logging.set_verbosity(logging.WARNING)
    try:
        return function()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing left to flush to
        sys.exit(141)
    except Exception as error:
        if flags.FLAGS.traceback or not _is_of_the_user(error):
            raise
        sys.exit(f"error: {_sentence(error)}")


def _module(name):
    return importlib.import_module(f"tfsoftmax.commands.{name}")


def _list_of_commands():
    first_lines = {name: _module(name).__doc__.partition("\n")[0] for name in COMMANDS}
    listed = [f"  {name:<16} {line}" for name, line in first_lines.items()]
    return "\n".join([
        "Language models with large vocabularies, from text to perplexity.", "",
        "    tfsoftmax COMMAND --flag=value ...", "    tfsoftmax COMMAND --help", "",
        *listed,
    ])


def _help(doc):
    """The text and the program's own flags; absl's are under --helpfull."""
    modules = [m for m in flags.FLAGS.flags_by_module_dict() if not m.startswith("absl")]
    listings = [flags.FLAGS.module_help(m).partition("\n")[2].strip("\n") for m in modules]
    return "\n".join([doc, "flags:", *listings])


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

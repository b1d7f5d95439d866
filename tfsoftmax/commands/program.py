"""The `tfsoftmax` program: finds the command, prints help at once, and explains mistakes briefly.

Commands import TensorFlow, NumPy and modules that need these inside functions, so that help does
not wait for them.
"""

import atexit
import difflib
import gc
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence

from absl import app, flags, logging

from tfsoftmax.commands import options
from tfsoftmax.commands.help import help_text, own_flags
from tfsoftmax.support.arguments import LARGEST, brief, expect, refusal
from tfsoftmax.support.extras import imported
from tfsoftmax.support.version import __version__
from tfsoftmax.support.whole_files import check_writable, errors_name, holds_something

COMMANDS = {
    **dict.fromkeys((
        "prepare", "train", "evaluate", "generate", "score", "rescore", "export", "demo", "heads",
        "advise", "cutoffs", "cluster", "show_clusters", "tfprof", "memory_timeline",
    ), "tfsoftmax.commands"),
    **dict.fromkeys((
        "prepare_pairs", "train_pairs", "evaluate_pairs", "summarise", "export_pairs",
        "show_clusters_pairs",
    ), "tfsoftmax.pairs.commands"),
}  # {name: the folder of its module}
HELP = {"--help", "-h", "-help"}
# All that Unicode calls control characters, but tabs and the ends of lines.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def main(arguments: Sequence[str]) -> None:
    """Runs the command that the first argument names.

    Args:
        arguments: the name of the command, with underscores or dashes, and its flags.
    """
    if not arguments or arguments[0] in HELP:
        _quietly(lambda: print(_list_of_commands(), flush=True), arguments[:1])
        return
    if arguments[0] == "--version":
        _quietly(lambda: print(f"tfsoftmax {__version__}"), arguments[:1])
        return
    name, *rest = arguments
    name = name.replace("-", "_")
    if name not in COMMANDS:
        sys.exit(
            f"error: the command must be one of {', '.join(COMMANDS)}. {_hint(name, COMMANDS)}"
            f"Received: {arguments[0]!r}"
        )
    command = _module(name)
    groups = options.groups_of(command.main)
    options.define(*groups)
    run(lambda: command.main(*options.parse(groups)), command.__doc__, [f"tfsoftmax {name}", *rest])


def run(function: Callable[[], None], doc: str, argv: Sequence[str]) -> None:
    """Runs a program whose flags are defined: prints its help, or calls its main function.

    Args:
        function: the main function, without arguments.
        doc: the text of the help, which the list of flags follows.
        argv: the name of the program and its flags.
    """
    flags.DEFINE_bool("traceback", False, "Show the whole traceback of an error.")
    if HELP & set(argv[1:]):
        spec = sys.modules["__main__"].__spec__
        is_module = spec is not None and argv[0].endswith(".py")
        name = f"python -m {spec.name}" if is_module else argv[0]
        _quietly(lambda: print(help_text(name, doc), flush=True), argv[:1])
    else:
        app.run(lambda rest: _quietly(function, rest), argv, flags_parser=_parsed)


def load_tensorflow():
    """Imports TensorFlow without the messages that it writes before it reads its log level.

    Python does not look for garbage among what the import makes, neither meanwhile nor later. Nor
    does it look for any when the command has ended, where this takes a second. Keras is kept from
    importing matplotlib, which takes half a second, for functions that no command calls.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    stderr = os.dup(2)
    gc.disable()
    sys.modules.setdefault("matplotlib", None)  # an import of it fails as if it were not installed
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
            if sys.modules["matplotlib"] is None:
                del sys.modules["matplotlib"]
            gc.freeze()
            gc.enable()
    atexit.register(gc.freeze)
    return tensorflow


def check_out(path: str, flag: str = "out") -> None:
    """Raises an error if a file could not be written, or if it would replace another one.

    Raises:
        ValueError: a file that is not empty is there, and --overwrite is not given.
        OSError: the file cannot be written.
    """
    check_writable(path)
    check_empty(path, flag)


def check_empty(path: str, flag: str = "out") -> None:
    """Raises ValueError if a file or folder is at a path, and --overwrite is not given."""
    expect(flags.FLAGS.overwrite or not holds_something(path), flag,
           "not replace a file, unless --overwrite is given", received=f"{path!r}, which exists")


def check_plot(path: str, flag: str = "plot") -> None:
    """Raises an error if no picture could be written to a path.

    Raises:
        RuntimeError: matplotlib is not installed.
        ValueError: it does not write files with this ending, or would replace a file.
        OSError: the file cannot be written.
    """
    imported("matplotlib", f"`{flag}`")
    from matplotlib.backend_bases import FigureCanvasBase

    endings, ending = FigureCanvasBase.get_supported_filetypes(), os.path.splitext(path)[1][1:]
    if ending and ending.lower() not in endings:
        raise refusal(flag, f"end in one of {', '.join(sorted(endings))}", path)
    check_out(path, flag)


def save_plot(figure, path: str, **options) -> None:
    """Saves a figure of matplotlib. An error of the disk names the path."""
    with errors_name(path):
        figure.savefig(path, **options)


def load_gradio():
    """The package gradio, which reports nothing to its makers, or an error without it."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    return imported("gradio", "the page")


def printable(text: str) -> str:
    """Writes control characters as escapes, so that words cannot steer a terminal."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _parsed(argv):
    """Sets the flags, and returns the arguments that are none. A wrong flag ends the process."""
    try:
        rest = flags.FLAGS(argv)
        for name in flags.FLAGS:
            _check_range(name, flags.FLAGS[name].value)
        return rest
    except (flags.Error, ValueError) as error:
        sys.exit(f"error: {printable(_flag_sentence(error))}")


def _check_range(name, value):
    """Refuses what neither a tensor nor a UTF-8 file can hold."""
    if isinstance(value, float) and not abs(value) <= LARGEST:
        raise refusal(name, "be a finite number of float32's range", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise refusal(name, "lie in [-2**63, 2**63)", value)
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
            raise refusal(name, "be UTF-8", value)


def _flag_sentence(error):
    """What absl says of a flag, with what the flag expects in our own words."""
    if isinstance(error, flags.UnrecognizedFlagError):
        name = error.flagname
        hint = _hint(name, own_flags())
        return f"`{name}` is not a flag of this command. {hint}Received: --{name}"
    found = re.match(r"flag --(\w+)=", str(error))
    if found is None:
        return str(error)
    if error.__context__ is None:
        return f"`{found[1]}` must be given. Received: none"
    flag = flags.FLAGS[found[1]]
    value = str(error)[found.end() :].removesuffix(f": {error.__context__}")
    expected = {"int": "a whole number", "float": "a number", "bool": "true or false"}
    choices = ", ".join(getattr(flag.parser, "enum_values", ()))
    wanted = expected.get(flag.flag_type(), f"one of {choices}")
    return f"`{flag.name}` must be {wanted}. Received: {flag.name}={value!r}"


def _hint(name, names):
    """A question that names what a wrong name may stand for, if anything is like it."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}? " if near else ""


def _quietly(function, argv):
    """Calls the main function. A mistake of the user ends in a sentence instead of a traceback."""
    if len(argv) > 1:
        sys.exit(f"error: all arguments must be flags, --name=value. Received: {argv[1]!r}")
    logging.set_verbosity(logging.WARNING)
    sys.stdout, sys.stderr = (s or open(os.devnull, "w") for s in (sys.stdout, sys.stderr))
    try:
        result = function()
        sys.stdout.flush()
        return result
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has closed it
        _drop_output()
        sys.exit(141)
    except Exception as error:
        traceback = flags.FLAGS.is_parsed() and flags.FLAGS.traceback
        if traceback or not _is_of_the_user(error):
            raise
        if _is_of_a_stream(error):
            _drop_output()
        sys.exit(f"error: {printable(_sentence(error))}")


def _drop_output():
    """Throws away what is still to be printed, so that flushing at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _is_of_a_stream(error):
    """Whether the operating system refused to read or write something without a name."""
    number = getattr(error, "errno", None)
    return number is not None and error.filename is None and error.strerror == os.strerror(number)


def _module(name):
    return importlib.import_module(f"{COMMANDS[name]}.{name}")


def _list_of_commands():
    listed = {folder: [] for folder in COMMANDS.values()}
    for name, folder in COMMANDS.items():
        first_line = _module(name).__doc__.partition("\n")[0]
        listed[folder].append(f"  {name:<16} {first_line}")
    models, pairs = listed.values()
    return "\n".join([
        "Language models with large vocabularies, from text to perplexity.", "",
        "    tfsoftmax COMMAND --flag=value ...", "    tfsoftmax COMMAND --help",
        "    tfsoftmax --version", "", *models, "", "With pairs of texts:", "", *pairs,
    ])


def _sentence(error):
    """The message of an error: with the flag that it is about, without TensorFlow's op names."""
    text = re.sub(r"\{\{function_node .*?\}\}\s*|\s*\[Op:.*?\]", "", str(error))
    text = re.sub(r"/\.([^/\s]+)\.\w+\.partial\b", r"/\1", text)  # where it was to be in the end
    path = getattr(error, "filename", None)
    given = {name: flags.FLAGS[name].value for name in own_flags() if flags.FLAGS[name].present}
    values = [
        (name, each) for name, value in given.items() if "enum" not in flags.FLAGS[name].flag_type()
        for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)
    ]
    leading = [(name, each) for name, each in values if path is not None and _leads_to(each, path)]
    if leading:  # the longest comes nearest
        name, each = max(leading, key=lambda found: (found[1] == path, len(found[1])))
        inside = "" if path == each or ".partial" in path else f": {path}"
        return (f"`{name}` cannot be used: {error.strerror}{inside}. "
                f"Received: {name}={brief(each, 100)!r}")
    if _is_of_a_stream(error):
        return f"standard output, or a file that is written, cannot be used: {error.strerror}"
    told = getattr(error, "argument", None) in given or any(f"`{name}`" in text for name in given)
    if not told:
        named = [(name, each) for name, each in values if _is_named(each, text)]
        if named:  # what the message begins with, or else what is longest
            name, each = max(named, key=lambda found: (_begins(text, found[1]), len(found[1])))
            return f"`{name}`: {text.replace(each, brief(each, 100)) if each else text}"
    return text


def _begins(text, value):
    return text.startswith((value, repr(value)))


def _is_named(value, text):
    """Whether a text has a value as a word of its own, or in quotation marks.

    A value without a dot or slash may be an ordinary word of the text.
    """
    if not (set(value) & {".", os.sep} or os.path.lexists(value) or _begins(text, value)):
        return False
    alone = rf"(?<![\w./]){re.escape(value)}(?!\w)"
    return repr(value) in text or bool(value and re.search(alone, text))


def _leads_to(value, path):
    """Whether a path is that of a flag, with an ending or not, or lies in or on the way to it."""
    if not path or not value:
        return path == value
    path, value = os.path.abspath(path), os.path.abspath(value)
    parent, name = os.path.split(value)
    beside = path.startswith(os.path.join(parent, f".{name}."))  # where it is written at first
    return beside or value in (path, os.path.splitext(path)[0]) or (
        value.startswith(path + os.sep) or path.startswith(value + os.sep)
    )


def _is_of_the_user(error):
    """Whether the message of an error is enough: for bad input, or an error in TensorFlow."""
    tensorflow = type(error).__module__.startswith("tensorflow")
    return tensorflow or isinstance(error, (ValueError, OSError, RuntimeError, MemoryError))

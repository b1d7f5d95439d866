"""The text of `--help`: usage, examples, the flags by groups, and then what there is to know."""

import re
import textwrap
from collections.abc import Iterable

from absl import flags

from tfsoftmax.commands.options import GROUPS

WIDTH = 80
_INDENT = " " * 6
_DEFAULTS = "Flags show their defaults: a value, or the first of several choices."


def help_text(program: str, doc: str) -> str:
    """The help of a program whose flags are defined.

    Args:
        program: what to type, such as "tfsoftmax train".
        doc: a line, indented examples, and paragraphs, which come last.
    """
    first, examples, rest = _parts(doc)
    listed = {name for names in GROUPS.values() for name in names}
    others = [name for name in own_flags() if name not in listed]
    required = [name for name in own_flags() if flags.FLAGS[name].validators]  # absl's only ones
    needed = [f"--{name}={name.upper()}" for name in required]
    usage = " ".join([f"Usage: {program}", *needed, "[--flag=value ...]"])
    groups = {**GROUPS} or {"Flags": []}
    last = [*groups][-1]
    groups[last] = [*groups[last], *others]  # --traceback, which every program has
    blocks = [
        f"{_wrapped(usage, _INDENT)}\n{_DEFAULTS}", _wrapped(first), examples,
        *("\n".join([f"{title}:", *map(_line, names)]) for title, names in groups.items()),
        *map(_paragraph, rest.split("\n\n")),
    ]
    return "\n\n".join(block for block in blocks if block)


def own_flags() -> Iterable[str]:
    """The names of the flags that are not absl's, in the order in which they were defined."""
    modules = flags.FLAGS.flags_by_module_dict()
    own = {f.name for name in modules if not name.startswith("absl") for f in modules[name]}
    return [name for name in flags.FLAGS if name in own]


def _wrapped(text, indent="", first=""):
    """A text in lines of at most 80 columns, if its words allow."""
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )


def _paragraph(text):
    """Indented lines as they are, and others, items of a list too, in lines of 80 columns."""
    if text.startswith("    "):
        return "\n".join(map(_definition, re.split(r"\n(?! {5})", text)))
    items = re.split(r"\n(?=- )", text)
    return "\n".join(_wrapped(item, "  " if item.startswith("- ") else "") for item in items)


def _definition(text):
    """A term and what it means, with an indent for the rest; other indented lines as they are."""
    term = re.match(r" {4}\S.*?\S {2,}(?=\S)", text)
    if term is None:
        return text
    meaning = " ".join(text[term.end() :].split())
    return _wrapped(meaning, " " * term.end(), term[0])


def _parts(doc):
    """The first line, the examples that follow it, and the rest."""
    first, _, rest = doc.strip().partition("\n\n")
    found = re.match(r"(?: {4}.*\n+)*", rest + "\n")
    return first, found[0].strip("\n"), rest[found.end() :].strip()


def _line(name):
    """A flag with its default or choices, and its help."""
    flag = flags.FLAGS[name]
    text, choices = flag.help or "", getattr(flag.parser, "enum_values", None)
    if flag.flag_type() == "bool":
        shown = f"[no]{name}" if flag.default else name
    elif choices:
        text = re.sub(r"^<[^>]*>:\s*", "", text)
        shown = f"{name}={'|'.join(choices)}"
        others = (None, choices[0])
        text += f" Default: {flag.default}." if flag.default not in others else ""
    else:
        default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
        shown = f"{name}={name.upper() if default in (None, '') else default}"
    line, *items = text.split("\n")
    return "\n".join([
        _wrapped(f"--{shown}  {line.strip()}", _INDENT, "  "),
        *(_wrapped(item.strip(), _INDENT + "  ", _INDENT) for item in items),
    ])

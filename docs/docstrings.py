"""Shows the parts of our docstrings that Google's style does not know, and whole signatures.

The parts are the block of code under `Example:`, the line `Source:`, arguments that share one
description, as in `name, dtype: ...`, and lists without an empty line before them.
"""

import ast
import re
import textwrap

import griffe

EXAMPLE = re.compile(r"^Example:\n((?:(?: {4}.*)?\n)*(?: {4}.*)?)", re.MULTILINE)
ARGS = re.compile(r"^Args:\n((?:(?: {4}.*)?\n)*(?: {4}.*)?)", re.MULTILINE)
SHARED = re.compile(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)+):(.*(?:\n {5,}.*)*)", re.MULTILINE)
LIST = re.compile(r"^(?! *- )( *\S.*)\n(?= *- )", re.MULTILINE)


class Sections(griffe.Extension):
    """Rewrites the docstrings of all objects before they are parsed."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = with_sections(obj.docstring.value)

    def on_package(self, *, pkg, **kwargs):
        for cls in classes_in(pkg):
            bases = cls.mro()
            if any(base.name == "CheckedArguments" for base in bases):
                show_passed_on(cls, bases)


def classes_in(module):
    """All classes of a package."""
    for member in module.members.values():
        if not member.is_alias and member.is_module:
            yield from classes_in(member)
        elif not member.is_alias and member.is_class:
            yield member


def show_passed_on(cls, bases):
    """Puts the arguments of the bases before `**kwargs`, as `help` shows them."""
    init = cls.members.get("__init__")
    if init is None or "kwargs" not in init.parameters:
        return
    decided = cls.all_members.get("decided_options")
    known = ["self", "kwargs", *(ast.literal_eval(str(decided.value)) if decided else ())]
    shown = init.parameters
    del shown["kwargs"]
    for base in bases:
        for each in getattr(base.members.get("__init__"), "parameters", ()):
            if each.name not in known and each.name not in shown:
                kind = griffe.ParameterKind.keyword_only
                shown.add(griffe.Parameter(
                    each.name, annotation=each.annotation, kind=kind, default=each.default
                ))
    shown.add(griffe.Parameter("kwargs", kind=griffe.ParameterKind.var_keyword))


def with_sections(text):
    text = ARGS.sub(lambda match: "Args:\n" + SHARED.sub(one_by_one, match[1]), text)
    text = LIST.sub(r"\1\n\n", text)
    text = EXAMPLE.sub(lambda match: code_block(match[1]), text)
    return re.sub(r"^(Sources?|Departures?):", r"**\1:**", text, flags=re.MULTILINE)


def code_block(lines):
    return f"**Example:**\n\n```python\n{textwrap.dedent(lines).strip()}\n```\n\n"


def one_by_one(match):
    """Gives each of several arguments their common description."""
    return "\n".join(f"    {name}:{match[2]}" for name in match[1].split(", "))

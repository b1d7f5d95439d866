"""Shows the parts of our docstrings that Google's style does not know.

These are the block of code under `Example:`, the line `Source:`, arguments that share one
description, as in `name, dtype: ...`, and lists without an empty line before them.
"""

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

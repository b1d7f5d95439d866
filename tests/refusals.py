"""Asserts that an argument is refused: its name and its rule, not the words around them."""

import contextlib

import pytest


@contextlib.contextmanager
def refuses(name, rule="", error=ValueError):
    """Like `pytest.raises`, for a refusal of the argument `name` whose message says `rule`.

    Both are plain text. What is no argument, a file for example, has None as its name.
    """
    with pytest.raises(error) as caught:
        yield caught
    refused = caught.value
    assert getattr(refused, "argument", None) == name, f"refused something else: {refused}"
    assert rule in str(refused)


def refused(message, call, *arguments, error=ValueError, **options):
    """Asserts that a call of a function is refused with a message that a pattern matches."""
    with pytest.raises(error, match=message):
        call(*arguments, **options)

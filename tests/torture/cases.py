"""What a torture case is, and the verdict on what the library made of it."""

import dataclasses
import re
from collections.abc import Callable

# Only the first two may occur.
VERDICTS = ("clear sentence", "tolerated", "obscure", "silent", "hang", "crash")
LONGEST = 400  # characters of a sentence that a person reads


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing that goes wrong.

    Attributes:
        name: says what is done to what.
        group: the kind of case, a row of the report.
        run: does it, and returns None if nothing came of it, "silent: ..." if a wrong result did.
            It raises what the library raises.
        subject: what an error must name, a pattern.
    """

    name: str
    group: str
    run: Callable[[], str | None]
    subject: str = r"`\w+`"


def verdict(case):
    """(verdict, what was said) of a case that is run here."""
    try:
        found = case.run()
    except Exception as error:
        return verdict_on_error(error, case.subject)
    if found is None:
        return "tolerated", ""
    kind, _, detail = found.partition(": ")
    return kind, detail


def failure(status, said):
    """How a command ended that said no sentence; None if it ended well, or with an error."""
    if status is None:
        return "hang"
    if status < 0:
        return f"crash: signal {-status}"
    if "Traceback" in said:
        return f"obscure: {said[-300:]}"
    if "\x1b" in said or "\x07" in said:
        return f"obscure: control characters reach the terminal: {said[-200:]!r}"
    return None


def verdict_on_error(error, subject):
    text = f"{type(error).__name__}: {error}"
    expected = isinstance(error, (ValueError, TypeError, OSError, NotImplementedError)) or (
        "InvalidArgument" in type(error).__name__
    )
    return ("clear sentence" if expected and is_sentence(str(error), subject) else "obscure"), text


def is_sentence(message, subject):
    """Whether the beginning of a message names its subject and what was received."""
    start = re.sub(r"\x1b\[\d*m", "", message)[:LONGEST]
    start = start.removeprefix("Exception encountered when calling ")
    words = "Received|Unrecognized|must|cannot|needs|damaged|such|already|not |Is a directory"
    told = re.search(words, start, re.IGNORECASE)
    return bool(told and re.search(subject, start)) and "Traceback" not in message

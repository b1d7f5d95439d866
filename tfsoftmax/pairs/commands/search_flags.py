"""The flags of commands that search summaries."""

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.support.arguments import check_at_least

_FLAGS = ("beam", "length_power", "max_words", "exact_words")


def define_search() -> None:
    """Defines the flags of commands that search summaries."""
    flags.DEFINE_integer("beam", 5, "Width of the beam to search with.")
    flags.DEFINE_float(
        "length_power", 0.7, "Summaries of n words, the end included, are ranked by "
        "ln P / n^length_power. With 0 they are ranked by ln P.",
    )
    flags.DEFINE_integer("max_words", 30, "Number of words after which a summary is cut.")
    flags.DEFINE_integer("exact_words", None, "Number of words that all summaries have.")


def search_options() -> dict:
    """The arguments of `Summariser.summarise` that the flags of `define_search` give."""
    options = flags.FLAGS
    check_at_least(
        1, beam=options.beam, max_words=options.max_words, exact_words=options.exact_words
    )
    check_at_least(0, length_power=options.length_power)
    shared_flags.check_beam(options.beam)
    exact = options.exact_words
    if exact is not None and options["max_words"].present:
        raise ValueError(
            "`max_words` must not be given with --exact_words, which stands for it. "
            f"Received: max_words={options.max_words}"
        )
    return {
        "beam": options.beam, "length_power": options.length_power,
        "max_words": options.max_words if exact is None else exact, "min_words": exact or 0,
    }


def refuse_search(needed: str) -> None:
    """Raises ValueError if one of the flags is given, which is read with `needed` only."""
    for name in _FLAGS:
        if flags.FLAGS[name].present:
            raise ValueError(
                f"`{name}` may be given with {needed} only. "
                f"Received: {name}={flags.FLAGS[name].value}"
            )

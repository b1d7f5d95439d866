"""The options of commands that search summaries."""

import dataclasses

from tfsoftmax.commands.shared import check_beam
from tfsoftmax.support.arguments import check_at_least
from tfsoftmax.support.conditions import excludes


@dataclasses.dataclass(frozen=True)
class Search:
    """How summaries are searched.

    Attributes:
        beam: Width of the beam to search with.
        length_power: Summaries of n words, the end included, are ranked by ln P / n^length_power.
            With 0 they are ranked by ln P.
        max_words: Number of words after which a summary is cut.
        exact_words: Number of words that all summaries have.
    """

    NEEDS = {"max_words": excludes("exact_words")}

    beam: int = 5
    length_power: float = 0.7
    max_words: int = 30
    exact_words: int | None = None

    def __post_init__(self):
        check_at_least(1, beam=self.beam, max_words=self.max_words, exact_words=self.exact_words)
        check_at_least(0, length_power=self.length_power)
        check_beam(self.beam)

    def arguments(self) -> dict:
        """The arguments of `Summariser.summarise`."""
        exact = self.exact_words
        return {
            "beam": self.beam, "length_power": self.length_power,
            "max_words": self.max_words if exact is None else exact, "min_words": exact or 0,
        }

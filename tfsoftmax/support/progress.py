"""Shows progress on the standard error stream, where that is a terminal."""

import contextlib
import sys


def bar(
    description: str | None, total: int | None, unit: str, shown: bool = True,
    **options,
):
    """A bar of tqdm, which is gone when the work is done; all bars of the package look like it.

    Args:
        description: what is done, or None.
        total: how many units there are, or None.
        unit: the name of a unit.
        shown: whether to show it, if standard error is a terminal.
        **options: further arguments of `tqdm.tqdm`.

    Example:
        from tfsoftmax.support.progress import bar
        with bar("reading", 10, "words") as done:
            done.update(10)
    """
    from tqdm import tqdm

    return tqdm(
        desc=description, total=total, unit=unit if unit == "B" else f" {unit}", leave=False,
        dynamic_ncols=True, mininterval=0.2, disable=None if shown else True, **options,
    )


class Progress:
    """Reports phases of work.

    Args:
        enabled: whether to report anything.

    Example:
        from tfsoftmax.support.progress import Progress
        with Progress().phase("reading", total=10) as done:
            for _ in range(10):
                done(1)
    """

    def __init__(self, enabled: bool = True):
        self._enabled = enabled

    def say(self, text: str) -> None:
        """Prints a line."""
        if self._enabled:
            print(text, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def phase(self, description: str, total: int | None = None, unit: str = "words"):
        """Shows a phase while it lasts; yields a function to call with the units that are done."""
        with bar(f"{description:<18}", total, unit, self._enabled, unit_scale=True) as done:
            yield done.update

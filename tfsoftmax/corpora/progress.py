"""Reports progress on the standard error stream, with a bar if that is a terminal."""

import contextlib
import sys


class Progress:
    """Reports phases of work.

    Args:
        enabled: whether to report anything.

    Example:
        from tfsoftmax.corpora.progress import Progress
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
        if not (self._enabled and sys.stderr.isatty()):
            yield lambda done: None
            return
        from tqdm import tqdm

        with tqdm(desc=f"{description:<18}", total=total, unit=f" {unit}", unit_scale=True,
                  dynamic_ncols=True, mininterval=0.2, leave=False) as bar:
            yield bar.update

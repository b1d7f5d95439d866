"""Progress on the standard error stream: a bar on a terminal, none elsewhere."""

import contextlib
import sys


class Progress:
    """Reports phases of work. With `enabled` false it does nothing."""

    def __init__(self, enabled=True):
        self._enabled = enabled

    def say(self, text):
        """Prints one line."""
        if self._enabled:
            print(text, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def phase(self, description, total=None, unit="words"):
        """Yields a function to be called with the number of units done."""
        if not (self._enabled and sys.stderr.isatty()):
            yield lambda done: None
            return
        from tqdm import tqdm

        with tqdm(desc=f"{description:<18}", total=total, unit=f" {unit}", unit_scale=True,
                  dynamic_ncols=True, mininterval=0.2, leave=False) as bar:
            yield bar.update

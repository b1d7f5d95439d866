"""Whether a machine is quiet enough to be measured: the share of its cores that others take."""

import os
import time

from tfsoftmax.support.hardware import hardware

MOST_SHARE = 0.05  # of all cores; a browser or an editor takes less
WAIT_SECONDS = 60


class Others:
    """Measures, from its creation on, what processes other than this and its children take.

    Children count once they have ended and were waited for.
    """

    def __init__(self):
        self.begin = self._now()

    def share(self):
        """The share of all cores that others have taken since the beginning, in [0, 1]."""
        seconds, busy, own = (b - a for a, b in zip(self.begin, self._now()))
        return max(0.0, busy - own) / (max(seconds, 1e-9) * os.cpu_count())

    def machine(self):
        """The hardware and that share, in words."""
        return f"{hardware()}, of which other processes took {self.share():.1%}"

    @staticmethod
    def _now():
        import psutil

        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # in user, too
        return time.monotonic(), sum(times) - idle - guests, sum(os.times()[:4])


def wait(most, say, seconds=WAIT_SECONDS, pause=2.0):
    """Waits until others take no more than a share of the cores; returns the last share.

    Args:
        most: the share, in [0, 1].
        say: function of a str, which hears once that this waits.
        seconds: how long to wait at most.
        pause: how long to look each time.
    """
    end, told = time.monotonic() + seconds, False
    while True:
        others = Others()
        time.sleep(pause)
        share = others.share()
        if share <= most or time.monotonic() >= end:
            return share
        if not told:
            say(f"  Waiting: other processes take {share:.0%} of the cores.")
            told = True

"""Prints how much memory traced training steps used over time.

    tfsoftmax train --data=data/text8 --run=runs/first --profile_batch=11,15
    tfsoftmax memory_timeline --run=runs/first --plot=memory.png

For each allocator the command prints the memory at the start and at the peak of each step, a bar
for each interval that shows the most memory held in it, and what was held at the highest point. On
a CPU, tensors of less than 256 KiB are not recorded. --trace reads the trace of another program.
"""

import dataclasses

from tfsoftmax.commands.program import check_plot, load_tensorflow, save_plot
from tfsoftmax.support.arguments import expect

MIB = 2**20
ROWS, BAR, LARGEST = 24, 50, 10


@dataclasses.dataclass(frozen=True)
class TimelineOptions:
    """Trace and result.

    Attributes:
        run: Directory of a training run that was traced.
        trace: Trace to read instead of the run's: an .xplane.pb file.
        plot: PNG file to draw. Needs matplotlib.
        overwrite: Replace a file that exists.
    """

    run: str = ""
    trace: str = ""
    plot: str = ""
    overwrite: bool = False

    def __post_init__(self):
        expect(bool(self.run) != bool(self.trace), "Either `run` or `trace`", "be given",
               received={"run": self.run, "trace": self.trace})


def main(options: TimelineOptions):
    if options.plot:
        check_plot(options.plot)
    load_tensorflow()
    from tfsoftmax.profiling.memory_timeline import at_peak, find_trace, read_timeline

    path = options.trace or find_trace(options.run)
    timeline = read_timeline(path)
    print(path)
    if not timeline.allocators:
        print("The trace has no allocations: all tensors were small, or none were recorded.")
    for name, events in timeline.allocators.items():
        print("", f"{name}: {len(events):,} allocations and deallocations", sep="\n")
        if timeline.steps:
            print("", steps_table(timeline.steps, events), sep="\n")
        print("", bars(events), "", peak_table(events, *at_peak(events)), sep="\n")
    if options.plot:
        plot(timeline, options.plot)


def steps_table(steps, events):
    """The duration of each step, and its memory at the start and at the peak, as text."""
    lines = ["  step    seconds  MiB at start  MiB at peak"]
    for number, begin, end in steps:
        before = [event.held for event in events if event.seconds < begin]
        start = before[-1] if before else events[0].held - events[0].size
        peak = max([start, *(e.held for e in events if begin <= e.seconds < end)])
        lines.append(f"{number:>6}{end - begin:>11.3f}{start / MIB:>14,.1f}{peak / MIB:>13,.1f}")
    return "\n".join(lines)


def bars(events):
    """The most memory that was held in each stretch of time, as text."""
    stretch = events[-1].seconds / ROWS or 1.0
    most, held, i = [], events[0].held - events[0].size, 0
    for row in range(ROWS):
        highest = held
        while i < len(events) and (events[i].seconds < (row + 1) * stretch or row == ROWS - 1):
            held = events[i].held
            highest, i = max(highest, held), i + 1
        most.append(highest)
    top = max(most)
    lines = ["   seconds       MiB"]
    for row, size in enumerate(most):
        bar = "#" * round(BAR * size / top)
        lines.append(f"{row * stretch:>10.3f}{size / MIB:>10,.1f}  {bar}")
    return "\n".join(lines)


def peak_table(events, highest, held, before):
    """What was held at the highest point, as text."""
    top = events[highest]
    lines = [f"The most, {top.held / MIB:,.1f} MiB, was held at {top.seconds:.3f} seconds:",
             f"{before / MIB:>10,.1f}  allocated before the trace"]
    for event in held[:LARGEST]:
        op = event.op.removeprefix("StatefulPartitionedCall/") or "unknown"
        lines.append(f"{event.size / MIB:>10,.1f}  {op} {event.shape}")
    if len(held) > LARGEST:
        rest = sum(event.size for event in held[LARGEST:])
        lines.append(f"{rest / MIB:>10,.1f}  {len(held) - LARGEST} smaller ones")
    return "\n".join(lines)


def plot(timeline, path):
    """Draws memory over time. The background marks the steps."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(9, 4), layout="constrained").subplots()
    for name, events in timeline.allocators.items():
        axes.plot([e.seconds for e in events], [e.held / MIB for e in events],
                  drawstyle="steps-post", linewidth=1, label=name)
    for number, begin, end in timeline.steps:
        axes.axvspan(begin, end, color="0.93" if number % 2 else "0.97", zorder=0)
        axes.annotate(f"step {number}", ((begin + end) / 2, 0.02), color="0.4", ha="center",
                      xycoords=("data", "axes fraction"), fontsize="small")
    axes.set(xlabel="seconds", ylabel="MiB that the allocator has given out",
             title="Memory during traced training steps")
    axes.set_ylim(bottom=0)
    axes.grid(True, axis="y", color="0.88", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if timeline.allocators:
        axes.legend(frameon=False, loc="upper right")
    save_plot(axes.figure, path, dpi=110)

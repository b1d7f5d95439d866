"""Faults at the file operations of tools, which must then end well, or with a clear sentence.

After each fault the tool is started again, without one, and must make what it makes undisturbed,
and leave nothing else behind.
"""

import errno
import os
import pathlib
import re
import shutil
import tempfile
import time

from . import processes, tools
from .cases import LONGEST, Case
from .processes import CLOCK, DAY, FAIL_ON, FAIL_ONCE, KILL, STOP, Fault

MOMENTS = 4  # of a tool's operations, at which another process or a person interferes
_REASONS = "|".join(
    [*(re.escape(os.strerror(n)) for n in (errno.ENOSPC, errno.EROFS, errno.ENOENT)),
     r"must|cannot|needs|such|[Nn]ot "]
)


class Faults:
    """What a tool makes when nothing disturbs it, and the cases that disturb it."""

    def __init__(self, name):
        self.name, self.tool = name, tools.TOOLS[name]
        self._place = tempfile.TemporaryDirectory()
        self.stage = pathlib.Path(self._place.name).resolve() / "start" / "w"
        tools.start_world(self.stage)
        _load(name)
        for each in _before(name):
            self._sound(each, self.stage)
        sound = self.copy("sound")
        self._sound(name, sound)
        self.result, self.names = self.tool.result(sound), tools.names(sound)
        lines = (sound.with_name("aside") / "journal").read_text().splitlines()
        self.operations = [line.split("\t") for line in lines]

    def copy(self, name):
        """A copy of the folder before the tool was started."""
        folder = pathlib.Path(self._place.name).resolve() / name / "w"
        return pathlib.Path(shutil.copytree(self.stage, folder))

    def cases(self):
        """All cases, in a fixed order."""
        for place in self.places():
            yield self._case("killed", place, Fault(KILL, place))
        for place in self.places(space=True):
            yield self._case("disk full", place, Fault(FAIL_ON, place))
        for place in _spread(self.places(space=True), 2 * MOMENTS):
            yield self._case("disk full for a moment", place, Fault(FAIL_ONCE, place))
        for top in dict.fromkeys((self.tool.out[0], *self.tool.reads)):
            fault = Fault(FAIL_ON, 1, errno.EROFS, top)
            yield self._case("read-only folder", 1, fault, top)
            for place in _spread(self.places(), MOMENTS):
                yield self._case("folder deleted", place, Fault(STOP, place), top)
        for place in _spread(self.places(), MOMENTS):
            yield self._case("two at once", place, Fault(STOP, place))
            yield self._case("clock set back", place, Fault(CLOCK, place))
            yield self._case("killed, clock set back", place, Fault(KILL, place))

    def places(self, space=False):
        """The operations, or those that need space; of equal ones the first and the last."""
        found = {}
        for place, (operation, needs, path) in enumerate(self.operations, start=1):
            if needs == "1" or not space:
                same = re.sub(r"step-\d+(-validated)?", "step", tools.without_chance(path))
                found.setdefault((operation, same), []).append(place)
        return sorted({place for each in found.values() for place in (each[0], each[-1])})

    def _case(self, kind, place, fault, top=""):
        operation, _, path = self.operations[place - 1]
        name = tools.without_chance(os.path.relpath(path, self.stage.parent.parent / "sound/w"))

        def run():
            folder = self.copy("case")
            try:
                return self._disturbed(kind, folder, fault, top)
            finally:
                shutil.rmtree(folder.parent)

        where = f"{top} " if top else ""
        return Case(f"{self.name}, {kind}: {where}at {operation} {place} ({name})",
                    f"{self.name}: {kind}", run)

    def _disturbed(self, kind, folder, fault, top):
        first = self.start(folder, fault)
        end, told = processes.wait(first), []
        if end == "stopped" and kind == "folder deleted":
            shutil.rmtree(folder / top)
        elif end == "stopped":
            second = processes.wait(self.start(folder, aside="second"))
            told.append(self.verdict(second, folder, "second"))
        if end == "stopped":
            end = processes.go_on(first)
        for read in self.tool.reads:
            if not (folder / read).exists():
                shutil.copytree(self.stage / read, folder / read)
        if not (end == -9 and fault.action == KILL):
            told.append(self.verdict(end, folder))
        told = [each for each in told if each]
        if wrong := [each for each in told if not each.startswith("clear sentence")]:
            return wrong[0]
        if end == 0 and (wrong := self._other_result(folder)):
            return f"silent: the tool ended well, but {wrong}"
        clock = 0
        if kind == "killed, clock set back":
            clock, later = -DAY, time.time() + DAY
            for path in folder.rglob("*"):
                os.utime(path, (later, later), follow_symlinks=False)
        return self._again(folder, clock) or next(iter(told), None)

    def _again(self, folder, clock):
        """What is wrong after another start, or None."""
        for top in os.listdir(self.stage):
            (folder / top).mkdir(exist_ok=True)
        made = self.tool.made(folder).exists()
        end = processes.wait(self.start(folder, Fault(clock=clock)))
        said = _stderr(folder)
        if end != 0 and not (self.name == "export" and made and "new or empty" in said):
            return f"obscure: after the fault, {end}: {said[-200:]}"
        wrong = self._other_result(folder)
        return f"silent: after the fault, {wrong}" if wrong else None

    def _other_result(self, folder):
        """How what was made differs from what is made undisturbed, or None."""
        try:
            if self.tool.result(folder) != self.result:
                return "the result is another"
        except Exception as error:
            return f"the result cannot be read: {type(error).__name__}: {error}"
        found = set(tools.names(folder)).symmetric_difference(self.names)
        return f"other files are there: {sorted(found)[:4]}" if found else None

    def start(self, folder, fault=None, aside="aside"):
        return processes.start(self.tool.line(folder), folder, fault, self.tool.stdout, aside)

    def verdict(self, end, folder, aside="aside"):
        """What a tool that has ended was worth; None if it did its work."""
        if end == "hang":
            return "hang: "
        if end == 0:
            return None
        said = _stderr(folder, aside)
        if not isinstance(end, int) or end < 0:
            return f"crash: {end}: {said[-200:]}"
        sentence = said.rpartition("error: ")[2][:LONGEST]
        named = str(folder) in sentence or re.search(r"`\w+`|standard output", sentence)
        clear = named and re.search(_REASONS, sentence) and "Traceback" not in said
        return f"{'clear sentence' if clear else 'obscure'}: {end}: {said[-250:]}"

    def _sound(self, name, folder):
        tool = tools.TOOLS[name]
        end = processes.wait(processes.start(tool.line(folder), folder, None, tool.stdout))
        if end:
            raise RuntimeError(f"{name} must end well without faults. Received: {_stderr(folder)}")


def _stderr(folder, aside="aside"):
    return (folder.with_name(aside) / "stderr").read_text(errors="replace")


def _before(name):
    """The tools that must run before a tool, in order."""
    found = []
    while (name := tools.TOOLS[name].after) is not None:
        found.insert(0, name)
    return found


def _load(name):
    """Imports what a tool needs, without running any operation of TensorFlow."""
    import tfsoftmax_command  # noqa: F401, so that tfsoftmax imports no more than a command needs

    from tfsoftmax.commands import program

    if name == "prepare":
        return
    program.load_tensorflow()


def _spread(places, count):
    """At most `count` of some numbers, evenly spread."""
    chosen = {round(i * (len(places) - 1) / max(1, count - 1)) for i in range(count)}
    return [places[i] for i in sorted(chosen)]

"""Runs the torture cases and counts the verdicts.

    python -m tests.torture.run --seed=0 --out=experiments/results/torture

The cases of a kind run one after the other in a process of their own, which is replaced when it
crashes, and when a case takes longer than LIMIT_SECONDS; two kinds run at the same time. The page
says what came of each group of cases. Only clear sentences and toleration may occur; the process
ends with 1 otherwise.
"""

import argparse
import collections
import concurrent.futures
import importlib
import json
import os
import pathlib
import platform
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings

from . import processes
from .cases import VERDICTS

LIMIT_SECONDS = 600  # a case of two tools that hang takes less
FAULTS = ("train", "export", "rescore", "score", "cluster", "prepare")
KINDS = ("arguments", "public", *FAULTS, "flags", "pairs", "damage")


def cases_of(kind, seed, fraction):
    """The cases of a kind in a random order that the seed decides, or a fraction of them."""
    if kind in ("arguments", "public"):
        keep, found = None, importlib.import_module(f".{kind}", __package__).cases()
    else:
        keep = _world(kind, seed)  # it removes its files when it is forgotten
        found = list(keep.cases())
    random.Random(seed).shuffle(found)
    return keep, found[: max(1, round(fraction * len(found)))]


def _world(kind, seed):
    """What the cases of a kind start from. Imports no more than they need."""
    if kind in FAULTS:
        from .faults import Faults

        return Faults(kind)
    if kind == "flags":
        from .flags import Flags as World
    elif kind == "pairs":
        from .pairs import Pairs as World
    else:
        from .damage import Damage as World
    return World(seed)


def work(kind, seed, fraction, start):
    """The worker: prints a JSON line for each case from `start` on."""
    from .cases import verdict

    warnings.simplefilter("ignore")
    _, found = cases_of(kind, seed, fraction)
    print(json.dumps({"cases": len(found)}), flush=True)
    for index, case in enumerate(found[start:], start=start):
        print(json.dumps({"index": index, "name": case.name, "group": case.group}), flush=True)
        result, said = verdict(case)
        print(json.dumps({"verdict": result, "said": said[:300]}), flush=True)


def lines_of(process):
    """A queue of the lines that a process prints; None at their end."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def results(kind, seed, fraction):
    """(group, name, verdict, what was said) of each case, from workers."""
    start, count = 0, None
    while count is None or start < count:
        arguments = [f"--worker={kind}", f"--seed={seed}", f"--fraction={fraction}",
                     f"--start={start}"]
        environment = processes.environment() if kind in FAULTS else os.environ
        environment = {**environment, "TF_CPP_MIN_LOG_LEVEL": "3"}
        said = tempfile.TemporaryFile("w+")  # a pipe that nobody reads fills up
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.run", *arguments], stdout=subprocess.PIPE,
            stderr=said, text=True, env=environment, cwd=pathlib.Path(__file__).parents[2],
        )
        lines, case = lines_of(process), None
        while True:
            try:
                line = lines.get(timeout=LIMIT_SECONDS)
            except queue.Empty:
                process.kill()
                line = "hang"
            if line in (None, "hang"):
                process.wait()
                if case is not None:
                    yield case["group"], case["name"], "hang" if line else "crash", ""
                    start = case["index"] + 1
                elif count is None or start < count:
                    said.seek(0)
                    raise RuntimeError(f"the worker for {kind} ended early: {said.read()[-2000:]}")
                break
            values = json.loads(line)
            if "cases" in values:
                count = values["cases"]
            elif "verdict" in values:
                yield case["group"], case["name"], values["verdict"], values["said"]
                start, case = case["index"] + 1, None
            else:
                case = values


def timed(kind, seed, fraction):
    """The results of a kind as a list. Prints those that are wrong, and the time at the end."""
    began, found = time.monotonic(), []
    for group, name, verdict, said in results(kind, seed, fraction):
        found.append((group, name, verdict, said))
        if verdict not in VERDICTS[:2]:
            print(f"{verdict}: {name}: {said}", flush=True)
    print(f"{kind}: {len(found)} cases, {time.monotonic() - began:.0f} s", flush=True)
    return found


def page(counts, wrong, skipped, seed, fraction, minutes):
    """The report, as Markdown."""
    import keras
    import tensorflow as tf

    rows = [
        f"| {group} | " + " | ".join(str(counts[group, v]) for v in VERDICTS) + " |"
        for group in sorted({group for group, _ in counts})
    ]
    total = [str(sum(n for (_, v), n in counts.items() if v == wanted)) for wanted in VERDICTS]
    listed = [f"* {v}: `{name}`: {said}" for name, v, said in wrong] or ["None."]
    listed += [f"* not run, as there is no C compiler here: {kind}" for kind in skipped]
    return "\n".join([
        "# Robustness tests", "",
        f"`make torture` wrote this page: seed {seed}, {fraction:.0%} of the cases, "
        f"{minutes:.0f} minutes on {os.cpu_count()} CPU cores ({platform.machine()}), Python "
        f"{platform.python_version()}, TensorFlow {tf.__version__}, Keras {keras.__version__}.", "",
        "Each case gives one wrong argument to a public class or function or to a method of it,",
        "by its signature (a name that is not in the table of `tests/torture/valid.py` fails a",
        "test), or one wrong flag to a tool, or wrong texts to `prepare_pairs` or",
        "`summarise`, or does damage to one file that a tool reads, or disturbs a tool",
        "(`tests/torture/`). A clear sentence names the argument, the flag or the",
        "file. Damage is tolerated if the result is that of the whole file, or if it leaves",
        "another valid text in a file that people write. An obscure error is one of another",
        "library that does not name them; a silent case gives another result without a word.", "",
        "A tool is killed (SIGKILL) at every operation that changes a file or a folder, in the",
        "middle of each write; where it repeats an operation on one file, at the first and the",
        "last. The disk is full from each of these operations on, or at one of them only. Folders",
        "that a tool reads or writes are read-only, or are deleted at some of its operations; a",
        "second process is started at one; the clock goes back by a day at one, or between a kill",
        "and the next start. After each fault the tool is started again without one, and must make",
        "what it makes undisturbed, byte for byte or tensor by tensor, and leave nothing else",
        "behind.", "",
        "| cases | " + " | ".join(VERDICTS) + " |", "|---" * (len(VERDICTS) + 1) + "|", *rows,
        "| all | " + " | ".join(total) + " |", "",
        "## Neither a clear sentence nor tolerated", "", *listed, "",
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="decides the damage and the order")
    parser.add_argument("--fraction", type=float, default=1.0, help="share of the cases to run")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the page; none without it")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="only these kinds")
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.seed, options.fraction, options.start)
    began, counts, wrong = time.monotonic(), collections.Counter(), []
    kinds = options.kinds or [k for k in KINDS if k not in FAULTS or processes.can_fault()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda k: timed(k, options.seed, options.fraction), kinds):
            for group, name, verdict, said in found:
                counts[group, verdict] += 1
                if verdict not in VERDICTS[:2]:
                    wrong.append((name, verdict, said))
    minutes = (time.monotonic() - began) / 60
    skipped = [kind for kind in options.kinds or KINDS if kind not in kinds]
    text = page(counts, wrong, skipped, options.seed, options.fraction, minutes)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "README.md").write_text(text, encoding="utf-8")
    print(text)
    return int(bool(wrong))


if __name__ == "__main__":
    tests = str(pathlib.Path(__file__).parent.parent)
    sys.path[:0] = [tests] * (tests not in sys.path)
    sys.exit(main())

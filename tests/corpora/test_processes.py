"""Facts about functions that are computed on all cores."""

import subprocess
import sys

import pytest


def computed(code):
    """What a program prints in which TensorFlow is not imported and that sees two cores."""
    code = (
        "import os, signal, sys, tfsoftmax_command\n"
        "os.sched_getaffinity = lambda process: {0, 1}\n"
        "from tfsoftmax.corpora.processes import on_all_cores\n" + code
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_results_come_in_the_order_of_the_items():
    code = (
        "items = [str(i) * 1000 for i in range(501)]\n"
        "results = list(on_all_cores(lambda item: (item, os.getpid()), items))\n"
        "print([item for item, _ in results] == items)\n"
        "print(len({process for _, process in results} - {os.getpid()}))\n"
    )
    assert computed(code) == ["True", "2"]


@pytest.mark.parametrize("size", [1, 10**6])  # the larger is cut while it is written
def test_a_process_that_is_killed_is_an_error(size):
    code = (
        f"results = on_all_cores(lambda i: (os.getpid(), 'x' * {size}), range(10**5))\n"
        "os.kill(next(results)[0], signal.SIGKILL)\n"
        "try:\n"
        "    list(results)\n"
        "except RuntimeError as error:\n"
        "    print(*str(error).split()[-2:])\n"
    )
    assert computed(code) == ["ended", "early"]


def test_processes_end_when_their_results_are_not_wanted():
    code = (
        "results = on_all_cores(lambda item: 'x' * 10**6, range(1000))\n"
        "next(results)\n"
        "results.close()\n"
        "try:\n"
        "    os.wait()\n"
        "except ChildProcessError:\n"
        "    print('ended')\n"
    )
    assert computed(code) == ["ended"]


def test_nothing_is_forked_beside_the_threads_of_tensorflow():
    code = (
        "import types\n"
        "sys.modules['tensorflow'] = types.ModuleType('tensorflow')\n"
        "print(set(on_all_cores(lambda item: os.getpid(), range(9))) == {os.getpid()})\n"
    )
    assert computed(code) == ["True"]


def test_the_error_of_a_function_is_shown():
    code = (
        "os.dup2(1, 2)\n"
        "try:\n"
        "    list(on_all_cores(lambda item: 1 // item, [1, 0]))\n"
        "except RuntimeError:\n"
        "    print('caught')\n"
    )
    words = computed(code)
    assert "ZeroDivisionError:" in words and words[-1] == "caught"

"""Runs commands of `tfsoftmax` in children of a process that has imported TensorFlow already.

The import takes longer than most commands. The server runs no operation of TensorFlow and imports
nothing of tfsoftmax, so that a child that it forks is as good as a new process.
"""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback


def run(arguments, cwd=None, standard_input="", seconds=None):
    """The completed process of a command: with its exit status and, as text, what it printed.

    The status is None if the command took longer than `seconds`.
    """
    request = [list(map(str, arguments)), os.fspath(cwd or os.getcwd()), {**os.environ},
               standard_input, seconds]
    return subprocess.CompletedProcess(arguments, *ask(__file__, request))


def ask(script, request, **environment):
    """What the server answers that a script is, by `serve`; it is started at the first request."""
    server = _server(os.getpid(), os.path.abspath(script), **environment)
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


@functools.cache
def _server(_, script, **environment):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    return subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment, cwd=os.path.dirname(script),
    )


def serve(answer):
    """Answers requests, a line each, until standard input ends."""
    import keras
    import tensorflow

    assert keras and tensorflow
    sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    answers, requests = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0))
    for line in requests:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def in_child(function, cwd, environment=None, standard_input="", seconds=None):
    """(exit status, standard output, standard error) of a function that a forked child calls.

    The status is that of a signal, negative, if one ended the child, and None if it took longer
    than `seconds`.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(standard_input.encode())
        files[0].seek(0)
        child = os.fork()
        if child == 0:
            _be_a_process(function, files, cwd, environment)
        status = _wait(child, seconds)
        for file in files:
            file.seek(0)
        return status, *(file.read().decode("utf-8", "replace") for file in files[1:])


def _be_a_process(function, files, cwd, environment):
    """Calls the function as the main program of a process of its own, and ends the process."""
    status = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout = open(0), open(1, "w", encoding="utf-8")
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
        os.chdir(cwd)
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        function()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(status)


def _wait(child, seconds):
    end = time.monotonic() + seconds if seconds else None
    while end is not None:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _command(arguments):
    import tfsoftmax_command

    sys.argv = [tfsoftmax_command.__file__, *arguments]
    tfsoftmax_command.main()


def _done(request):
    """The status and the outputs of a command, as `in_child` returns them."""
    arguments, *others = request
    return in_child(lambda: _command(arguments), *others)


if __name__ == "__main__":
    serve(_done)

"""Checks under strategies with several replicas, each in a child of one process.

The parent has imported TensorFlow and runs none of it, so that a child, as good as a new process,
costs no import.
"""

import contextlib
import functools
import importlib
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SECONDS = 240


@functools.cache
def _server():
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}, cwd=HERE,
    )


def check(module, function, *arguments):
    """Calls a function of a test module in a child, and fails as it does."""
    server = _server()
    server.stdin.write(json.dumps([module, function, arguments]) + "\n")
    server.stdin.flush()
    status, out, errors = json.loads(server.stdout.readline())
    assert status == 0, f"{status}\n{out[-2000:]}\n{errors[-4000:]}"


def mirrored(replicas):
    """A strategy of virtual devices; TensorFlow takes their number once in a process."""
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(cpu, devices)
    if replicas == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


def main():
    """Answers requests, a line each, until standard input ends."""
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    import command_server
    import tfsoftmax

    assert tfsoftmax
    answers, requests = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0))
    for line in requests:
        module, function, arguments = json.loads(line)

        def call(module=module, function=function, arguments=arguments):
            getattr(importlib.import_module(module), function)(*arguments)

        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(command_server.in_child(call, HERE, seconds=SECONDS)),
                  file=answers, flush=True)


if __name__ == "__main__":
    main()

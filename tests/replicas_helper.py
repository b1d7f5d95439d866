"""Runs functions of tests in processes of their own: under one strategy, or as several workers.

A second `MirroredStrategy` in one process hangs, and virtual devices are set before TensorFlow
starts. The processes are forked from one that has imported TensorFlow, as in `command_server`.
"""

import contextlib
import functools
import importlib
import json
import os
import pickle
import signal
import socket
import tempfile
import time

import command_server


def run(function, workers=1, devices=1, seconds=300, **arguments):
    """What a function returns, for each of the workers that call it at the same time.

    Args:
        function: a function of a module in `tests`.
        workers: number of processes. Several have a `TF_CONFIG`, as a cluster on this machine.
        devices: virtual CPUs of each process.
        seconds: time after which the processes are killed.
        **arguments: what JSON can hold.
    """
    with tempfile.TemporaryDirectory() as folder:
        request = {
            "module": function.__module__, "name": function.__name__, "workers": workers,
            "devices": devices, "seconds": seconds, "arguments": arguments, "folder": folder,
        }
        statuses = command_server.ask(__file__, request, CUDA_VISIBLE_DEVICES="")
        texts = [_read(f"{folder}/{worker}.err")[-4000:] for worker in range(workers)]
        # The one that failed by itself, and not the ones that were killed because of it.
        failed = [i for i in sorted(range(workers), key=lambda i: statuses[i] < 0) if statuses[i]]
        assert not failed, f"worker {failed[0]} ended with {statuses}:\n{texts[failed[0]]}"
        results = []
        for worker in range(workers):
            with open(f"{folder}/{worker}.pickle", "rb") as file:
                results.append(pickle.load(file))
        return results


def strategy_here():
    """That of the cluster, or of the virtual devices of this process, or of its one device."""
    import tensorflow as tf

    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = [f"CPU:{i}" for i in range(len(tf.config.list_logical_devices("CPU")))]
    return tf.distribute.MirroredStrategy(devices) if devices[1:] else tf.distribute.get_strategy()


def _read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in sockets]


def _call(request, worker):
    """The work of one process, which mends Keras as a program with a strategy does."""
    import tensorflow as tf

    import tfsoftmax

    tfsoftmax.mend_keras()

    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * request["devices"]
    tf.config.set_logical_device_configuration(cpu, parts)
    function = getattr(importlib.import_module(request["module"]), request["name"])
    result = function(**request["arguments"])
    paths = [f"{request['folder']}/{each}.pickle" for each in range(request["workers"])]
    with open(paths[worker], "wb") as file:
        pickle.dump(result, file)
    # The first to end would cut off what others still receive from it.
    while not all(map(os.path.exists, paths)):
        time.sleep(0.02)


def _serve(request):
    """The exit statuses of the workers. One that fails ends the others, which would wait for it."""
    workers, ports = request["workers"], _free_ports(request["workers"])
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    running, statuses = {}, [None] * workers
    for worker in range(workers):
        environment = {**os.environ}
        if workers > 1:
            task = {"type": "worker", "index": worker}
            environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(os.devnull, "rb"))]
            for name in ("out", "err"):
                path = f"{request['folder']}/{worker}.{name}"
                files.append(stack.enter_context(open(path, "wb")))
            child = os.fork()
            if child == 0:
                command_server._be_a_process(
                    functools.partial(_call, request, worker), files, os.getcwd(), environment
                )
            running[child] = worker
    end = time.monotonic() + request["seconds"]
    while running:
        for child in list(running):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                statuses[running.pop(child)] = os.waitstatus_to_exitcode(status)
        if any(statuses) or time.monotonic() > end:
            for child in running:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    return statuses


if __name__ == "__main__":
    command_server.serve(_serve)

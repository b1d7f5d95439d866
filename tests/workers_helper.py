"""Training runs by several workers or devices, as `replicas_helper` starts them."""

import os
import time

import numpy as np


def trained(data, run, model, config, strategy=None, stop=None):
    """Trains a run as one of the workers.

    Args:
        data, run: the folders.
        model, config: fields of the configurations that differ from those of `runs_helper`.
        strategy: "multiworker", "mirrored" or None.
        stop: None, or (rank, step, signal): the worker sends itself a signal after a step.

    Returns:
        The "finished" line, and the time at which training ended.
    """
    import dataclasses

    from runs_helper import CONFIG, MODEL, after_step
    from tfsoftmax.runs import training
    from tfsoftmax.sharding.workers import Workers

    workers = Workers(_strategy(strategy))
    rank, step, number = stop or (None, None, None)
    last = step if rank == workers.rank else None
    model = dataclasses.replace(MODEL, **model)
    config = dataclasses.replace(CONFIG, **config)
    with after_step(last, lambda _: os.kill(os.getpid(), number)):
        finished = training.train(data, run, model, config, verbose=False, workers=workers)
    return finished, time.time()


def trained_by_local_workers(count, **arguments):
    """`trained` in workers that the calling process starts."""
    from tfsoftmax.sharding.local_workers import become_workers

    become_workers(count)
    return trained(strategy="multiworker", **arguments)


def _strategy(name):
    import tensorflow as tf

    if name == "mirrored":
        return tf.distribute.MirroredStrategy()
    return tf.distribute.MultiWorkerMirroredStrategy() if name == "multiworker" else None


def largest_difference(one, other):
    """The largest difference between the variables of two runs' last checkpoints."""
    from runs_helper import final_weights

    one, other = final_weights(one), final_weights(other)
    assert one.keys() == other.keys()
    return max(
        np.abs(one[name].astype(np.float64) - other[name].astype(np.float64)).max(initial=0)
        for name in one
    )

"""Makes the workers that a command's flags, `TF_CONFIG` or Slurm describe."""

import json
import os
import sys

import tensorflow as tf

from tfsoftmax.sharding.workers import Workers
from tfsoftmax.support.arguments import refusal
from tfsoftmax.support.mends import mend_keras

_SHARING = ("chief", "worker")  # the tasks of `TF_CONFIG` that share the work


def start_workers(strategy: str, local: int = 1, streams: int | None = None) -> Workers:
    """Makes the workers that a command's flags ask for. TensorFlow must not have run anything yet.

    Args:
        strategy: "none" for one device; "mirrored" for all devices of the machine; "multiworker"
            for the cluster that `TF_CONFIG` or Slurm describes; or "auto": the cluster if
            `TF_CONFIG` describes several workers, else as many GPUs as can share the streams
            equally, or one device.
        local: the number of workers if `become_workers` has started them on this machine, which
            share its GPUs; else 1.
        streams: the number of streams that the devices share; None if any number can share them.

    Raises:
        ValueError: there is no cluster, its description is wrong, the task of this process is none
            that shares the work, or there are fewer GPUs than local workers.
    """
    mend_keras()
    clustered = strategy in ("auto", "multiworker") and _workers_in_environment() > 1
    if strategy == "multiworker" and not clustered:
        _describe_slurm()
        clustered = True
    gpus = tf.config.list_physical_devices("GPU") if strategy != "none" else []
    if clustered:
        if local > 1 and gpus:
            _keep_own_gpus(gpus, local)
        return Workers(tf.distribute.MultiWorkerMirroredStrategy())
    if strategy == "mirrored":
        return Workers(tf.distribute.MirroredStrategy())
    if strategy == "auto":
        counts = range(1, len(gpus) + 1)
        used = max((n for n in counts if streams is None or streams % n == 0), default=1)
        if used < len(gpus):
            print(
                f"warning: {used} of {len(gpus)} GPUs will be used, because their number must "
                f"divide that of the streams, {streams}.", file=sys.stderr,
            )
        if used > 1:
            return Workers(tf.distribute.MirroredStrategy([f"GPU:{n}" for n in range(used)]))
    return Workers()


def _workers_in_environment():
    """The number of workers that `TF_CONFIG` describes, 0 without it."""
    text = os.environ.get("TF_CONFIG", "")
    try:
        config = json.loads(text or "{}")
        cluster = config.get("cluster", {})
        jobs = {job: len(tasks) for job, tasks in cluster.items()}
        if not all(isinstance(address, str) for tasks in cluster.values() for address in tasks):
            raise ValueError
        kind = config["task"]["type"] if jobs else None
        if kind in _SHARING:
            config["cluster"][kind][int(config["task"]["index"])]
    except (ValueError, TypeError, AttributeError, LookupError):
        raise refusal(
            "TF_CONFIG", "be JSON, in the environment, with the addresses of the cluster and the "
            'task of this process: {"cluster": {"worker": [...]}, "task": {"type": "worker", '
            '"index": 0}}; --strategy=none does without', received=text[:200]
        ) from None
    if jobs and kind not in _SHARING:
        raise refusal(
            "TF_CONFIG",
            "give this process the task of a chief or a worker. These share all the work, "
            "validation too; give --strategy=none to a command that has no part in it",
            received=f"a task of type {kind!r}",
        )
    return sum(jobs.get(name, 0) for name in _SHARING)


def _describe_slurm():
    """Writes the cluster of the present Slurm step into `TF_CONFIG`.

    The GPUs of a task are those that Slurm gives it (`srun --gpus-per-task`).
    """
    if "SLURM_PROCID" not in os.environ:
        raise refusal(
            "strategy", "have a cluster for 'multiworker': in TF_CONFIG, in a step of Slurm "
            "(srun), or by --workers=N, N processes on this machine",
            received="none of them"
        )
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", "1"))
    numbers = [int(os.environ.get(f"SLURM_{name}", 0)) for name in ("JOB_ID", "STEP_ID")]
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        port_base=10_000 + (97 * numbers[0] + numbers[1]) % 20_000,  # jobs may share a machine
        gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False,  # it cannot do without GPUs
    )
    cluster = resolver.cluster_spec().as_dict()
    host = cluster["worker"][resolver.task_id].rpartition(":")[0]
    node = os.environ.get("SLURMD_NODENAME", host)
    if node != host:
        raise refusal(
            "strategy", "be given where Slurm numbers tasks in the alphabetical order of the "
            "nodes: give them in this order with srun --distribution=arbitrary, or describe the "
            "cluster in TF_CONFIG", received=f"task {resolver.task_id} on {node}, not {host}"
        )
    task = {"type": resolver.task_type, "index": resolver.task_id}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})


def _keep_own_gpus(gpus, local):
    each, rank = len(gpus) // local, json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    if each == 0:
        raise refusal("workers", f"be at most the number of GPUs, {len(gpus)}", local)
    tf.config.set_visible_devices(gpus[rank * each : (rank + 1) * each], "GPU")

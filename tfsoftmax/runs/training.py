"""Trains a model; a run that was killed continues from its last checkpoint."""

import contextlib
import dataclasses
import signal

from tfsoftmax.corpora.pipeline import rows_of_each
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.tasks import LANGUAGE_MODEL, Task
from tfsoftmax.runs.copies import FILES, keep_copies, with_copies
from tfsoftmax.runs.description import (
    description,
    needs_machine,
    with_chosen_options,
    with_settled_options,
)
from tfsoftmax.runs.followers import FollowedRun
from tfsoftmax.runs.runs import Run
from tfsoftmax.runs.trainer import Trainer
from tfsoftmax.sharding.workers import SHOWING_SECONDS, Workers
from tfsoftmax.support.arguments import expect


def train(
    data: str, run: str, model_config: ModelConfig, config: TrainingConfig, verbose: bool = True,
    profile_batch: tuple[int, int] | None = None, workers: Workers | None = None,
    task: Task = LANGUAGE_MODEL,
) -> dict | None:
    """Trains a run to its end: a new run, or one that was killed, interrupted or extended.

    Args:
        data: the directory of a prepared corpus.
        run: the directory of the run.
        model_config: the model to build, of the class that the task has.
        config: the training to do.
        verbose: whether to show a progress bar, and a line for each validation.
        profile_batch: the first and the last step to trace for TensorBoard; None for no trace.
        workers: the processes and devices that share the streams; None for this process and one
            device. All workers call this function with the same arguments, and see the same
            folders, which is checked; only the first writes and prints. Their number may change
            when a run continues.
        task: what to train.

    Returns:
        The "finished" line of the metrics; None if the run was interrupted.

    Raises:
        ValueError: the corpus, the run and the configuration do not fit each other, or are not the
            same for all workers.
        RuntimeError: the loss or a weight is no longer finite, or another worker has ended.

    Source: Müller 2017, section 4.3.
    """
    workers = workers or Workers()
    expect(type(model_config) is task.config, "model_config",
           f"be a {task.config.__name__} for a corpus of {task.name}",
           received=f"a {type(model_config).__name__}")
    corpus, run = task.corpus.load(data), (Run if workers.first else FollowedRun)(run, task)
    for name in ("train", "valid"):
        expect(name in corpus.splits, "data",
               f"have a {name} split to train with; prepare it with one",
               received=f"data={data!r}, which has {', '.join(corpus.splits)}")
        for file in corpus.splits[name].files:
            file.verify()
    rows_of_each(corpus, workers.strategy)
    with workers.explaining_loss(lambda: _advice(run)), contextlib.ExitStack() as stack:
        def begin():
            run.check_directory()
            stack.enter_context(run.locked())
            return _settled(corpus, run, model_config, config, workers)

        settled = workers.from_first(begin)
        workers.check_same(lambda: _seen(corpus, run), SHOWING_SECONDS)
        return _train(corpus, run, settled, verbose and workers.first, profile_batch, workers)


def _settled(corpus, run, model_config, config, workers):
    """Checks what is asked for against what the run is, and settles what was left open.

    Returns:
        The configurations as dictionaries, the run's files now and when it began, and its
        "finished" line or None: what all workers have to agree on.
    """
    recorded = run.config() if run.exists() else None
    model_config = with_settled_options(model_config, recorded)
    files = keep_copies(run.path(FILES), model_config, config, recorded, corpus)
    run.check({**description(corpus, model_config, config), "files": files})
    began_with = files if recorded is None else recorded["files"]
    if workers.size > 1 and needs_machine(model_config):  # the others might measure otherwise
        own = with_copies(model_config, run.path(FILES), began_with)
        model_config = with_chosen_options(model_config, run.task.build(own, corpus.vocabulary, 1))
    finished = [m for m in run.metrics() if m["event"] == "finished"]
    return {
        "model": dataclasses.asdict(model_config), "training": dataclasses.asdict(config),
        "files": files, "began_with": began_with, "finished": finished[-1] if finished else None,
    }


def _seen(corpus, run):
    """What the run and the corpus are to this worker, which reads both by itself."""
    begun = run.exists()
    last = run.checkpoints.name() if begun else None
    splits = [corpus.split(name) for name in ("train", "valid")]
    return {
        "lock": run.lock_token(),  # new at each start, so that a copy of the folder has another
        "run_id": run.config()["id"] if begun else None,
        "checkpoint": last,
        "progress": run.checkpoints.progress() if last else None,
        "vocabulary_sha256": corpus.vocabulary.sha256,
        "records_sha256": [file.sha256 for split in splits for file in split.files],
        **corpus.shape,
    }


def _train(corpus, run, settled, verbose, profile_batch, workers):
    model_config = run.task.config(**settled["model"])
    config = TrainingConfig(**settled["training"])
    own = with_copies(model_config, run.path(FILES), settled["began_with"])
    trainer = Trainer(corpus, run, own, config, verbose, profile_batch, workers)
    described = description(corpus, with_chosen_options(model_config, trainer.model), config)
    finished = settled["finished"] and trainer.ended()
    if finished:
        described["training"] = run.config()["training"]  # what it did, which may be more
    run.start({**described, "files": settled["files"]}, corpus.vocabulary)
    if finished:
        trainer.say(f"{run.directory} has already finished, at step {trainer.progress.step}.")
        return settled["finished"]
    with _on_signals(trainer.stop), contextlib.closing(trainer.monitor):
        return trainer.run_to_the_end()


def _advice(run):
    """What to do after another worker has ended."""
    last = run.checkpoints.name() if run.exists() else None
    if last is None:
        return "There is no checkpoint yet; start the same command again."
    return f"Start the same command again to go on from the last checkpoint, {last}."


@contextlib.contextmanager
def _on_signals(function):
    """Calls a function at the first Ctrl-C or SIGTERM; a second one raises KeyboardInterrupt.

    In a thread other than the main one it does nothing.
    """
    signalled = False

    def handle(number, frame):
        nonlocal signalled
        if signalled:
            raise KeyboardInterrupt
        signalled = True
        function()

    try:
        before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

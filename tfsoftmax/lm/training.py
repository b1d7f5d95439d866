"""Trains a language model; a run that was killed continues from its last checkpoint."""

import contextlib

from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.description import description, with_chosen_options, with_settled_options
from tfsoftmax.lm.run_files import FILES, keep_copies, with_copies
from tfsoftmax.lm.runs import Run
from tfsoftmax.lm.trainer import Trainer


def train(
    data: str, run: str, model_config: ModelConfig, config: TrainingConfig, verbose: bool = True,
    profile_batch: tuple[int, int] | None = None,
) -> dict | None:
    """Trains a run to its end: a new run, or one that was killed, interrupted or extended.

    Args:
        data: the directory of a prepared corpus.
        run: the directory of the run.
        model_config: the model to build.
        config: the training to do.
        verbose: whether to show a progress bar, and a line for each validation.
        profile_batch: the first and the last step to trace for TensorBoard; None for no trace.

    Returns:
        The "finished" line of the metrics; None if the run was interrupted.

    Raises:
        ValueError: the corpus, the run and the configuration do not fit each other.
        RuntimeError: the loss or a weight is no longer finite.

    Source: Müller 2017, section 4.3.
    """
    corpus, run = Corpus.load(data), Run(run)
    for name in ("train", "valid"):
        if name not in corpus.splits:
            raise ValueError(
                f"`data` must have a {name} split to train with; prepare it with one. "
                f"Received: data={data!r}, which has {', '.join(corpus.splits)}"
            )
        for file in corpus.splits[name].files:
            file.verify()
    run.check_directory()
    with run.locked():
        return _train(corpus, run, model_config, config, verbose, profile_batch)


def _train(corpus, run, model_config, config, verbose, profile_batch):
    recorded = run.config() if run.exists() else None
    model_config, config = run.with_older_choices(model_config, config)
    model_config = with_settled_options(model_config, recorded)
    files = keep_copies(run.path(FILES), model_config, config, recorded)
    run.check({**description(corpus, model_config, config), "files": files})
    finished = [m for m in run.metrics() if m["event"] == "finished"]
    own = with_copies(
        model_config, run.path(FILES), files if recorded is None else recorded.get("files")
    )
    trainer = Trainer(corpus, run, own, config, verbose, profile_batch)
    if finished and trainer.ended():
        trainer.say(f"{run.directory} has already finished, at step {trainer.progress.step}.")
        return finished[-1]
    described = description(corpus, with_chosen_options(model_config, trainer.model), config)
    run.start({**described, "files": files}, corpus.vocabulary)
    with trainer.interruptible(), contextlib.closing(trainer.monitor):
        return trainer.run_to_the_end()

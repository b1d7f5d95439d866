"""Training a language model, so that a killed run goes on as if it had not been killed."""

import contextlib
import dataclasses
import math
import resource
import signal
import sys
import time

import keras
import tensorflow as tf
from tqdm import tqdm

from tfsoftmax import optimizers
from tfsoftmax.profiling.monitor import TrainingMonitor
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.evaluation import exact_evaluator
from tfsoftmax.lm.model import language_model, reset_states
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.metrics import Perplexity
from tfsoftmax.lm.pretrained import apply_embeddings, load_embeddings
from tfsoftmax.lm.runs import Run, decided, description, settled, training_variables


@dataclasses.dataclass
class Progress:
    """How far a run has come; kept beside each checkpoint.

    The place in the data follows from `step`: epochs of `records` steps, records in order.
    """

    step: int = 0
    seconds: float = 0.0  # in training steps, without validation
    previous_perplexity: float = math.inf
    best_perplexity: float = math.inf
    best_step: int = 0
    validated_step: int = 0


def train(data, run, model_config, config, verbose=True, profile_batch=None):
    """Trains to the end, from wherever the run's folder stands.

    Args:
        data: directory of a prepared corpus.
        run: directory of the run.
        model_config: `ModelConfig`.
        config: `TrainingConfig`.
        verbose: whether to show progress and a line for each validation.
        profile_batch: None, or the first and the last step to trace for TensorBoard.

    Returns:
        The last "finished" line of the metrics, or None if the run was interrupted.

    Raises:
        ValueError: corpus and run do not fit each other or the configuration.
        RuntimeError: the loss or a weight is not finite any more.

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
    model_config = settled(model_config, run)
    run.check(description(corpus, model_config, config))
    finished = [m for m in run.metrics() if m["event"] == "finished"]
    trainer = Trainer(corpus, run, model_config, config, verbose, profile_batch)
    if finished and trainer.progress.step >= trainer.limit:
        trainer.say(f"{run.directory} has finished at step {trainer.progress.step} already.")
        return finished[-1]
    described = description(corpus, decided(model_config, trainer.model), config)
    run.start(described, corpus.vocabulary)  # nothing is left behind by a mistake so far
    with run.locked(), trainer.interruptible(), contextlib.closing(trainer.monitor):
        return trainer.run_to_the_end()


class Trainer:
    """The parts of a training run that its steps share."""

    def __init__(self, corpus, run, model_config, config, verbose, profile_batch=None):
        self.corpus, self.run, self.config, self.verbose = corpus, run, config, verbose
        keras.utils.set_random_seed(config.seed)
        self.model = compiled_model(model_config, config, corpus)
        self.variables = training_variables(self.model)
        saved = run.restore(self.variables)
        self.progress = Progress(**saved) if saved else Progress()
        if saved is None and config.pretrained:
            self._load_embeddings(model_config)
        self.records = corpus.split("train").records
        self.limit = config.epochs * self.records
        if config.max_steps:
            self.limit = min(self.limit, config.max_steps)
        self.evaluate = exact_evaluator(self.model)
        self.monitor = TrainingMonitor(
            run.path("tensorboard"), config.log_steps, corpus.streams * corpus.time_steps, profile_batch
        )
        self.monitor.set_model(self.model)
        self.interrupted = False

    def say(self, text):
        if self.verbose:
            tqdm.write(text, file=sys.stdout)
            sys.stdout.flush()

    def run_to_the_end(self):
        """Alternates parts of an epoch and validations; returns the "finished" line."""
        progress, traced = self.progress, self.monitor.profile_batch
        if traced and progress.step >= traced[1]:
            self.say(f"Steps {traced[0]} to {traced[1]} are behind us and will not be traced.")
        if progress.step:
            self.say(f"Resuming {self.run.directory} at step {progress.step}.")
        self.run.rewind_metrics(progress.step)
        self.monitor.on_train_begin()
        while progress.step < self.limit:
            end = self._end_of_part()
            self._train_part(end)
            if progress.step == end:
                self._validate()
            else:
                self._save()
            if self.interrupted and progress.step < self.limit:
                self.say(
                    f"Interrupted at step {progress.step}, which is saved: "
                    "the same command goes on from there."
                )
                return None
        if progress.validated_step < progress.step:  # the limit was lowered to where we stand
            self._validate()
        return self._finish()

    def _end_of_part(self):
        """The step at which the current part of an epoch ends, and a validation is due."""
        epoch, record = divmod(self.progress.step, self.records)
        parts = self.config.pseudo_epochs
        ends = (i * self.records // parts for i in range(1, parts + 1))
        return min(epoch * self.records + next(e for e in ends if e > record), self.limit)

    def _train_part(self, end):
        progress, config = self.progress, self.config
        first, record = progress.step, progress.step % self.records
        if record == 0:
            reset_states(self.model)
        self.model.reset_metrics()
        self.model.make_train_function()
        self.monitor.on_epoch_begin(first // self.records)
        steps = iter(batches(self.corpus, "train", start=record, count=end - first))
        bar = tqdm(
            total=end, initial=first, unit="step", desc=f"epoch {first // self.records + 1}",
            leave=False, disable=None if self.verbose else True, mininterval=0.5,
        )
        logged_at = (progress.step, progress.seconds)
        with bar:
            while progress.step < end and not self.interrupted:
                if progress.step and progress.step % config.reassign_steps == 0:
                    self._reassign()
                self.monitor.on_train_batch_begin(progress.step)
                start = time.perf_counter()
                logs = {k: float(v) for k, v in self.model.train_function(steps).items()}
                progress.seconds += time.perf_counter() - start
                progress.step += 1
                self.monitor.on_train_batch_end(progress.step - 1)
                self._check_finite(logs["loss"])
                bar.update()
                if progress.step % config.log_steps == 0 or progress.step == end:
                    bar.set_postfix(self._log_step(logs, *logged_at), refresh=False)
                    logged_at = (progress.step, progress.seconds)
                if progress.step % config.checkpoint_steps == 0 and progress.step < end:
                    self._save()

    def _reassign(self):
        """Lets the words of a head that organises itself choose their clusters.

        Before a step and not behind one: no model is validated or left to its user that has
        not learned in its clusters.
        """
        head = self.model.get_layer("head")
        if hasattr(head, "reassign"):
            self._log("reassigned", head.reassign())

    def _log_step(self, logs, last_step, last_seconds):
        """Logs a line of training metrics; returns what the progress bar shows."""
        progress = self.progress
        positions = (progress.step - last_step) * self.corpus.streams * self.corpus.time_steps
        speed = positions / (progress.seconds - last_seconds)
        values = {
            "loss": logs["loss"], "perplexity": logs["perplexity"],
            "learning_rate": float(self.model.optimizer.learning_rate.value),
            "words_per_second": round(speed, 1),
        }
        self._log("train", values)
        return {"loss": f"{logs['loss']:.4g}", "ppl": f"{logs['perplexity']:.4g}",
                "words/s": f"{speed:,.0f}"}

    def _log(self, event, values):
        progress = self.progress
        where = {"step": progress.step, "epoch": round(progress.step / self.records, 6)}
        self.run.log(event=event, **where, **values, seconds=round(progress.seconds, 3))
        if event != "finished":
            with self.monitor.writer.as_default(step=progress.step):
                for name, value in values.items():
                    tf.summary.scalar(f"{event}/{name}", value)

    def _validate(self):
        """Exact perplexity of the validation split; decays the learning rate; saves."""
        progress, optimizer = self.progress, self.model.optimizer
        result = self.evaluate(self.corpus, "valid", self.verbose and sys.stderr.isatty())
        perplexity, rate = result["perplexity"], float(optimizer.learning_rate.value)
        if not math.isfinite(perplexity):
            self._fail(f"the validation perplexity is {perplexity}")
        self._log("valid", {
            **{k: result[k] for k in ("perplexity", "nats_per_token", "tokens")},
            "learning_rate": rate,
        })
        self.monitor.writer.flush()
        best = perplexity < progress.best_perplexity
        if best:
            progress.best_perplexity, progress.best_step = perplexity, progress.step
        note = ""
        if progress.previous_perplexity - perplexity <= self.config.decay_when:
            optimizer.learning_rate.assign(rate * self.config.decay)
            note = f"; learning rate {rate:g} -> {rate * self.config.decay:g}"
        progress.previous_perplexity, progress.validated_step = perplexity, progress.step
        self._save(best)
        self.say(
            f"epoch {progress.step / self.records:.2f}, step {progress.step}: exact validation "
            f"perplexity {perplexity:.2f} ({result['nats_per_token']:.4f} nats/token, "
            f"{result['tokens']:,} tokens){note}"
        )

    def _finish(self):
        progress = self.progress
        positions = progress.step * self.corpus.streams * self.corpus.time_steps
        self._log("finished", {
            "best_perplexity": progress.best_perplexity, "best_step": progress.best_step,
            "words_per_second": round(positions / progress.seconds, 1),
            "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        })
        return self.run.metrics()[-1]

    def _save(self, best=False):
        for variable in self.model.trainable_variables:
            if not bool(tf.reduce_all(tf.math.is_finite(variable.value))):
                self._fail(f"`{variable.path}` is not finite any more")
        self.run.save(self.variables, dataclasses.asdict(self.progress), best)

    def _check_finite(self, loss):
        if not math.isfinite(loss):
            self._fail(f"the loss is {loss}")

    def _fail(self, what):
        last = self.run.pointers().get("last", "none yet")
        raise RuntimeError(
            f"Training stopped at step {self.progress.step}: {what}. The last good checkpoint "
            f"({last}) is untouched. Try a smaller learning_rate, or a smaller clip_norm "
            "that is not 0, in a new run."
        )

    def _load_embeddings(self, model_config):
        rows, vectors, coverage = load_embeddings(
            self.config.pretrained, self.corpus.vocabulary, model_config.embedding, self.verbose
        )
        apply_embeddings(self.model.get_layer("embedding"), rows, vectors)
        self.say(str(coverage))

    @contextlib.contextmanager
    def interruptible(self):
        """Ctrl-C or SIGTERM ends the run after the current step, saved; a second one at once."""

        def stop(number, frame):
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        try:
            before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def compiled_model(model_config, config, corpus):
    """The language model with the loss, metric and optimiser of a configuration."""
    model = language_model(model_config, corpus.vocabulary, corpus.streams, corpus.time_steps)
    clipping = {"global": "global_clipnorm", "variable": "clipnorm"}[config.clip]
    options = {clipping: config.clip_norm} if config.clip_norm else {}
    if config.optimizer == "adagrad":
        options["initial_accumulator_value"] = config.initial_accumulator
    if config.optimizer == "sgd":
        options["momentum"] = config.momentum
    kinds = {"adagrad": optimizers.Adagrad, "sgd": optimizers.SGD, "adam": optimizers.Adam}
    optimizer = kinds[config.optimizer](config.learning_rate, **options)
    optimizer.build(model.trainable_variables)
    reduction = {"stream": "sum_over_steps", "token": "mean_with_sample_weight"}[config.reduce]
    model.compile(optimizer, SoftmaxLoss(reduction=reduction), weighted_metrics=[Perplexity()])
    return model

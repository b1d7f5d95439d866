"""The steps of a training run: parts of an epoch, validations, checkpoints, interruptions."""

import dataclasses
import math
import sys
import time

import keras
import tensorflow as tf
from tqdm import tqdm

from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm.compiled import compiled_model
from tfsoftmax.lm.evaluation import exact_evaluator, head_metrics
from tfsoftmax.lm.model import reset_states
from tfsoftmax.lm.pretrained import apply_embeddings, load_embeddings
from tfsoftmax.profiling.memory import peak_resident_bytes
from tfsoftmax.profiling.monitor import TrainingMonitor
from tfsoftmax.runs.checkpoints import training_variables
from tfsoftmax.runs.followers import NoMonitor
from tfsoftmax.runs.progress import Progress
from tfsoftmax.runs.stream_states import StreamStates
from tfsoftmax.sharding.run_checkpoints import not_finite
from tfsoftmax.sharding.workers import Workers
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.progress import bar

REPORT_SECONDS = 30.0  # between two lines of progress where no terminal shows a bar


class Trainer:
    """What the steps of a training run share: the model, the progress, the monitor.

    The arguments are those of `train`, with the corpus and the run opened.
    """

    def __init__(
        self, corpus, run, model_config, config, verbose, profile_batch=None, workers=None
    ):
        self.corpus, self.run, self.config, self.verbose = corpus, run, config, verbose
        self.workers = workers or Workers()
        self.records = corpus.split("train").records
        self.limit = min(config.epochs * self.records, config.max_steps or sys.maxsize)
        keras.utils.set_random_seed(config.seed)
        with self.workers.strategy.scope():
            self.model = compiled_model(model_config, config, corpus, run.task, self.limit)
            metrics = head_metrics(self.model)
        self.states = StreamStates(self.model, self.workers)
        self.variables = training_variables(self.model, self.states.variables)
        saved = run.checkpoints.restore(self.variables)
        self.states.scatter()
        self.progress = Progress.of(saved, run.checkpoints) if saved else Progress()
        self.takes_vectors = saved is None and bool(config.pretrained)
        if self.takes_vectors:
            self._load_embeddings(model_config)
        self.evaluate = exact_evaluator(self.model, metrics)
        self.positions = corpus.positions  # in a step, on average
        self.monitor = TrainingMonitor(
            run.path("tensorboard"), config.log_steps, self.positions, profile_batch
        ) if self.workers.first else NoMonitor()
        self.monitor.set_model(self.model)
        self.reported = time.monotonic(), self.progress.step, self.progress.seconds
        self.asked_to_stop = False  # this worker, while `interrupted` is what all agree on
        self.interrupted = False

    def stop(self):
        """Makes the run end, saved, after the current step or batch of a validation."""
        self.asked_to_stop = True

    def say(self, text):
        """Prints a line above the progress bar if the run is verbose."""
        if self.verbose:
            tqdm.write(text, file=sys.stdout)
            sys.stdout.flush()

    def run_to_the_end(self):
        """Alternates between training and validation; returns the "finished" line."""
        progress, traced = self.progress, self.monitor.profile_batch
        if traced and progress.step >= traced[1]:
            self.say(
                f"Steps {traced[0]} to {traced[1]} will not be traced: the run has already "
                f"reached step {progress.step}."
            )
        if progress.step:
            rate = self.model.optimizer.learning_rate.numpy()  # which a longer curve changes
            self.say(f"Resuming {self.run.directory} at step {progress.step}, where the learning "
                     f"rate is {rate:.3g}.")
        self.run.rewind_metrics(progress.step, progress.validated_step == progress.step)
        self.run.log(
            event="started", step=progress.step, workers=self.workers.size,
            devices=self.workers.replicas,
        )
        self.monitor.on_train_begin()
        if self.takes_vectors:  # from here on the run does not need their file any more
            self._save()
        while not self.ended():
            if not self._validation_is_due():
                self._train_part(self._end_of_part(self.progress.step))
            if not self.interrupted and self._validation_is_due():
                self._validate()
            else:
                self._save()
            if self.interrupted and not self.ended():
                self.say(
                    f"Interrupted and saved at step {progress.step}. "
                    "Run the same command to go on from there."
                )
                return None
        return self._finish()

    def ended(self):
        """Whether the run has reached its limit and validated there, or its patience has ended."""
        progress = self.progress
        waited = progress.validated_step - progress.gained_step
        if 0 < self.config.patience * self.records <= waited:
            return True
        return progress.step >= self.limit and not self._validation_is_due()

    def _validation_is_due(self):
        """Whether the run stands at the end of a part, or beyond its limit, and has to validate."""
        step = self.progress.step
        at_end = step >= self.limit or step == self._end_of_part(step - 1)
        return at_end and self.progress.validated_step < step

    def _end_of_part(self, step):
        """The first step after `step` at which a part of an epoch ends with a validation."""
        parts, every = self.config.pseudo_epochs, self.config.valid_steps or self.limit
        start = step // self.records * self.records
        ends = [start + i * self.records // parts for i in range(1, parts + 1)]
        return min(next(end for end in ends if end > step), (step // every + 1) * every, self.limit)

    def _train_part(self, end):
        progress, config = self.progress, self.config
        first, record = progress.step, progress.step % self.records
        if record == 0:
            reset_states(self.model)
        self.model.reset_metrics()
        self.model.make_train_function()
        self.monitor.on_epoch_begin(first // self.records)
        steps = iter(batches(self.corpus, "train", record, end - first, self.workers.strategy))
        logged_at = (progress.step, progress.seconds)
        with bar(self._epoch(first), end, "steps", self.verbose, initial=first) as shown:
            while not self._stops("train") and progress.step < end:
                if progress.step and progress.step % config.reassign_steps == 0:
                    self._reassign()
                self.monitor.on_train_batch_begin(progress.step)
                start = time.perf_counter()
                values = self.model.train_function(steps)
                progress.step += 1
                logs = progress.step % config.log_steps == 0 or progress.step == end
                saves = progress.step % config.checkpoint_steps == 0 and progress.step < end
                reports = self._report_is_due()
                if logs or saves or reports:
                    # Only here does the program wait for the devices. The loss is a mean since the
                    # part began, which stays infinite or NaN once it is.
                    values = {name: float(value) for name, value in values.items()}
                    if not math.isfinite(values["loss"]):
                        self._fail(f"the loss is {values['loss']}")
                progress.seconds += time.perf_counter() - start
                self.monitor.on_train_batch_end(progress.step - 1)
                shown.update()
                if logs:
                    shown.set_postfix(self._log_step(values, *logged_at), refresh=False)
                    logged_at = (progress.step, progress.seconds)
                if reports:
                    self._report(values)
                if saves:
                    self._save()

    def _stops(self, split="valid"):
        """Whether any of the workers was asked to stop. All of them ask at the same time."""
        wish = self.asked_to_stop or self.interrupted
        self.interrupted = self.workers.agree_to_stop(wish, split)
        return self.interrupted

    def _reassign(self):
        """Lets the words of a self-organised head choose their clusters.

        This happens before a training step, so that the model has learned with its new clusters
        before it is validated or saved as the result.
        """
        head = self.model.get_layer("head")
        if hasattr(head, "reassign"):
            self._log("reassigned", head.reassign())

    def _log_step(self, logs, last_step, last_seconds):
        """Logs a line of training metrics; returns what the progress bar shows."""
        speed = self._speed(last_step, last_seconds)
        values = {
            "loss": logs["loss"], "perplexity": logs.get("perplexity", math.nan),
            "learning_rate": float(self.model.optimizer.learning_rate.numpy()),
            "words_per_second": round(speed, 1),
        }
        self._log("train", values)
        return {**_shown(logs), "words/s": f"{speed:,.0f}"}

    def _report_is_due(self):
        """Whether no terminal shows the progress bar, and nothing has been printed for a while."""
        return not sys.stderr.isatty() and time.monotonic() - self.reported[0] >= REPORT_SECONDS

    def _report(self, logs):
        """Prints a line of progress."""
        _, step, seconds = self.reported
        self.say(
            f"{self._epoch(self.progress.step - 1)}, step {self.progress.step:,} of "
            f"{self.limit:,}: {', '.join(' '.join(each) for each in _shown(logs).items())}, "
            f"{self._speed(step, seconds):,.0f} words/s"
        )
        self.reported = time.monotonic(), self.progress.step, self.progress.seconds

    def _epoch(self, step):
        """Says in which epoch a step is."""
        return f"epoch {step // self.records + 1} of {-(-self.limit // self.records)}"

    def _speed(self, step, seconds):
        """The words per second since a step, at which the run had taken so many seconds."""
        words = (self.progress.step - step) * self.positions
        return words / (self.progress.seconds - seconds)

    def _log(self, event, values):
        progress = self.progress
        where = {"step": progress.step, "epoch": round(progress.step / self.records, 6)}
        self.run.log(event=event, **where, **values, seconds=round(progress.seconds, 3))
        if event != "finished":
            with self.monitor.writer.as_default(step=progress.step):
                for name, value in values.items():
                    tf.summary.scalar(f"{event}/{name}", tf.constant(value, tf.float64))

    def _validate(self):
        """Measures exact validation perplexity, decays the learning rate, and saves."""
        progress, optimizer = self.progress, self.model.optimizer
        result = self.evaluate(self.corpus, "valid", self.verbose, self._stops)
        if result is None:  # interrupted: validation starts again when the run goes on
            self._save()
            return
        perplexity, rate = result["perplexity"], float(optimizer.learning_rate.numpy())
        if not math.isfinite(perplexity):
            self._fail(f"the validation perplexity is {perplexity}")
        self._log("valid", {
            **{k: v for k, v in result.items() if k not in ("oov_tokens", "words_per_second")},
            "learning_rate": rate,
        })
        self.monitor.writer.flush()
        best = progress.validated(perplexity, self.config.min_delta)
        note, progress.validated_step = "", progress.step
        if self.config.decay_at == "validation" or progress.step % self.records == 0:
            gain = progress.previous_perplexity - perplexity
            epochs, rest = divmod(progress.step, self.records)
            due = 0 < self.config.decay_after <= epochs and not rest
            due |= gain <= self.config.decay_when
            if self.config.schedule == "validation" and due:
                optimizer.learning_rate.assign(rate * self.config.decay)
                note = f"; learning rate {rate:g} -> {rate * self.config.decay:g}"
            progress.previous_perplexity = perplexity
        self._save(best)
        self.say(
            f"epoch {progress.step / self.records:.2f}, step {progress.step}: exact validation "
            f"perplexity {perplexity:.2f} ({result['nats_per_token']:.4f} nats/token, "
            f"{result['tokens']:,} tokens{_per_text(result)}){note}"
        )

    def _finish(self):
        progress = self.progress
        self._log("finished", {
            "best_perplexity": progress.best_perplexity, "best_step": progress.best_step,
            "words_per_second": round(progress.step * self.positions / progress.seconds, 1),
            "peak_memory_gib": round(peak_resident_bytes() / 2**30, 3),
        })
        return self.workers.from_first(self._last_line)

    def _last_line(self):
        lines = self.run.metrics()
        expect(lines, f"{self.run.directory}:", "be there until training ends",
               received="it was deleted")
        return lines[-1]

    def _save(self, best=False):
        for path in not_finite(self.model.trainable_variables, self.workers):
            self._fail(f"`{path}` is no longer finite")
        self.states.gather()
        progress = dataclasses.asdict(self.progress)
        self.run.checkpoints.save(self.variables, progress, best, self.workers)

    def _fail(self, what):
        last = self.run.checkpoints.name() or "none yet"
        raise RuntimeError(
            f"Training stopped at step {self.progress.step}: {what}. The last good checkpoint "
            f"({last}) is untouched. Start a new run with a smaller learning_rate, or with a "
            "smaller clip_norm that is not 0."
        )

    def _load_embeddings(self, model_config):
        rows, vectors, coverage = load_embeddings(
            self.config.pretrained, self.corpus.vocabulary, model_config.embedding_units,
            self.verbose,
        )
        apply_embeddings(self.model.get_layer("embedding"), rows, vectors)
        self.say(str(coverage))


def _per_text(result):
    """What the validation says of words and bytes, for pieces."""
    shown = {"word_perplexity": "perplexity {:.2f} per word", "bits_per_byte": "{:.4f} bits/byte"}
    return "".join(", " + text.format(result[k]) for k, text in shown.items() if k in result)


def _shown(logs):
    """What is shown of training: the loss, and the perplexity where training knows it."""
    return {name: f"{logs[name]:.4g}" for name in ("loss", "perplexity") if name in logs}

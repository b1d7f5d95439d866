"""Records for TensorBoard what training costs while it runs."""

import contextlib
import math
import time

import keras
import tensorflow as tf

from tfsoftmax.profiling.memory import device_memory, resident_bytes
from tfsoftmax.profiling.memory_timeline import STEP
from tfsoftmax.profiling.model_parts import parameters_and_bytes, variables_by_part
from tfsoftmax.support.arguments import CheckedArguments, check_positive, expect, is_whole


class TrainingMonitor(CheckedArguments, keras.callbacks.Callback):
    """Records memory, speed and gradient norms for TensorBoard, and traces training steps.

    | tag | what it records |
    |---|---|
    | `memory/NAME_mib` | memory in use on each device that keeps count |
    | `memory/NAME_peak_mib` | the most memory that was in use there so far |
    | `memory/resident_mib` | the resident set of the process |
    | `speed/words_per_second` | words since the last record over the time since then |
    | `gradient_norm/PART`, `gradient_norm/global` | norms of the step's gradients before clipping |
    | `parameters` (Text) | trainable numbers and bytes of each part of the model |

    The optimiser records the gradient norms, since it has the gradients. The optimisers of
    `tfsoftmax.optimizers` do so on a single replica; with other optimisers, several replicas, or
    the loss scaling of `mixed_float16`, no norms are recorded.

    Args:
        log_dir: a directory for TensorBoard.
        every: the number of steps between two records.
        words_per_step: the number of positions in a batch, or their mean. With None it is taken
            from the shape of the model's first output, without the last axis; if that is not
            static, steps per second are recorded instead.
        profile_batch: the first and the last step to trace, counted from 1 by the optimiser, or
            None for no trace. `tfsoftmax memory_timeline` and TensorBoard's profile plugin read
            the trace. In steps 1 and 2 TensorFlow also builds graphs and allocates variables.
            With `steps_per_execution` whole calls are traced.

    Raises:
        ValueError: `every` or `profile_batch` is out of its range.

    Example:
        model = keras.Sequential([keras.Input((20, 64)), tfsoftmax.FullSoftmax(100)])
        model.compile(tfsoftmax.optimizers.Adagrad(0.1), tfsoftmax.SoftmaxLoss())
        hidden, words = keras.random.normal((32, 20, 64)), keras.ops.zeros((32, 20), "int32")
        model.fit(hidden, words, callbacks=[tfsoftmax.TrainingMonitor("logs", every=1)])
    """

    def __init__(
        self, log_dir: str, every: int = 10, words_per_step: float | None = None,
        profile_batch: tuple[int, int] | None = None,
    ):
        super().__init__()
        check_positive(every=every)
        expect(words_per_step is None or words_per_step > 0, "words_per_step", "be positive",
               words_per_step)
        steps = profile_batch if isinstance(profile_batch, (list, tuple)) else ()
        two = len(steps) == 2 and all(map(is_whole, steps)) and 1 <= steps[0] <= steps[1]
        expect(profile_batch is None or two, "profile_batch",
               "be two steps, 1 <= first <= last, or None", profile_batch)
        self.log_dir, self.writer = log_dir, None
        self.every, self.words_per_step, self.profile_batch = every, words_per_step, profile_batch
        self.tracing, self.marker = False, contextlib.ExitStack()

    def set_model(self, model):
        super().set_model(model)
        optimizer = model.optimizer
        replicas = model.distribute_strategy.num_replicas_in_sync
        self.has_norms = replicas == 1 and hasattr(optimizer, "record_gradient_norms")
        if self.has_norms and optimizer.gradient_norms is None:
            optimizer.record_gradient_norms()
            model.train_function = None  # one that was traced before records no norms

    def on_train_begin(self, logs=None):
        self.writer, self.described = tf.summary.create_file_writer(self.log_dir), False
        self._start_clock()

    def on_epoch_begin(self, epoch, logs=None):
        self._start_clock()  # so that the time of a validation does not count

    def on_train_batch_begin(self, batch, logs=None):
        first, last = self.profile_batch or (0, -1)
        step = self._step() + 1
        # The next call runs the steps from `step` up to `end`, without it.
        end = step + getattr(self.model, "steps_per_execution", 1)
        if step <= last and first < end:
            if not self.tracing:
                tf.profiler.experimental.start(self.log_dir)
                self.tracing = True
            self.marker.enter_context(tf.profiler.experimental.Trace(STEP, step_num=step, _r=1))

    def on_train_batch_end(self, batch, logs=None):
        step = self._step()
        if not self.described:  # The first step builds a model of your own class.
            self.described = True
            with self.writer.as_default(step=step):
                tf.summary.text("parameters", parameter_table(self.model))
        if self.tracing:
            self.marker.close()
            if step >= self.profile_batch[1]:
                self._stop_tracing()
        if step // self.every > self.clock[0] // self.every:
            self._record(step)

    def on_train_end(self, logs=None):
        self.close()

    def close(self) -> None:
        """Ends the trace, if one is being recorded, and closes the writer."""
        self._stop_tracing()
        if self.writer is not None:
            self.writer.close()

    def _step(self):
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    def _start_clock(self):
        self.clock = self._step(), time.perf_counter()

    def _stop_tracing(self):
        if self.tracing:
            self.marker.close()
            tf.profiler.experimental.stop()
            self.tracing = False

    def _record(self, step):
        steps, seconds = step - self.clock[0], time.perf_counter() - self.clock[1]
        words = self._words_per_batch()
        unit = "words" if words else "steps"
        if words:  # of a batch, of which a step may accumulate several
            optimizer = self.model.optimizer
            innermost = getattr(optimizer, "inner_optimizer", optimizer)
            steps *= innermost.gradient_accumulation_steps or 1
        values = {f"speed/{unit}_per_second": steps * (words or 1) / seconds}
        for name, (used, peak) in device_memory().items():
            values |= {f"memory/{name}_mib": used / 2**20, f"memory/{name}_peak_mib": peak / 2**20}
        values["memory/resident_mib"] = resident_bytes() / 2**20
        if self.has_norms:
            for part, norm in self._gradient_norms().items():
                values[f"gradient_norm/{part}"] = norm
        with self.writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._start_clock()

    def _words_per_batch(self):
        outputs = getattr(self.model, "outputs", None)  # a model of your own class has none
        if self.words_per_step is not None or not outputs:
            return self.words_per_step
        *shape, _ = outputs[0].shape
        return None if None in shape else math.prod(shape)

    def _gradient_norms(self):
        squares, optimizer = {}, self.model.optimizer
        part_of = {id(v): part for part, vs in variables_by_part(self.model).items() for v in vs}
        norms = optimizer.gradient_norms.numpy()
        for variable, norm in zip(optimizer._trainable_variables, norms, strict=True):
            part = part_of.get(id(variable), "other")
            squares[part] = squares.get(part, 0.0) + float(norm) ** 2
        return {
            **{part: square**0.5 for part, square in squares.items()},
            "global": sum(squares.values()) ** 0.5,
        }


def parameter_table(model: keras.Model) -> str:
    """Lists the trainable numbers and the bytes of each part of a model, as a Markdown table."""
    lines = ["| part | parameters | MiB of variables |", "|---|---:|---:|"]
    for part, variables in variables_by_part(model).items():
        parameters, size = parameters_and_bytes(variables, part == "optimizer")
        if size:
            lines.append(f"| {part} | {parameters:,} | {size / 2**20:,.1f} |")
    return "\n".join(lines)

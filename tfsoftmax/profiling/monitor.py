"""What a training step costs while it trains, for TensorBoard."""

import time

import keras
import tensorflow as tf

from tfsoftmax.profiling.memory import device_memory, resident_bytes
from tfsoftmax.profiling.memory_timeline import STEP
from tfsoftmax.profiling.model_parts import parameters_and_bytes, variables_by_part


class TrainingMonitor(keras.callbacks.Callback):
    """Records memory, speed and gradient norms while training, and traces steps, for TensorBoard.

    | | |
    |---|---|
    | `memory/NAME_mib`, `memory/NAME_peak_mib` | in use on each device that tells, and the most so far |
    | `memory/resident_mib` | the process's resident set |
    | `speed/words_per_second` | since the last record, everything included |
    | `gradient_norm/PART`, `gradient_norm/global` | before clipping, of the step's update |
    | `parameters` (Text) | trainable numbers and bytes of each part |

    Gradient norms come from the optimiser, which has the gradients anyhow: those of
    `tfsoftmax.optimizers` record them, on a single replica; with others they are left out.

    Args:
        log_dir: directory for TensorBoard.
        every: steps between two records.
        words_per_step: positions in a batch; None to take them from the model's input, where
            its shape is static, and else to record steps per second.
        profile_batch: None, or the first and the last step to trace, counted from 1 by the
            optimiser. `tfsoftmax memory_timeline` reads the trace, and so does TensorBoard with
            its profile plugin. Steps 1 and 2 also trace and allocate. With
            `steps_per_execution` whole calls are traced.

    Raises:
        ValueError: if `every` or `profile_batch` are not as above.
    """

    def __init__(self, log_dir, every=10, words_per_step=None, profile_batch=None):
        super().__init__()
        if every < 1:
            raise ValueError(f"`every` must be at least 1. Received: every={every}")
        first, last = profile_batch or (1, 1)
        if not 1 <= first <= last:
            raise ValueError(
                "`profile_batch` must be two steps, 1 <= first <= last. "
                f"Received: profile_batch={profile_batch}"
            )
        self.log_dir, self.writer = log_dir, None
        self.every, self.words_per_step, self.profile_batch = every, words_per_step, profile_batch
        self.tracing, self.marker = False, None

    def set_model(self, model):
        super().set_model(model)
        optimizer = model.optimizer
        replicas = model.distribute_strategy.num_replicas_in_sync
        self.groups = None
        if replicas == 1 and hasattr(optimizer, "record_gradient_norms"):
            optimizer.build(model.trainable_variables)
            if optimizer.gradient_norms is None:
                optimizer.record_gradient_norms()
                model.train_function = None  # one that was traced already records none
            part_of = {
                id(v): part for part, vs in variables_by_part(model).items() for v in vs
            }
            self.groups = [part_of.get(id(v), "other") for v in model.trainable_variables]

    def on_train_begin(self, logs=None):
        self.writer = tf.summary.create_file_writer(self.log_dir)
        if self.words_per_step is None and self.model.inputs:
            shape = self.model.inputs[0].shape
            self.words_per_step = None if None in shape else int(tf.TensorShape(shape).num_elements())
        with self.writer.as_default(step=self._step()):
            tf.summary.text("parameters", parameter_table(self.model))
        self._start_clock()

    def on_epoch_begin(self, epoch, logs=None):
        self._start_clock()  # no validation in words per second

    def on_train_batch_begin(self, batch, logs=None):
        first, last = self.profile_batch or (0, -1)
        step = self._step() + 1
        behind = step + getattr(self.model, "steps_per_execution", 1)  # the steps of this call
        if step <= last and first < behind:
            if not self.tracing:
                tf.profiler.experimental.start(self.log_dir)
                self.tracing = True
            self.marker = tf.profiler.experimental.Trace(STEP, step_num=step, _r=1)
            self.marker.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        step = self._step()
        if self.tracing:
            self._end_marker()
            if step >= self.profile_batch[1]:
                self._stop_tracing()
        if step // self.every > self.clock[0] // self.every:
            self._record(step)

    def on_train_end(self, logs=None):
        self.close()

    def close(self):
        """Ends a trace that is going on, and the writer."""
        self._stop_tracing()
        if self.writer is not None:
            self.writer.close()

    def _step(self):
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    def _start_clock(self):
        self.clock = self._step(), time.perf_counter()

    def _end_marker(self):
        if self.marker is not None:
            self.marker.__exit__(None, None, None)
            self.marker = None

    def _stop_tracing(self):
        if self.tracing:
            self._end_marker()
            tf.profiler.experimental.stop()
            self.tracing = False

    def _record(self, step):
        steps, seconds = step - self.clock[0], time.perf_counter() - self.clock[1]
        unit = "words" if self.words_per_step else "steps"
        values = {f"speed/{unit}_per_second": steps * (self.words_per_step or 1) / seconds}
        for name, (used, peak) in device_memory().items():
            values |= {f"memory/{name}_mib": used / 2**20, f"memory/{name}_peak_mib": peak / 2**20}
        values["memory/resident_mib"] = resident_bytes() / 2**20
        if self.groups:
            for part, norm in self._gradient_norms().items():
                values[f"gradient_norm/{part}"] = norm
        with self.writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._start_clock()

    def _gradient_norms(self):
        squares = {}
        for part, norm in zip(self.groups, self.model.optimizer.gradient_norms.numpy()):
            squares[part] = squares.get(part, 0.0) + float(norm) ** 2
        return {
            **{part: square**0.5 for part, square in squares.items()},
            "global": sum(squares.values()) ** 0.5,
        }


def parameter_table(model):
    """Trainable numbers and bytes of each part of a model, as a Markdown table."""
    lines = ["| part | parameters | MiB of variables |", "|---|---:|---:|"]
    for part, variables in variables_by_part(model).items():
        parameters, size = parameters_and_bytes(variables, part == "optimizer")
        if size:
            lines.append(f"| {part} | {parameters:,} | {size / 2**20:,.1f} |")
    return "\n".join(lines)

"""Adjusts the size of the sample to the effective sample size while a model is trained."""

import keras

from tfsoftmax.heads.sampled import SampledSoftmax
from tfsoftmax.samplers.base import Given
from tfsoftmax.support._compat import layers_of
from tfsoftmax.support.arguments import CheckedArguments, check_positive, expect


class AdjustNumSamples(CheckedArguments, keras.callbacks.Callback):
    """Doubles or halves `num_samples` of every `SampledSoftmax` by the effective sample size.

    As the model departs from the proposal distribution in training, fewer words of the sample carry
    weight. At the end of each epoch S doubles if the effective sample size is below `target`, and
    halves, though not below the head's `keep`, if it is above four times `target`. A sample without
    replacement grows to all words that may be drawn. After each change the training step is traced
    again. The model saves the current S with its configuration. `keras.callbacks.BackupAndRestore`
    saves only weights: training that it continues begins with the S that the head was made with.

    Compile the model with `weighted_metrics=[tfsoftmax.EffectiveSampleSize()]`. The metric costs
    each step an additional product of (N, D) and (D, S). For shorter periods than an epoch, set
    `steps_per_epoch`.

    Args:
        target: the effective sample size to keep.
        min_samples, max_samples: bounds on S.
        monitor: the name of the metric in the logs; "val_effective_sample_size" for the
            validation data's.

    Attributes:
        history: list of (epoch, effective sample size, S of the first head from then on).

    Raises:
        ValueError: if `target` is not positive or the bounds are not in order; when training
            begins, if the model has no such head, or one whose sample is given; after an epoch,
            if the logs lack the metric.

    Example:
        inputs, labels = keras.random.normal((64, 16)), keras.random.randint((64,), 0, 100)
        model = keras.Sequential([tfsoftmax.SampledSoftmax(100, num_samples=4)])
        sizes = [tfsoftmax.EffectiveSampleSize()]
        model.compile("adam", tfsoftmax.SoftmaxLoss(), weighted_metrics=sizes)
        adjust = tfsoftmax.AdjustNumSamples(target=10, min_samples=4, max_samples=64)
        model.fit(inputs, labels, callbacks=[adjust], epochs=2, verbose=0)

    Source: Bengio and Senécal 2003; Müller 2017, equation 2.30 and the text below it. Departure:
    S changes by factors of two.
    """

    def __init__(
        self, target: float, min_samples: int = 1, max_samples: int = 1 << 14,
        monitor: str = "effective_sample_size",
    ):
        super().__init__()
        expect(target > 0, "target", "be a positive number", target)
        check_positive(min_samples=min_samples, max_samples=max_samples)
        rule = f"be at most max_samples={max_samples}"
        expect(min_samples <= max_samples, "min_samples", rule, min_samples)
        self.target, self.monitor = target, monitor
        self.min_samples, self.max_samples = min_samples, max_samples
        self.history, self._heads = [], []

    def on_train_begin(self, logs=None):
        self._heads = [x for x in layers_of(self.model) if isinstance(x, SampledSoftmax)]
        expect(self._heads, "model", "end in a SampledSoftmax", self.model)
        for head in self._heads:
            expect(not isinstance(head.sampler, Given), "model",
                   "end in a head whose sampler draws `num_samples` words",
                   received=f"{head.name} with {type(head.sampler).__name__}")

    def on_epoch_end(self, epoch, logs=None):
        size = (logs or {}).get(self.monitor)
        rule = f"be a metric in the logs, {sorted(logs or {})}"
        expect(size is not None, "monitor", rule, self.monitor)
        changes = [self._change(head, size) for head in self._heads]
        self.history.append((epoch, size, self._heads[0].num_samples))
        if any(changes):
            self.model.make_train_function(force=True)
            self.model.make_test_function(force=True)

    def _change(self, head, size):
        """Changes the head's S if the effective sample size asks for it: whether it does."""
        samples = head.num_samples
        if size < self.target:
            drawn = head.vocab_size - len(head.sampler.exclude)
            most = drawn if head.sampler.unique else self.max_samples
            samples = max(samples, min(2 * samples, self.max_samples, most))
        elif size > 4 * self.target:
            samples = min(samples, max(samples // 2, self.min_samples, head.keep or 1))
        head.sampler.check_size(samples)
        changed, head.num_samples = samples != head.num_samples, samples
        return changed

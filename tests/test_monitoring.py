"""What a training step records for TensorBoard, and the trace read back."""

import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.util import event_pb2

import tfsoftmax
from cases import assert_all_equal
from runs_helper import MODEL, tool
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.profiling import memory, memory_timeline, monitor
from tfsoftmax.profiling.model_parts import (
    parameters_and_bytes,
    part_of_layer,
    variables_by_part,
)
from tfsoftmax.profiling.monitor import TrainingMonitor, parameter_table
from tfsoftmax.runs import runs, training

V, D, B, T = 1009, 32, 16, 10
WORDS = np.random.default_rng(5).integers(0, V, (6 * B, T))
NEXT = np.random.default_rng(6).integers(0, V, (6 * B, T))


def small_model(**clipping):
    keras.utils.set_random_seed(4)
    words = keras.Input(batch_shape=(B, T), dtype="int32")
    hidden = tfsoftmax.layers.recurrent.recurrent_layer("gru", D, return_sequences=True)(
        tfsoftmax.layers.embedding.Embedding(V, D)(words)
    )
    model = keras.Model(words, tfsoftmax.FullSoftmax(V)(hidden))
    optimizer = tfsoftmax.optimizers.Adagrad(0.5, **clipping)
    model.compile(optimizer, tfsoftmax.SoftmaxLoss(), weighted_metrics=[tfsoftmax.Perplexity()])
    return model


def scalars(directory):
    """{tag: [(step, value)]} of all files of TensorBoard's, and texts likewise."""
    found = {}
    for path in sorted(pathlib.Path(directory).rglob("events.out*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = event_pb2.Event.FromString(record.numpy())
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(
                    (event.step, tf.make_ndarray(value.tensor).ravel()[0])
                )
    return found


def fit(model, *callbacks):
    model.fit(WORDS, NEXT, batch_size=B, shuffle=False, verbose=0, callbacks=list(callbacks))


@pytest.fixture(scope="module")
def monitored(tmp_path_factory):
    """A model that was trained with a monitor, and its directory."""
    directory = str(tmp_path_factory.mktemp("monitored"))
    model = small_model(global_clipnorm=0.01)
    fit(model, TrainingMonitor(directory, every=1, profile_batch=(3, 5)))
    return model, directory


def test_calls_of_several_steps_are_recorded_and_traced_where_they_overlap(tmp_path):
    model = small_model(global_clipnorm=0.01)
    model.steps_per_execution = 2
    fit(model, TrainingMonitor(str(tmp_path), every=3, profile_batch=(4, 4)))
    found = scalars(tmp_path)
    assert [step for step, _ in found["speed/words_per_second"]] == [4, 6]
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_speed_counts_all_batches_of_a_step(tmp_path, monkeypatch):
    model = small_model(gradient_accumulation_steps=2)
    speeds = timed(model, WORDS, tmp_path, monkeypatch)["speed/words_per_second"]
    assert [speed for _, speed in speeds] == [B * T] * 3


def test_gradient_norms_are_those_before_clipping(monitored):
    model = small_model(global_clipnorm=0.01)
    with tf.GradientTape() as tape:
        logits = model(WORDS[:B], training=True)
        loss = model.loss(tf.constant(NEXT[:B]), logits)
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    norms = [np.linalg.norm(tf.convert_to_tensor(g)) for g in gradients]
    found = scalars(monitored[1])
    recorded = {
        part: found[f"gradient_norm/{part}"][0][1]
        for part in ("embedding", "recurrent", "head", "global")
    }
    expected = {
        "embedding": norms[0], "recurrent": np.hypot.reduce(norms[1:4]),
        "head": np.hypot.reduce(norms[4:]), "global": np.hypot.reduce(norms),
    }
    assert expected["global"] > 0.05
    for part, norm in expected.items():
        np.testing.assert_allclose(recorded[part], norm, rtol=1e-5, err_msg=part)


def test_gradient_norms_of_a_cycle_are_those_of_its_mean(tmp_path):
    model = small_model(gradient_accumulation_steps=3)
    with tf.GradientTape() as tape:
        losses = [
            model.loss(tf.constant(NEXT[i : i + B]), model(WORDS[i : i + B], training=True))
            for i in range(0, 3 * B, B)
        ]
        loss = tf.add_n(losses) / 3
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    fit(model, TrainingMonitor(str(tmp_path), every=1))
    (step, norm), _ = scalars(tmp_path)["gradient_norm/global"]
    assert step == 1
    wanted = tf.linalg.global_norm([tf.convert_to_tensor(g) for g in gradients])
    np.testing.assert_allclose(norm, wanted, rtol=1e-5)


def test_a_part_that_was_frozen_after_the_optimiser_was_built_has_no_norm(tmp_path):
    model = small_model()
    fit(model)
    model.layers[1].trainable = False
    model.compile(model.optimizer, model.loss)
    fit(model, TrainingMonitor(str(tmp_path), every=1))
    found = scalars(tmp_path)
    assert {norm for _, norm in found["gradient_norm/embedding"]} == {0.0}
    for part in ("recurrent", "head"):
        assert all(norm > 0 for _, norm in found[f"gradient_norm/{part}"])


def test_checkpoints_of_tensorflow_have_no_norms(tmp_path):
    monitored, plain = small_model(), small_model()
    fit(monitored, TrainingMonitor(str(tmp_path), every=6))
    plain.optimizer.build(plain.trainable_variables)
    path = tf.train.Checkpoint(monitored).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(plain).restore(path).assert_consumed()
    assert_all_equal(plain.get_weights(), monitored.get_weights())


class OfItsOwnClass(keras.Model):
    """A model that has no `inputs` and no `outputs`."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = tfsoftmax.Embedding(V, D), tfsoftmax.FullSoftmax(V)

    def call(self, words, training=None):
        return self.head(self.embedding(words), training=training)


def timed(model, inputs, directory, monkeypatch):
    """What is recorded, by a clock on which each batch takes a second."""
    clock = [0.0]
    monkeypatch.setattr(monitor, "time", types.SimpleNamespace(perf_counter=lambda: clock[0]))
    ticks = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: clock.__setitem__(0, clock[0] + 1))
    callbacks = [ticks, TrainingMonitor(str(directory), every=1)]
    model.fit(inputs, NEXT, batch_size=B, shuffle=False, verbose=0, callbacks=callbacks)
    return scalars(directory)


def test_a_model_that_the_first_step_builds_is_recorded(tmp_path, monkeypatch):
    model = OfItsOwnClass()
    model.compile(tfsoftmax.optimizers.Adagrad(0.5), tfsoftmax.SoftmaxLoss())
    found = timed(model, WORDS, tmp_path, monkeypatch)
    assert [speed for _, speed in found["speed/steps_per_second"]] == [1] * 6
    assert all(norm > 0 for _, norm in found["gradient_norm/embedding"])
    assert found["parameters"][0][1].decode() == parameter_table(model)


def test_words_are_the_positions_of_the_output(tmp_path, monkeypatch):
    hidden = keras.Input(batch_shape=(B, T, D))
    model = keras.Model(hidden, tfsoftmax.FullSoftmax(V)(hidden))
    model.compile(tfsoftmax.optimizers.Adagrad(0.5), tfsoftmax.SoftmaxLoss())
    inputs = np.ones((6 * B, T, D), np.float32)
    found = timed(model, inputs, tmp_path, monkeypatch)
    assert [speed for _, speed in found["speed/words_per_second"]] == [B * T] * 6


def test_the_weights_are_the_same_with_and_without(monitored):
    plain = small_model(global_clipnorm=0.01)
    fit(plain)
    assert_all_equal(plain.get_weights(), monitored[0].get_weights())
    assert len(plain.optimizer.variables) == len(monitored[0].optimizer.variables)


def test_memory_and_speed_are_recorded_at_every_step(monitored):
    found = scalars(monitored[1])
    for tag in ("memory/resident_mib", "speed/words_per_second"):
        assert [step for step, _ in found[tag]] == [1, 2, 3, 4, 5, 6]
        assert min(value for _, value in found[tag]) > 0
    for name in memory.device_memory():
        peaks = [value for _, value in found[f"memory/{name}_peak_mib"]]
        assert peaks == sorted(peaks) and peaks[0] > 0


def test_parameters_of_each_part_are_written_once(monitored):
    model, directory = monitored
    ((_, text),) = scalars(directory)["parameters"]
    assert text.decode() == parameter_table(model)
    assert f"| embedding | {V * D:,} | 0.1 |" in parameter_table(model)
    assert f"| head | {V * D + V:,} | 0.1 |" in parameter_table(model)
    assert part_of_layer(tfsoftmax.CharacterEmbedding(2, D, ["a", "b"])) == "embedding"


def test_variables_of_nested_models_and_of_the_model_itself_are_counted():
    class Scaled(keras.Model):
        def build(self, shape):
            self.scale = self.add_weight(shape=(7,))

        def call(self, hidden):
            return hidden

    inner = keras.Sequential([keras.Input((T, D)), keras.layers.LSTM(D, return_sequences=True)])
    model = keras.Sequential([keras.Input((T, D)), inner, Scaled(), tfsoftmax.FullSoftmax(V)])
    numbers = {part: parameters_and_bytes(variables)[0]
               for part, variables in variables_by_part(model).items() if variables}
    assert numbers == {"recurrent": 8 * D * D + 4 * D, "head": V * D + V, "other": 7}


def test_other_optimisers_go_without_norms(tmp_path):
    model = small_model()
    model.compile(keras.optimizers.SGD(0.1), tfsoftmax.SoftmaxLoss())
    fit(model, TrainingMonitor(str(tmp_path), every=2))
    found = scalars(tmp_path)
    assert [step for step, _ in found["memory/resident_mib"]] == [2, 4, 6]
    assert not any(tag.startswith("gradient_norm") for tag in found)


def test_a_model_that_has_trained_can_be_monitored(tmp_path):
    model = small_model()
    fit(model)
    fit(model, TrainingMonitor(str(tmp_path), every=6))
    ((step, norm),) = scalars(tmp_path)["gradient_norm/global"]
    assert step == 12 and norm > 0


@pytest.mark.parametrize("options, message", [
    ({"every": 0}, "`every` must lie in"),
    ({"every": None}, "`every` must be an integer"),
    ({"profile_batch": (5, 3)}, "`profile_batch` must be two steps"),
    ({"profile_batch": (0, 3)}, "`profile_batch` must be two steps"),
])
def test_mistakes_are_named(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        TrainingMonitor(str(tmp_path), **options)


def test_the_trace_has_the_steps_and_what_they_held(monitored):
    timeline = memory_timeline.read_timeline(memory_timeline.find_trace(monitored[1]))
    assert [number for number, _, _ in timeline.steps] == [3, 4, 5]
    assert all(begin < end for _, begin, end in timeline.steps)
    if not timeline.allocators:
        pytest.skip("the allocator of this device keeps no record")
    for events in timeline.allocators.values():
        assert all(a.seconds <= b.seconds for a, b in zip(events, events[1:]))
        highest, held, before = memory_timeline.at_peak(events)
        assert events[highest].held == max(event.held for event in events)
        assert before >= 0 and held == sorted(held, key=lambda event: -event.size)
        logits = 4 * B * T * V  # in a piece of memory that may be larger
        assert any(logits <= event.size < 1.5 * logits for event in events)


def test_the_tool_prints_and_draws_the_trace(monitored, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "memory.png"
    text = tool("memory_timeline", f"--run={monitored[1]}", f"--plot={picture}").stdout
    assert "MiB at peak" in text or "The trace has no allocations" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_run_is_monitored_and_traced(corpus, tmp_path, capsys):
    run = runs.Run(str(tmp_path / "run"))
    config = TrainingConfig(max_steps=6, log_steps=2, epochs=1)
    training.train(corpus.directory, run.directory, MODEL, config, False, profile_batch=(3, 4))
    found = scalars(run.path("tensorboard"))
    assert [step for step, _ in found["gradient_norm/head"]] == [2, 4, 6]
    assert [step for step, _ in found["train/loss"]] == [2, 4, 6]
    assert len(found["parameters"]) == 1
    timeline = memory_timeline.read_timeline(memory_timeline.find_trace(run.directory))
    assert [number for number, _, _ in timeline.steps] == [3, 4]
    longer = TrainingConfig(max_steps=7, log_steps=2, epochs=1)
    training.train(corpus.directory, run.directory, MODEL, longer, True, profile_batch=(3, 4))
    printed = capsys.readouterr().out
    assert "Steps 3 to 4 will not be traced: the run has already reached step 6." in printed


@pytest.mark.parametrize("platform, expected", [("linux", 3000 * 1024), ("darwin", 3000)])
def test_the_peak_is_in_bytes_on_every_system(platform, expected, monkeypatch):
    usage = types.SimpleNamespace(ru_maxrss=3000)
    monkeypatch.setattr(memory.resource, "getrusage", lambda who: usage)
    monkeypatch.setattr(memory.sys, "platform", platform)
    assert memory.peak_resident_bytes() == expected


def test_what_is_no_trace_is_named(tmp_path):
    with pytest.raises(ValueError, match="--profile_batch=11,15` records"):
        memory_timeline.find_trace(str(tmp_path))
    (tmp_path / "no.xplane.pb").write_bytes(b"no trace at all")
    with pytest.raises(ValueError, match="must be an .xplane.pb trace"):
        memory_timeline.read_timeline(str(tmp_path / "no.xplane.pb"))

"""The profile of a training step against sums by hand."""

import json
import math
import types

import numpy as np
import pytest

from runs_helper import error_of, tool
from tfsoftmax.commands import tfprof
from tfsoftmax.lm.compiled import compiled_model
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.profiling.profile import profile
from tfsoftmax.profiling.traced_step import TracedStep
from tfsoftmax.support.vocabulary import Vocabulary

V, E, H, B, T = 1501, 24, 32, 8, 16
N = B * T


def profiled(head, record_norms=False, **options):
    """The profile, the labels and the model, of a head with these options."""
    counts = np.ceil(1e6 / np.arange(1, V + 1)).astype(np.int64)
    words = ["<unk>", "<eos>", *(f"w{i}" for i in range(2, V))]
    corpus = types.SimpleNamespace(
        vocabulary=Vocabulary(words, counts), shape={"streams": B, "time_steps": T}
    )
    config = ModelConfig(
        head=head, head_options=options, embedding_units=E, hidden_units=H, dropout=0.0
    )
    model = compiled_model(config, TrainingConfig(), corpus)
    if record_norms:
        model.optimizer.record_gradient_norms()
    words, labels = np.random.default_rng(3).choice(V, (2, B, T), p=counts / counts.sum())
    step = TracedStep(
        model, words.astype(np.int32), labels.astype(np.int32), np.ones((B, T), np.float32)
    )
    return profile(step), labels, model


@pytest.fixture(scope="module")
def full():
    return profiled("full")[0]


def test_parameters_and_slots_are_counted_exactly(full):
    parts = full["parts"]
    parameters = {name: part["parameters"] for name, part in parts.items() if part["parameters"]}
    assert parameters == {"embedding": V * E, "recurrent": 4 * H * (E + H + 1), "head": V * H + V}
    assert full["total"]["parameters"] == sum(parameters.values())
    assert parts["embedding"]["variable_bytes"] == 4 * V * E
    states, seeds = 4 * 2 * B * H, 16  # seeds of a dropout that the layer could have
    assert parts["recurrent"]["variable_bytes"] == 4 * 4 * H * (E + H + 1) + states + seeds
    # Adagrad has one slot a parameter, an int64 count of steps and a float32 learning rate.
    assert parts["optimizer"]["variable_bytes"] == 4 * sum(parameters.values()) + 8 + 4


def test_matmuls_of_full_softmax_are_counted_once(full):
    """Logits, and the gradients of hidden states and kernel: 2 N V D each; 3 % is elementwise."""
    by_hand = 3 * 2 * N * V * H
    assert by_hand < full["parts"]["loss"]["float_ops"] < 1.03 * by_hand


def test_matmuls_in_a_loop_are_counted_as_often_as_they_run(full):
    """An LSTM has a product of input and state for four gates; the gradient has two for each."""
    by_hand = 2 * N * 4 * H * (E + H)
    assert by_hand < full["parts"]["recurrent"]["float_ops"] < 1.03 * by_hand
    assert 2 * by_hand < full["parts"]["gradients"]["float_ops"] < 2.06 * by_hand


def test_matmuls_of_every_size_are_counted_with_their_size():
    """A class head's loop has another shape in each iteration."""
    result, labels, model = profiled("class")
    classes = model.get_layer("head").classes
    words, positions = np.bincount(classes), np.bincount(classes[labels.ravel()])
    pairs = N * len(words) + np.sum(words[: len(positions)] * positions)
    by_hand = 3 * 2 * H * pairs
    assert by_hand < result["parts"]["loss"]["float_ops"] < 1.06 * by_hand


def test_bytes_are_those_of_the_tensors(full):
    parts, total = full["parts"], full["total"]
    rows = 4 * N * E  # beside which the ids are checked
    assert rows <= parts["embedding"]["peak_bytes"] <= parts["embedding"]["requested_bytes"]
    assert parts["embedding"]["requested_bytes"] <= rows + 20 * N
    assert 4 * N * V <= parts["loss"]["peak_bytes"] <= 4 * N * V + 8 * V * H
    assert parts["loss"]["peak_bytes"] <= total["peak_bytes"] <= total["requested_bytes"]
    assert total["peak_bytes"] == sum(part["at_peak_bytes"] for part in parts.values())
    assert full["largest"][0][1] == 4 * N * V
    assert all(part["seconds"] >= 0 for part in parts.values()) and total["seconds"] > 0


def test_logits_that_training_does_not_use_are_not_there():
    parts = profiled("sampled", num_samples=50)[0]["parts"]
    assert parts["head"]["requested_bytes"] < 100
    assert parts["loss"]["peak_bytes"] + parts["gradients"]["peak_bytes"] < 4 * N * V / 3
    assert parts["head"]["parameters"] == V * H + V


def test_recording_gradient_norms_computes_nothing_twice(full):
    """Clipping by the global norm has them already. TensorFlow's record may lack a small op."""
    parts = profiled("full", record_norms=True)[0]["parts"]
    expected = full["parts"]["optimizer"]["float_ops"]
    assert parts["optimizer"]["float_ops"] == pytest.approx(expected, rel=1e-3)


def test_the_tool_profiles_a_run_and_draws_it_beside_another(finished_run, full, tmp_path):
    pytest.importorskip("matplotlib")
    out, other, picture = (tmp_path / name for name in ("run.json", "full.json", "run.png"))
    described = {"model": {"head": "full", "hidden_units": H}, "vocab_size": V}
    other.write_text(json.dumps({**described, **full}))
    text = tool(
        "tfprof", f"--run={finished_run.directory}", f"--out={out}", f"--plot={picture}",
        f"--compare={other}",
    ).stdout
    result, config = json.loads(out.read_text()), finished_run.config()
    assert result["model"] == config["model"]
    assert result["total"]["parameters"] == 62 * 9 + 4 * 11 * (9 + 11 + 1) + 62 * 11 + 62
    assert "full, V = 62, D = 11: 4 x 6 words a step" in text
    assert f"{result['total']['parameters']:,}" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("damage, message", [
    (lambda r: r.pop("parts"), "`compare` must name files that --out wrote. Received: .*x.json"),
    (lambda r: r["parts"]["head"].pop("parameters"), "`compare` must name files that --out wrote"),
    (lambda r: r["parts"].update(head=None), "`compare` must name files that --out wrote"),
    (lambda r: r.update(vocab_size="x"), "`compare` must name files that --out wrote"),
    (lambda r: r.update(vocab_size=math.nan), "x.json: must be JSON. Received: NaN"),
])
def test_damaged_profiles_are_named(full, tmp_path, damage, message):
    described = {"model": {"head": "full", "hidden_units": H}, "vocab_size": V}
    result = json.loads(json.dumps({**described, **full}))
    (tmp_path / "x.json").write_text(json.dumps(result))
    assert tfprof._load(str(tmp_path / "x.json")) == result
    damage(result)
    (tmp_path / "x.json").write_text(json.dumps(result))
    with pytest.raises(ValueError, match=message):
        tfprof._load(str(tmp_path / "x.json"))


@pytest.mark.parametrize("arguments, message", [
    (["--hidden_units=5"], "`hidden_units` must not be given with --run"),
    (["--compare=x.json"], "`compare` must be given with --plot only"),
    (["--time_steps=0"], "`time_steps` must not be given with --run"),
])
def test_mistakes_are_named(arguments, message, finished_run):
    assert message in error_of("tfprof", f"--run={finished_run.directory}", *arguments)


@pytest.mark.slow
def test_a_step_that_needs_much_memory_is_profiled():
    """Grappler saves memory in such steps by temporary variables, which sessions refuse."""
    assert "full, V = 44,370, D = 512" in tool("tfprof").stdout

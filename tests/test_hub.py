"""Models of keras_hub with a head of ours give keras_hub's loss, gradients and texts."""

import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import assert_all_close, with_gradients
from graph_helper import largest_tensor
from tfsoftmax.support.budgets import CHUNK_ROWS

keras_hub = pytest.importorskip("keras_hub")

V, B, T = 503, 2, 7
LOADER = """
import sys, numpy as np, keras, tfsoftmax.hub
model = keras.saving.load_model(sys.argv[1] + "/model.keras")
model.compile(sampler="greedy", jit_compile=False)
data = dict(np.load(sys.argv[1] + "/data.npz"))
labels, logits = data.pop("labels"), model.predict(data, verbose=0)
loss, _ = model.evaluate(data, labels, verbose=0)
tokens = model.generate(data, stop_token_ids=None)["token_ids"]
np.savez(sys.argv[1] + "/loaded.npz", logits=logits, loss=loss, tokens=tokens)
"""


def gpt2(**options):
    backbone = keras_hub.models.GPT2Backbone(
        V, 2, 2, 8, 16, dropout=0.0, max_sequence_length=T, **options
    )
    return keras_hub.models.GPT2CausalLM(backbone)


def gemma(**options):
    backbone = keras_hub.models.GemmaBackbone(
        V, 2, 2, 1, 8, 16, 4, final_logit_soft_cap=3.0, **options
    )
    return keras_hub.models.GemmaCausalLM(backbone)


def llama(**options):
    return keras_hub.models.LlamaCausalLM(keras_hub.models.LlamaBackbone(
        V, 2, 2, 8, 16, 1, tie_word_embeddings=False, **options
    ))


MODELS = {"gpt2": gpt2, "gemma": gemma, "llama": llama}
every_model = pytest.mark.parametrize("name", MODELS)


def random_model(name, scale=0.5, **options):
    """The model with weights large enough for its logits to differ and its cap to matter."""
    causal_lm = MODELS[name](**options)
    rng = np.random.default_rng(0)
    for weight in causal_lm.weights:
        if "layer_norm" not in weight.path and "layernorm" not in weight.path:
            weight.assign(scale * rng.normal(size=weight.shape))
    causal_lm.compile(sampler="greedy", jit_compile=False)  # XLA takes longer than all else
    return causal_lm


def headed(causal_lm, *args, optimizer="sgd", **options):
    model = tfsoftmax.hub.with_head(causal_lm, *args, **options)
    model.compile(optimizer, sampler="greedy", jit_compile=False)
    return model


def data():
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, V, (B, T + 1))
    padding = np.arange(T) < np.array([[T], [4]])
    x = {"token_ids": tokens[:, :-1], "padding_mask": padding}
    return x, tokens[:, 1:], rng.uniform(size=(B, T)).astype(np.float32) * padding


def loss_and_gradients(model, variables):
    x, y, weights = keras.tree.map_structure(tf.convert_to_tensor, data())
    return with_gradients(
        lambda: model.compute_loss(x, y, model(x, training=True), weights), variables
    )


@every_model
def test_loss_and_gradients_equal_those_of_keras_hub(name):
    causal_lm = random_model(name)
    model, variables = headed(causal_lm), causal_lm.trainable_variables
    assert {id(v) for v in model.variables} >= {id(v) for v in variables}
    assert len(model.trainable_variables) == len(variables)
    (ours, gradients), (theirs, wanted) = (
        loss_and_gradients(m, variables) for m in (model, causal_lm)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    scale = max(np.abs(expected).max() for expected in wanted)  # that of some biases is zero
    assert_all_close(gradients, wanted, rtol=1e-4, atol=1e-6 * scale)
    x, y, weights = data()
    np.testing.assert_allclose(
        model.predict(x, verbose=0), causal_lm.predict(x, verbose=0), rtol=1e-4, atol=1e-4
    )
    evaluated = model.evaluate(x, y, sample_weight=weights, verbose=0)[0]
    np.testing.assert_allclose(evaluated, theirs, rtol=1e-5)


@pytest.mark.parametrize("policy", ["bfloat16", "mixed_bfloat16"])
@every_model
def test_half_precision_gives_nearly_the_same_loss(name, policy):
    causal_lm = random_model(name, dtype=policy)
    model = headed(causal_lm)
    x, y, weights = data()
    losses = [m.evaluate(x, y, sample_weight=weights, verbose=0)[0] for m in (model, causal_lm)]
    np.testing.assert_allclose(*losses, rtol=0.01)
    before = causal_lm.backbone.token_embedding.get_weights()[0]
    model.fit(x, y, sample_weight=weights, verbose=0)
    assert np.any(causal_lm.backbone.token_embedding.get_weights()[0] != before)


@every_model
def test_training_never_holds_all_logits(name):
    causal_lm, many = random_model(name), 150
    batch = keras.tree.map_structure(lambda a: tf.repeat(tf.constant(a), many, axis=0), data())
    largest = []
    for model in (causal_lm, headed(causal_lm)):
        step = tf.function(lambda *batch, model=model: model.train_step(batch))
        largest.append(largest_tensor(step.get_concrete_function(*batch), pruned=True))
    assert largest[0] == many * B * T * V and largest[1] <= CHUNK_ROWS * V < largest[0] / 4


@every_model
def test_what_fit_learns_is_what_the_original_generates(name):
    causal_lm = random_model(name)
    model = headed(causal_lm, optimizer=keras.optimizers.Adam(0.05))
    sentence = np.arange(100, 100 + T)[None]
    prompt = {"token_ids": sentence, "padding_mask": np.arange(T)[None] < 2}
    before = [m.generate(prompt, stop_token_ids=None)["token_ids"] for m in (model, causal_lm)]
    np.testing.assert_array_equal(*before)
    x = {"token_ids": sentence[:, :-1], "padding_mask": np.ones((1, T - 1), bool)}
    history = model.fit(x, sentence[:, 1:], epochs=8, verbose=0).history
    np.testing.assert_allclose(history["perplexity"], np.exp(history["loss"]), rtol=1e-4)
    after = [m.generate(prompt, stop_token_ids=None)["token_ids"] for m in (model, causal_lm)]
    np.testing.assert_array_equal(*after)
    assert np.any(after[0] != before[0]) and history["loss"][-1] < history["loss"][0]


def test_texts_go_through_the_preprocessor():
    words = [chr(c) for c in range(97, 123)] + ["Ġ"]
    vocabulary = {word: i for i, word in enumerate(["<|endoftext|>", *words, "Ġt", "th"])}
    tokenizer = keras_hub.models.GPT2Tokenizer(vocabulary, ["Ġ t", "t h"])
    preprocessor = keras_hub.models.GPT2CausalLMPreprocessor(tokenizer, sequence_length=8)
    backbone = keras_hub.models.GPT2Backbone(
        tokenizer.vocabulary_size(), 1, 2, 8, 16, dropout=0.0, max_sequence_length=8
    )
    causal_lm = keras_hub.models.GPT2CausalLM(backbone, preprocessor)
    causal_lm.compile(sampler="greedy", jit_compile=False)
    model = headed(causal_lm, optimizer=keras.optimizers.Adam(0.02))
    texts = ["the cat", "that hat is it"]
    theirs, ours = (m.evaluate(texts, verbose=0)[0] for m in (causal_lm, model))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    losses = model.fit(texts, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert model.generate("the", max_length=6) == causal_lm.generate("the", max_length=6)


@pytest.mark.parametrize("name, head", [("gpt2", "sampled"), ("gemma", "full"), ("llama", "nce")])
def test_a_saved_model_loads_in_another_process(name, head, tmp_path):
    options = {} if head == "full" else {"counts": np.arange(V, 0, -1), "num_samples": 9}
    model = headed(random_model(name), head, **options)
    x, y, _ = data()
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "data.npz", labels=y, **x)
    root = pathlib.Path(tfsoftmax.__file__).parent.parent
    subprocess.run([sys.executable, "-c", LOADER, str(tmp_path)], check=True, cwd=root)
    loaded = np.load(tmp_path / "loaded.npz")
    np.testing.assert_allclose(loaded["logits"], model.predict(x, verbose=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loaded["loss"], model.evaluate(x, y, verbose=0)[0], rtol=1e-5)
    assert loaded["tokens"].shape == (B, T)


def test_heads_that_sample_are_evaluated_exactly():
    causal_lm = random_model("llama", scale=0.1)
    model = headed(
        causal_lm, "sampled", num_samples=64, sampler="uniform", seed=1,
        optimizer=keras.optimizers.Adam(0.01),
    )
    x, y, weights = data()
    losses = [m.evaluate(x, y, sample_weight=weights, verbose=0)[0] for m in (model, causal_lm)]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    model.fit(x, y, epochs=5, verbose=0)
    assert model.evaluate(x, y, sample_weight=weights, verbose=0)[0] < losses[0]


@pytest.mark.parametrize("mode", ["int8", "int4"])
@every_model
def test_a_quantised_model_keeps_its_distribution(name, mode):
    causal_lm = random_model(name)
    model = headed(causal_lm)
    causal_lm.backbone.token_embedding.quantize(mode)
    x, _, _ = data()
    ours, hidden = model.predict(x, verbose=0), causal_lm.backbone.predict(x, verbose=0)
    embedding = causal_lm.backbone.token_embedding
    if embedding.tie_weights:
        wanted = hidden @ np.asarray(embedding(np.arange(V))).T
        wanted = 3.0 * np.tanh(wanted / 3.0) if name == "gemma" else wanted
    else:
        wanted = hidden @ np.asarray(embedding(np.eye(8, dtype=np.float32), reverse=True))
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)


def test_a_preset_holds_the_original(tmp_path):
    causal_lm = random_model("gpt2")
    tfsoftmax.hub.with_head(causal_lm).save_to_preset(tmp_path / "preset")
    again = keras_hub.models.CausalLM.from_preset(str(tmp_path / "preset"))
    assert type(again) is keras_hub.models.GPT2CausalLM
    x, _, _ = data()
    np.testing.assert_allclose(
        again.predict(x, verbose=0), causal_lm.predict(x, verbose=0), rtol=1e-5, atol=1e-5
    )


def test_bad_arguments_are_named():
    causal_lm = random_model("gpt2")
    with pytest.raises(ValueError, match="`head` must be one of .*'full'.* Received: head='tree'"):
        tfsoftmax.hub.with_head(causal_lm, "tree")
    with pytest.raises(ValueError, match=r"`options` must leave \['use_bias'\] to the model"):
        tfsoftmax.hub.with_head(causal_lm, use_bias=True)
    with pytest.raises(ValueError, match="`soft_cap`.* must be the `logit_soft_cap` .*, 3.0."):
        tfsoftmax.hub.with_head(random_model("gemma"), "sampled")
    class OfHiddenStates(keras_hub.models.CausalLM):
        def __init__(self, backbone):
            self.backbone = backbone
            super().__init__(inputs=backbone.input, outputs=backbone(backbone.input))

    with pytest.raises(ValueError, match="`causal_lm` must end .* ends with GPT2Backbone"):
        tfsoftmax.hub.with_head(OfHiddenStates(causal_lm.backbone))


def test_the_example_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = pathlib.Path(tfsoftmax.__file__).parent.parent / "docs" / "keras_hub.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    preset = 'keras_hub.models.GemmaCausalLM.from_preset("gemma_2b_en")'
    assert preset in code
    x, y, weights = data()
    dataset = tf.data.Dataset.from_tensors((x, y, weights))
    prompt = {"token_ids": x["token_ids"], "padding_mask": np.arange(T)[None] < [[3], [2]]}
    names = {"random_model": random_model, "dataset": dataset, "prompt": prompt}
    code = code.replace(preset, 'random_model("gemma")').replace('"The answer is"', "prompt")
    exec(code.replace("max_length=64", "stop_token_ids=None"), names)
    again = keras.saving.load_model("tuned.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), names["model"].predict(x, verbose=0))

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, with_gradients
from refusals import refuses
from tfsoftmax.layers import recurrent
from tfsoftmax.layers.recurrent import recurrent_layer

B, T, D, H = 3, 7, 5, 4
STATES = {"lstm": 2, "gru": 1, "rnn": 1}
CELLS = tuple(STATES)
SHAPES = [(B, T), (B, 1), (1, T), (1, 1)]
WRAPPERS = {
    "eager": lambda f: f,
    "function": tf.function,
    "jit": lambda f: tf.function(f, jit_compile=True),
}


def make(cell, backend, seed=0, built=True, **kwargs):
    """A layer with distinct random weights, biases included, the same for every backend."""
    kwargs = {"return_sequences": True, "return_state": True, **kwargs}
    layer = recurrent_layer(cell, H, backend, **kwargs)
    if built:
        layer.build((B, T, D))
        layer.set_weights(random_weights(layer, seed))
    return layer


def random_weights(layer, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(scale=0.5, size=w.shape) for w in layer.get_weights()]


def random_case(cell, batch=B, steps=T, seed=1):
    """Inputs, initial states, and the upstream gradients of outputs and final states."""
    rng = np.random.default_rng(seed)
    states = STATES[cell]
    state_shapes = states * [(batch, H)]
    shapes = [(batch, steps, D), *state_shapes, (batch, steps, H), *state_shapes]
    x, *rest = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    return x, rest[:states], rest[states:]


def outputs_and_gradients(layer, x, states, upstream, wrap=lambda f: f):
    def run(x, *states):
        with tf.GradientTape() as tape:
            tape.watch((x, states))
            outputs = layer(x, initial_state=list(states))
            loss = sum(tf.reduce_sum(y * u) for y, u in zip(outputs, upstream))
        weights = [variable.value for variable in layer.trainable_variables]
        return list(outputs) + tape.gradient(loss, [x, *states, *weights])

    return [r.numpy() for r in wrap(run)(tf.constant(x), *map(tf.constant, states))]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", ["fused", "auto"])
@pytest.mark.parametrize("wrap", WRAPPERS)
def test_values_and_all_gradients_equal_those_of_the_cell(cell, backend, wrap):
    case = random_case(cell)
    reference = outputs_and_gradients(make(cell, "cell"), *case)
    assert_all_close(outputs_and_gradients(make(cell, backend), *case, WRAPPERS[wrap]), reference)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("jit", [False, True])
def test_unknown_batch_and_length_serve_every_shape(cell, jit):
    states = STATES[cell]
    signature = [tf.TensorSpec([None, None, D])] + [tf.TensorSpec([None, H])] * states
    fused, reference = make(cell, "fused"), make(cell, "cell")
    for batch, steps in SHAPES:
        case = random_case(cell, batch, steps)
        results = outputs_and_gradients(
            fused, *case, lambda f: tf.function(f, jit_compile=jit, input_signature=signature)
        )
        assert_all_close(results, outputs_and_gradients(reference, *case))


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_leave_a_compiled_forward_pass(cell):
    layer = make(cell, "fused", return_state=False)
    x = tf.constant(random_case(cell)[0])
    gradients = []
    for call in (layer, tf.function(layer, jit_compile=True)):
        gradients += with_gradients(lambda call=call: call(x) ** 2, [x])[1]
    assert_all_close(gradients[:1], gradients[1:])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", ["auto", "cell", "fused"])
@pytest.mark.parametrize(
    "options", [{"return_sequences": False}, {"go_backwards": True}, {"return_sequences": True}]
)
def test_every_backend_equals_the_keras_loop_with_the_same_weights(cell, backend, options):
    x = random_case(cell)[0]
    name = {"lstm": "LSTMCell", "gru": "GRUCell", "rnn": "SimpleRNNCell"}[cell]
    options = {"return_sequences": True, **options}
    keras_loop = keras.layers.RNN(getattr(keras.layers, name)(H), return_state=True, **options)
    keras_loop.build((B, T, D))
    keras_loop.set_weights(random_weights(keras_loop, seed=2))
    layer = make(cell, backend, **options)
    layer.set_weights(keras_loop.get_weights())
    assert_all_close(layer(x), keras_loop(x))


@pytest.mark.parametrize("cell", CELLS)
def test_weight_files_carry_over_from_backend_to_backend(cell, tmp_path):
    x = random_case(cell)[0]
    models = {}
    for seed, backend in enumerate(("cell", "fused", "auto")):
        layer = make(cell, backend, seed=seed, return_state=False)
        models[backend] = keras.Sequential([keras.Input((None, D)), layer])
    models["cell"].save_weights(tmp_path / "model.weights.h5")
    for backend in ("fused", "auto"):
        models[backend].load_weights(tmp_path / "model.weights.h5")
        assert_all_close([models[backend](x)], [models["cell"](x)])


@pytest.mark.parametrize("cell", CELLS)
def test_masked_steps_are_passed_over_as_by_the_cell(cell):
    x = random_case(cell)[0]
    mask = np.arange(T) < np.array([[T], [3], [1]])
    expected = make(cell, "cell")(x, mask=mask)
    assert_all_close(make(cell, "fused")(x, mask=mask), expected)
    backwards = [make(cell, backend, go_backwards=True) for backend in ("cell", "fused")]
    assert_all_close(*[layer(x, mask=mask[:, ::-1]) for layer in backwards])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", ["fused", "cell"])
def test_stateful_halves_equal_one_long_sequence_until_reset(cell, backend):
    x = random_case(cell, steps=2 * T)[0]
    whole = make(cell, "cell", return_state=False)(x)
    layer = make(cell, backend, stateful=True, return_state=False, built=False)
    model = keras.Sequential([keras.Input(batch_shape=(B, T, D)), layer])
    layer.set_weights(random_weights(layer))
    halves = [model.predict_on_batch(part) for part in (x[:, :T], x[:, T:])]
    assert_all_close([np.concatenate(halves, axis=1)], [whole])
    assert np.abs(layer.states[0].numpy()).min() > 0
    layer.reset_state()
    assert all(not state.numpy().any() for state in layer.states)
    assert_all_close([model.predict_on_batch(x[:, :T])], [whole[:, :T]])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("options", [
    {"jit_compile": False}, {"jit_compile": True}, {"run_eagerly": True},
], ids=["graph", "xla", "eager"])
def test_fit_with_carried_states_takes_the_same_steps_as_the_cell(cell, options):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(4 * B, T, D)), rng.normal(size=(4 * B, T, H))
    weights = []
    for backend in ("cell", "fused"):
        layer = make(cell, backend, stateful=True, return_state=False, built=False)
        model = keras.Sequential([keras.Input(batch_shape=(B, T, D)), layer])
        layer.set_weights(random_weights(layer))
        model.compile(keras.optimizers.SGD(0.5), "mse", **options)
        model.fit(x, y, batch_size=B, shuffle=False, verbose=0)
        weights.append(layer.get_weights())
    assert np.abs(weights[0][0] - random_weights(layer)[0]).max() > 1e-3
    assert_all_close(weights[1], weights[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("jit", [False, True])
def test_bfloat16_is_close_to_float32(cell, jit):
    x, states, upstream = random_case(cell)
    reference = outputs_and_gradients(make(cell, "fused"), x, states, upstream)
    layer = make(cell, "fused", dtype="mixed_bfloat16")
    upstream = [tf.cast(u, "bfloat16") for u in upstream]
    wrap = WRAPPERS["jit" if jit else "function"]
    results = outputs_and_gradients(layer, x, states, upstream, wrap)
    assert results[0].dtype == tf.bfloat16.as_numpy_dtype
    assert all(variable.dtype == "float32" for variable in layer.weights)
    for result, exact in zip(results, reference):
        difference = np.linalg.norm(result.astype(np.float32) - exact)
        assert difference < 0.03 * np.linalg.norm(exact)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", ["auto", "fused", "cell"])
def test_keras_file_gives_back_the_layer(cell, backend, through_a_file):
    layer = make(cell, backend, return_state=False, built=False, bias_initializer="uniform")
    model = keras.Sequential([keras.Input((None, D)), layer])
    loaded = through_a_file(model)
    x = random_case(cell)[0]
    assert loaded.layers[0].get_config() == layer.get_config()
    assert loaded.layers[0].backend == backend
    assert_all_close([loaded(x)], [model(x)], 1e-7, 1e-7)


@pytest.mark.parametrize("backend", ["auto", "fused", "cell"])
def test_forget_bias_starts_at_zero_unless_asked(backend):
    for asked, forget_bias in (({}, 0), ({"unit_forget_bias": True}, 1)):
        layer = recurrent_layer("lstm", H, backend, **asked)
        layer.build((B, T, D))
        bias = np.zeros(4 * H)
        bias[H : 2 * H] = forget_bias
        np.testing.assert_array_equal(layer.get_weights()[2], bias)


@pytest.mark.parametrize("cell", CELLS)
def test_auto_leaves_to_keras_what_the_kernels_cannot_compute(cell, monkeypatch):
    x = random_case(cell)[0]
    expected = make(cell, "cell", activation="relu")(x)
    layer = make(cell, "auto", activation="relu")
    monkeypatch.setattr(layer, "_sequence_kernel", None)
    assert_all_close(layer(x), expected)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_auto_leaves_the_choice_to_keras_where_there_is_a_gpu(cell, monkeypatch):
    monkeypatch.setattr(recurrent, "_gpus", lambda: ["GPU:0"])
    layer, x = make(cell, "auto"), random_case(cell)[0]
    assert layer.use_cudnn == "auto"
    monkeypatch.setattr(layer, "_sequence_kernel", None)
    assert_all_close(layer(x), make(cell, "cell")(x))


def test_a_vanilla_rnn_is_fused_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(recurrent, "_gpus", lambda: ["GPU:0"])
    layer, x = make("rnn", "auto"), random_case("rnn")[0]
    assert layer._fuses(None)
    assert_all_close(layer(x), make("rnn", "cell")(x))


@pytest.mark.skipif(bool(recurrent._gpus()), reason="needs a machine without a GPU")
def test_cudnn_without_a_gpu_is_refused_at_once():
    with refuses("backend", "have a GPU") as caught:
        recurrent_layer("lstm", H, "cudnn")
    assert "backend='cudnn'" in str(caught.value) and "CPU:0" in str(caught.value)


@pytest.mark.skipif(not recurrent._gpus(), reason="needs a GPU")
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_cudnn_equals_the_cell(cell):
    case = random_case(cell)
    reference = outputs_and_gradients(make(cell, "cell"), *case)
    assert_all_close(outputs_and_gradients(make(cell, "cudnn"), *case), reference, 1e-4, 1e-4)


@pytest.mark.parametrize("cell, name, value, rule", [
    ("lstm", "activation", "relu", "be 'tanh' for"), ("gru", "recurrent_dropout", 0.5, "be 0 for"),
    ("lstm", "dropout", 0.5, "be 0 for"), ("gru", "reset_after", False, "be True for"),
    ("lstm", "use_bias", False, "be True for"), ("lstm", "unroll", True, "be False for"),
])
def test_fused_refuses_what_it_cannot_compute(cell, name, value, rule):
    with refuses(name, rule):
        recurrent_layer(cell, H, "fused", **{name: value})


@pytest.mark.parametrize("build, name", [
    (lambda: recurrent_layer("elman", H), "cell"),
    (lambda: recurrent_layer("gru", H, "gpu"), "backend"),
    (lambda: recurrent.LSTM(H, "gpu"), "backend"),
    (lambda: recurrent_layer("rnn", H, "cudnn"), "backend"),
])
def test_unknown_cell_and_backend_are_named(build, name):
    with refuses(name, "be one of"):
        build()

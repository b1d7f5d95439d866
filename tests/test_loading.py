"""Saved models load in a new process, after `import keras, tfsoftmax` in either order.

They run eagerly, because tracing would take most of the time; test_keras_integration.py reloads
every head within a process in graphs.
"""

import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import load_models
import tfsoftmax
from cases import CASES, ONE_OF_EACH, counts
from tfsoftmax import optimizers, samplers
from tfsoftmax.ngrams.backoff import BackoffBigrams
from tfsoftmax.ngrams.counts import Bigrams
from tfsoftmax.ngrams.previous_word import PreviousWord

V, B, T, D = 13, 4, 5, 8
SCHEDULE = keras.optimizers.schedules.PolynomialDecay(0.8, 20, end_learning_rate=1.0)
NGRAM = BackoffBigrams.from_counts(Bigrams.count([(range(V - 1), range(1, V))], V), counts(V))
SAMPLERS = {
    **{name: {"sampler": name} for name in ("uniform", "log_uniform", "learned_unigram")},
    "unigram": {"sampler_options": {"alpha": 0.75, "unique": True}},
    "interpolated": {"sampler": samplers.Interpolated(V, counts(V), SCHEDULE)},
    "in_batch": {"sampler": samplers.InBatch(V, counts(V)), "num_samples": None},
    "in_batch, mixed": {
        "sampler": samplers.InBatch(V, "learned", samplers.Unigram(V, counts(V), alpha=0.5)),
        "label_smoothing": 0.1,
    },
    "learned_unigram, excluding": {
        "sampler": "learned_unigram", "sampler_options": {"exclude": [12]},  # no label
    },
    "bigram": {"sampler": samplers.Bigram(V, NGRAM), "shared_samples": False},
    "online_bigram": {
        "sampler": samplers.OnlineBigram(V, counts(V), slots=3), "shared_samples": False,
    },
    "target": {"sampler": samplers.TargetSampling(V, [range(V)], [9]), "num_samples": V},
}
HEADS = {
    **{f"head {case}": lambda case=case: CASES[case](V) for case in ONE_OF_EACH},
    **{
        f"sampler {name}": lambda options=options: tfsoftmax.SampledSoftmax(
            V, **{"num_samples": 6, "counts": counts(V), "seed": 1, **options}
        )
        for name, options in SAMPLERS.items()
    },
}
EMBEDDINGS = (
    lambda: tfsoftmax.Embedding(V, D),
    lambda: tfsoftmax.AdaptiveEmbedding(V, D, [4, 8], 2.0, counts=counts(V)),
)
BODIES = (
    tfsoftmax.LSTM, tfsoftmax.GRU,
    lambda units, **options: tfsoftmax.TransformerBlock(units, attention_heads=2, **options),
)
OPTIMIZERS = (
    lambda: optimizers.Adagrad(0.2, global_clipnorm=1.0),
    lambda: optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 1, 0.9)),
    lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
)


def data():
    rng = np.random.default_rng(3)
    words = rng.integers(0, V, (B, T + 1)).astype(np.int32)
    return words[:, :-1], words[:, 1:], rng.uniform(size=(B, T)).astype(np.float32)


def metrics_for(head):
    """Our metrics that the head can be watched by."""
    metrics = [tfsoftmax.Perplexity()]
    if hasattr(head, "log_normaliser"):
        metrics.append(tfsoftmax.Normaliser())
    if hasattr(head, "effective_sample_size") and not isinstance(head.sampler, samplers.InBatch):
        metrics.append(tfsoftmax.EffectiveSampleSize())
    if hasattr(head, "cluster_log_prob"):
        metrics += [tfsoftmax.ClusterPerplexity(), tfsoftmax.InClusterPerplexity()]
    return metrics


def trained_model(number, head):
    """A model over `head` after a step; its layers and optimiser take turns by its number."""
    keras.utils.set_random_seed(number)
    words = keras.Input((T,), dtype="int32")
    hidden = EMBEDDINGS[number % len(EMBEDDINGS)]()(words)
    hidden = BODIES[number // 2 % len(BODIES)](D, return_sequences=True)(hidden)
    if head.reads_previous_word:
        hidden = PreviousWord()([hidden, words])
    model = keras.Model(words, head(hidden))
    model.compile(
        OPTIMIZERS[number % len(OPTIMIZERS)](), tfsoftmax.SoftmaxLoss(reduction="sum_over_steps"),
        weighted_metrics=metrics_for(head), run_eagerly=True,
    )
    model.train_on_batch(*data())
    return model


@pytest.fixture(scope="module")
def saved(request, tmp_path_factory):
    """A directory of the models that tests ask for, and what each gives in this process."""
    here = [item for item in request.session.items if item.path == request.path]
    asked = {item.callspec.params["name"] for item in here if hasattr(item, "callspec")}
    directory = tmp_path_factory.mktemp("models")
    np.savez(directory / "data", **dict(zip(("words", "labels", "weights"), data(), strict=True)))
    expected = {}
    for number, (name, head) in enumerate(HEADS.items()):
        if name not in asked:
            continue
        model = trained_model(number, head())
        model.save(directory / f"{name}.keras")
        expected[name] = load_models.results(model, data())
    return directory, expected


@pytest.fixture(scope="module", params=["keras tfsoftmax", "tfsoftmax keras"])
def loaded(saved, request):
    """What the same files give in a process that imported the two packages in this order."""
    directory, _ = saved
    packages = request.param.split()
    command = [sys.executable, "-m", "tests.load_models", directory, *packages]
    subprocess.run(command, check=True, cwd=pathlib.Path(__file__).parent.parent)
    found = {}
    with np.load(directory / f"{packages[0]}.npz") as numbers:
        for key in numbers:
            name, _, what = key.partition("/")
            found.setdefault(name, {})[what] = numbers[key]
    return found


@pytest.mark.parametrize("name", HEADS)
def test_a_saved_model_gives_the_same_in_a_new_process(saved, loaded, name):
    _, expected = saved
    assert "error" not in loaded[name], str(loaded[name].get("error"))
    assert loaded[name].keys() == expected[name].keys()
    for what, value in expected[name].items():
        np.testing.assert_allclose(loaded[name][what], value, rtol=1e-5, atol=1e-6, err_msg=what)


def test_every_layer_and_optimiser_is_in_a_saved_model():
    used = {type(get()).__name__ for get in (*EMBEDDINGS, *OPTIMIZERS)}
    used |= {type(make(D)).__name__ for make in BODIES}
    assert used == {
        "Embedding", "AdaptiveEmbedding", "LSTM", "GRU", "TransformerBlock", "Adagrad", "Adam",
        "SGD",
    }
    assert len(HEADS) >= 4  # so that every one has had its turn
    by_name = {name for name in SAMPLERS if ", " not in name} - {"target"}
    assert not by_name ^ set(samplers.SAMPLERS), "`SAMPLERS` above is not that of the package"

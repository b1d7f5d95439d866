"""Training runs: what they learn, what they leave behind, and which mistakes they refuse."""

import dataclasses
import json
import os
import shutil

import keras
import numpy as np
import pytest

from cases import assert_all_equal
from refusals import refused
from runs_helper import CONFIG, MODEL, error_of, events, final_weights, small_corpus, tool, train
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.prepare import PrepareConfig, prepare
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.compiled import compiled_model
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.evaluation import exact_evaluator
from tfsoftmax.lm.model import language_model, recurrent_states
from tfsoftmax.runs import runs, training
from tfsoftmax.runs.trainer import Trainer
from tfsoftmax.support.progress import bar


def test_perplexity_falls_and_is_logged(finished_run, corpus):
    steps = 2 * corpus.split("train").records
    valid = events(finished_run, "valid")
    assert len(valid) == 4 and valid[-1]["step"] == steps
    assert valid[-1]["perplexity"] < 0.85 * valid[0]["perplexity"] < 62
    assert [m["step"] for m in events(finished_run, "train")] == list(range(1, steps + 1))
    assert events(finished_run, "finished")[0]["best_perplexity"] == min(
        m["perplexity"] for m in valid
    )
    assert os.listdir(finished_run.path("tensorboard"))


def test_logged_validation_is_the_exact_perplexity(finished_run, corpus):
    """Against float64 sums over the logits of one long pass, stream by stream."""
    model, vocabulary, _ = runs.load(finished_run.directory, corpus.streams, corpus.time_steps)
    nats, tokens = 0.0, 0
    for words, labels, weights in batches(corpus, "valid"):
        logits = model(words).numpy().astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        gathered = np.take_along_axis(log_probs, labels.numpy()[..., None], -1)[..., 0]
        nats -= np.sum(gathered * weights.numpy())
        tokens += int(np.sum(weights))
    assert tokens == corpus.split("valid").tokens
    best = min(m["perplexity"] for m in events(finished_run, "valid"))
    np.testing.assert_allclose(best, np.exp(nats / tokens), rtol=1e-5)


def test_evaluation_leaves_the_states_as_they_were(corpus):
    model = compiled_model(MODEL, CONFIG, corpus)
    for state in recurrent_states(model):
        state.assign(keras.random.normal(state.shape))
    before = [s.numpy() for s in recurrent_states(model)]
    evaluate = exact_evaluator(model)
    results = [evaluate(corpus, "valid") for _ in range(2)]
    assert results[0]["nats_per_token"] == results[1]["nats_per_token"]
    assert_all_equal(recurrent_states(model), before)


@pytest.mark.parametrize("rate", [1e30, 3e3])
def test_a_loss_that_is_not_finite_stops_the_run(rate, corpus, tmp_path):
    config = TrainingConfig(
        optimizer="sgd", learning_rate=1e-3, clip_norm=0, max_steps=2, checkpoint_steps=1
    )
    run = runs.Run(str(tmp_path / "run"))
    train(corpus, run.directory, config=config)
    good, config = final_weights(run), dataclasses.replace(config, max_steps=60)
    model, trainer = ModelConfig(**run.config()["model"]), Trainer(
        Corpus.load(corpus.directory), run, MODEL, config, verbose=False
    )
    assert model == MODEL
    trainer.model.optimizer.learning_rate.assign(rate)
    with pytest.raises(RuntimeError, match=r"at step \d+: .* is (nan|inf|no longer finite)"):
        trainer.run_to_the_end()
    for name, values in final_weights(run).items():
        assert values.dtype.kind != "f" or np.all(np.isfinite(values)), name
    assert good.keys() == final_weights(run).keys()


def test_a_perplexity_beyond_float32_is_recorded(corpus, tmp_path):
    train(corpus, tmp_path / "run", optimizer="adam", learning_rate=20.0, max_steps=2)
    (line,) = events(runs.Run(str(tmp_path / "run")), "valid")
    assert 3.5e38 < line["perplexity"] < np.inf


def test_a_run_of_another_configuration_is_refused(finished_run, corpus, tmp_path):
    other = dataclasses.replace(MODEL, hidden_units=12)
    with pytest.raises(ValueError, match="same configuration.*hidden_units=11 there, 12 now"):
        train(corpus, finished_run.directory, other)
    other = small_corpus(tmp_path, seed=5)
    with pytest.raises(ValueError, match="`run` must be new or of the same .*records_sha256"):
        train(other, finished_run.directory)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("mine")
    refused("`run` must be a new or empty directory", train, corpus, tmp_path / "foreign")


def test_a_run_does_not_compare_validations_of_different_texts(finished_run, tmp_path):
    small_corpus(tmp_path)  # the text of the run
    texts = {"train": str(tmp_path / "train.txt"), "valid": str(tmp_path / "test.txt")}
    other = prepare(
        PrepareConfig("text", str(tmp_path / "other"), **texts, streams=4, time_steps=6), False
    )
    run = shutil.copytree(finished_run.directory, tmp_path / "run")
    refused("Received: run=.*, corpus valid_sha256=", train, other, run, epochs=3)
    recorded = json.loads((run / "config.json").read_text())
    del recorded["corpus"]["valid_sha256"]  # as older runs, which know no better
    (run / "config.json").write_text(json.dumps(recorded))
    assert train(other, run)["step"] == events(finished_run, "finished")[0]["step"]


def test_a_mistake_before_the_first_step_leaves_no_run_behind(corpus, tmp_path):
    wrong = TrainingConfig(pretrained=str(tmp_path / "none.txt"), max_steps=1)
    refused("none.txt", train, corpus, tmp_path / "run", config=wrong, error=OSError)
    right = TrainingConfig(max_steps=1)
    assert train(corpus, tmp_path / "run", config=right)


def test_evaluate_prints_json_last(finished_run, corpus):
    lines = tool("evaluate", f"--run={finished_run.directory}", "--split=test").stdout.splitlines()
    result = json.loads(lines[-1])
    assert result["tokens"] == corpus.split("test").tokens
    assert result["oov_tokens"] == corpus.split("test").oov
    np.testing.assert_allclose(result["perplexity"], np.exp(result["nats_per_token"]))
    assert events(finished_run, "test")[-1]["perplexity"] == result["perplexity"]


def test_evaluate_refuses_another_vocabulary(finished_run, tmp_path):
    other = small_corpus(tmp_path, words=50)
    result = error_of("evaluate", f"--run={finished_run.directory}", f"--data={other.directory}")
    assert "`data` must have the vocabulary that the run was trained with" in result


@pytest.mark.parametrize("cell", ["lstm", "gru", "transformer"])
def test_every_kind_of_model_trains_a_step(corpus, cell, tmp_path):
    model = ModelConfig(
        embedding_units=10, hidden_units=10, layers=2, cell=cell, tie_embeddings=True,
        precision="mixed_bfloat16", head_options={"z_loss": 1e-4}, attention_heads=1,
    )
    config = TrainingConfig(optimizer="adam", learning_rate=0.01, reduce="token", max_steps=8)
    finished = train(corpus, tmp_path / "run", model, config)
    assert finished["step"] == 8 and finished["best_perplexity"] < 62


def trained_and_loaded(corpus, folder, config):
    """The model of a short run, which measures what the run has measured."""
    finished = train(corpus, str(folder / "run"), config, TrainingConfig(max_steps=4))
    model, _, _ = runs.load(str(folder / "run"), corpus.streams, corpus.time_steps)
    again = exact_evaluator(model)(corpus, "valid")
    np.testing.assert_allclose(again["perplexity"], finished["best_perplexity"], rtol=1e-6)
    return model


@pytest.mark.parametrize("head, options", [
    ("sampled", {"num_samples": 8}), ("adaptive", {"cutoffs": [9, 30], "projection_factor": 2}),
])
def test_heads_tied_to_the_embedding_train_and_come_back(head, options, corpus, tmp_path):
    tied = ModelConfig(
        embedding_units=8, hidden_units=8, head=head, head_options=options, tie_embeddings=True
    )
    model = trained_and_loaded(corpus, tmp_path, tied)
    assert model.get_layer("head").tied_to is model.get_layer("embedding")
    loose = dataclasses.replace(tied, tie_embeddings=False)
    untied = language_model(loose, corpus.vocabulary, corpus.streams)
    assert model.count_params() < 0.75 * untied.count_params()


@pytest.mark.parametrize("head, options, tie", [
    ("char_cnn", {"characters": {"filters": [4, 4]}}, True),
    ("sampled", {"num_samples": 9, "characters": {"encoder": "lstm", "lstm_units": 4}}, False),
    pytest.param("adaptive", {"cutoffs": [9, 30], "characters": {"correction_units": 2}}, True,
                 marks=pytest.mark.slow),
])
def test_kernels_from_characters_train_and_load(corpus, tmp_path, head, options, tie):
    config = ModelConfig(embedding_units=8, hidden_units=8, head=head, tie_embeddings=tie,
                         head_options=options)
    model = trained_and_loaded(corpus, tmp_path, config)
    layer = model.get_layer("head").tied_to
    assert layer.words == corpus.vocabulary.words
    assert (layer is model.get_layer("embedding")) == tie
    assert all(getattr(layer, k) == v for k, v in options["characters"].items())


def test_what_cannot_be_tied_says_so(corpus, tmp_path):
    tree = ModelConfig(embedding_units=8, hidden_units=8, head="tree", tie_embeddings=True)
    message = "`tie_embeddings` must be given with a head that has a score"
    refused(message, train, corpus, tmp_path / "a", tree)
    spelled = dataclasses.replace(tree, tie_embeddings=False, head_options={"characters": {}})
    refused(message.replace("tie_embeddings", "characters"), train, corpus, tmp_path / "a", spelled)
    (tmp_path / "vectors.txt").write_text("w7 1 2 3 4 5 6 7 8\n")
    adaptive = dataclasses.replace(tree, head="adaptive", head_options={"cutoffs": [9, 30]})
    config = dataclasses.replace(CONFIG, pretrained=str(tmp_path / "vectors.txt"))
    with pytest.raises(ValueError, match="`pretrained` must be given for an embedding"):
        train(corpus, tmp_path / "b", adaptive, config)


def test_a_corpus_that_cannot_be_validated_is_refused_before_training(corpus, tmp_path):
    damaged = shutil.copytree(corpus.directory, tmp_path / "damaged")
    (path,) = damaged.glob("valid-*.tfrecord")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="valid.*: must be as it was written"):
        training.train(str(damaged), str(tmp_path / "run"), MODEL, CONFIG, verbose=False)
    manifest = json.loads((damaged / "manifest.json").read_text())
    del manifest["splits"]["valid"]
    (damaged / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="`data` must have a valid split to train with"):
        training.train(str(damaged), str(tmp_path / "run"), MODEL, CONFIG, verbose=False)
    assert not (tmp_path / "run").exists()


def test_words_of_a_self_organised_head_choose_their_clusters(corpus, tmp_path):
    model = dataclasses.replace(MODEL, head="self_organised")
    for last, expected in ((4, [2]), (5, [2, 4]), (8, [2, 4, 6])):  # not where training ends
        train(corpus, tmp_path / "run", model, max_steps=last, reassign_steps=2)
        changes = events(runs.Run(str(tmp_path / "run")), "reassigned")
        assert [change["step"] for change in changes] == expected
    assert changes[0]["changed_words"] > 0


def test_adamw_decays_the_weights_before_the_rule_of_adam(corpus):
    """w <- Adam(w - rate · decay · w), from the weights and the gradients of one batch."""
    weights = {}
    for optimizer, decay in (("adam", 0.0), ("adamw", 0.0), ("adamw", 0.5)):
        config = TrainingConfig(optimizer=optimizer, learning_rate=0.1, weight_decay=decay, seed=3)
        keras.utils.set_random_seed(3)
        model = compiled_model(dataclasses.replace(MODEL, dropout=0.0), config, corpus)
        before = model.get_weights()
        model.train_on_batch(*next(iter(batches(corpus, "train"))))
        weights[optimizer, decay] = model.get_weights()
    for start, adam, plain, decayed in zip(before, *weights.values(), strict=True):
        np.testing.assert_allclose(plain, adam, rtol=1e-6)
        if start.ndim == 2 and start.shape[0] == 11:  # dense: the others are sparse, and lazy
            np.testing.assert_allclose(decayed, adam - 0.1 * 0.5 * start, rtol=1e-4, atol=1e-6)
            assert not np.allclose(decayed, adam, rtol=1e-3)


@pytest.mark.parametrize("name, value, message", [
    ("layers", True, "an integer"), ("layers", 1.5, "an integer"), ("epochs", "2", "an integer"),
    ("clip_norm", float("nan"), "a finite number"), ("learning_rate", 1e39, "a finite number"),
    ("dropout", None, "a finite number"), ("tie_embeddings", "no", "True or False"),
    ("head_options", [], "a dictionary"), ("init_scale", 3e38, "lie in"),
    ("learning_rate", 1e30, "lie in"),
    ("weight_decay", 6.0, "at most 1 / learning_rate, 5"), ("head", 3, "a string"),
    ("weight_decay", -0.1, "be at least 0"), ("patience", -1, "be at least 0"),
])
def test_settings_of_the_wrong_type_or_range_are_named(name, value, message):
    config = ModelConfig if name in ModelConfig.__dataclass_fields__ else TrainingConfig
    refused(f"`{name}` (must (be )?)?{message}.*{name}=", config, **{name: value})
    assert type(TrainingConfig(epochs=np.int64(3)).epochs) is int


def test_without_a_terminal_lines_tell_the_progress_before_the_first_validation(
    corpus, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("tfsoftmax.runs.trainer.REPORT_SECONDS", 0.0)
    config = dataclasses.replace(CONFIG, max_steps=3, log_steps=1000)
    training.train(corpus.directory, str(tmp_path / "run"), MODEL, config)
    *lines, validation = capsys.readouterr().out.splitlines()
    assert "exact validation perplexity" in validation
    assert [line.partition(": loss ")[0] for line in lines] == [
        f"epoch 1 of 1, step {step} of 3" for step in (1, 2, 3)]
    assert all("words/s" in line for line in lines)
    monkeypatch.setattr("tfsoftmax.runs.trainer.REPORT_SECONDS", 1e6)
    training.train(corpus.directory, str(tmp_path / "quiet"), MODEL, config)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_bar_says_of_how_many_epochs(corpus, tmp_path, monkeypatch):
    shown = []

    def shown_bar(description, *arguments, **options):
        shown.append(description)
        return bar(description, *arguments, **options)

    monkeypatch.setattr("tfsoftmax.runs.trainer.bar", shown_bar)
    train(corpus, tmp_path / "run")
    assert shown == ["epoch 1 of 2"] * 2 + ["epoch 2 of 2"] * 2

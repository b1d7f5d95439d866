"""Whole models in the benchmarks: ours and PyTorch's, their parts, runs of experiments."""

import contextlib
import dataclasses
import types

import numpy as np
import pytest

from experiments.benchmarks import cases, head_suites, models, programs, run
from experiments.benchmarks.head_products import products_of
from experiments.benchmarks.measure import Worker
from experiments.benchmarks.problem import Problem
from experiments.framework import catalogue, definition
from runs_helper import small_corpus

PROBLEM = Problem(60, units=8, streams=3, steps=7)
LARGER = Problem(60, units=32, streams=16, steps=8, text_words=40)


def case_of(body):
    options = {"body": body, "head_options": {"cutoffs": [6, 30]}}
    return cases.Case("x", "whole", "adaptive", options, measures=(cases.WHOLE,))


def assert_trains(step, times=20):
    first = step()
    assert [step() for _ in range(times)][-1] < first


def test_the_parts_of_a_whole_step_run_apart():
    case = cases.Case("x", "whole", "sampled", {"num_samples": 9},
                      measures=(cases.WHOLE, *cases.PARTS))
    program = models.whole(case, PROBLEM)
    assert list(program.functions) == [cases.WHOLE, *cases.PARTS]
    assert all(np.isfinite(function()) for function in program.functions.values())
    embedding, lstm, head = 60 * 8, 32 * (8 + 8 + 1), 60 * 9
    assert program.parameters == embedding + lstm + head


@pytest.mark.parametrize("cell, gates", [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_the_modules_of_a_language_model_run_apart_with_any_cell(cell, gates):
    case = next(c for c in head_suites.poster(60) if c.options.get("cell") == cell)
    program = models.modules(case, PROBLEM)
    assert tuple(program.functions) == case.measures == cases.MODULES
    assert all(np.isfinite(function()) for function in program.functions.values())
    recurrent = gates * 8 * (8 + 8 + 1) + (cell == "gru") * 24  # Keras's GRU has two biases
    assert program.parameters == 60 * 8 + recurrent + 60 * 9


def test_a_run_of_an_experiment_takes_training_steps_of_its_corpus(tmp_path, monkeypatch):
    small_corpus(tmp_path)
    model = {"hidden_units": 8, "embedding_units": 8}
    seeds = [definition.Run(f"small-seed{seed}", model=model) for seed in (1, 2)]
    module = types.SimpleNamespace(RUNS=[definition.Run("other"), *seeds])
    monkeypatch.setitem(catalogue.EXPERIMENTS, "made_up", module)
    given = types.SimpleNamespace(experiment="made_up", data=f"{tmp_path}/data", only=["small*"])
    ((suite, problem, (case,)),) = run.speed(given)
    assert (suite, case.name, problem.positions, case.peers) == ("speed", "small-seed1", 24, ())
    assert_trains(models.training(case, problem).functions[cases.WHOLE], 30)  # round the corpus


@pytest.mark.parametrize("body", models.BODIES)
def test_whole_steps_train_every_body_and_have_the_products_of_its_head(body):
    case = case_of(body)
    program = models.whole(case, LARGER)
    assert_trains(program.functions[cases.WHOLE])
    head, _ = programs.built_head(dataclasses.replace(case, options={"cutoffs": [6, 30]}), LARGER)
    of_head = products_of(head, LARGER.labels())
    assert program.products[-len(of_head):] == of_head
    assert (body == "bag of words") == (len(program.products) == len(of_head))


@pytest.mark.parametrize("body, more", [("LSTM", 4 * 32), ("Transformer", 0), ("bag of words", 0)])
def test_models_of_pytorch_have_the_parameters_of_ours(body, more):
    """But that PyTorch's LSTM has two biases. It runs apart: TensorFlow in its process kills it."""
    pytest.importorskip("torch")
    case = case_of(body)
    with contextlib.closing(
        Worker(dataclasses.replace(case, kind="torch_model"), LARGER)
    ) as theirs:
        parameters = theirs.build()["parameters"]
        assert_trains(lambda: theirs.run(cases.WHOLE)["value"])
    assert parameters == models.whole(case, LARGER).parameters + more

"""What the benchmarks run: floors counted by hand, and one command from end to end."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks import (
    adaptive_evaluation,
    cases,
    floor,
    full_logits,
    head_suites,
    models,
    programs,
    rows,
    run,
    uses,
)
from experiments.benchmarks.head_products import moves_of, products_of
from experiments.benchmarks.problem import Problem
from tfsoftmax.support import budgets

ROOT = Path(__file__).resolve().parent.parent.parent
PROBLEM = Problem(60, units=8, streams=3, steps=7)


def case_of(head, **options):
    case = next(c for c in head_suites.heads(60) if c.head == head and c.kind == "head")
    return cases.Case(case.name, "head", head, {**case.options, **options})


@pytest.fixture(scope="module")
def heads():
    made = {}

    def get(head, **options):
        key = head, *options
        if key not in made:
            made[key] = programs.built_head(case_of(head, **options), PROBLEM)[0]
        return made[key]

    return get


def by_position(products):
    """Scores of the products: Σ rows · words."""
    return sum(product.rows * product.words for product in products)


def test_full_softmax_scores_every_word(heads):
    assert products_of(heads("full"), PROBLEM.labels()) == [(21, 8, 60)]


def test_a_sample_counts_its_distinct_words(heads):
    (product,) = products_of(heads("sampled", num_samples=100), PROBLEM.labels())
    assert product.rows == 21 and 1 < product.words < 60


def test_adaptive_softmax_scores_each_tail_for_the_positions_whose_labels_it_holds(heads):
    head, labels = heads("adaptive", cutoffs=[10, 30]), PROBLEM.labels()
    expected = [(21, 8, 12)]
    for first, last, units in ((10, 30, 2), (30, 60, 1)):
        expected.append((sum(first <= label < last for label in labels), units, last - first))
    expected += [(rows, 8, units) for rows, units, _ in expected[1:]]
    assert products_of(head, labels) == expected


@pytest.mark.parametrize("head", ["class", "nary"])
def test_nodes_are_scored_for_the_positions_that_pass_them(heads, head):
    head, labels = heads(head), PROBLEM.labels()
    expected = 0
    for label in labels:
        edges = [edge for edge in np.asarray(head.tree.paths())[label] if edge >= 0]
        expected += sum(head.tree.sizes[head.tree.owners[edge]] for edge in edges)
    assert by_position(products_of(head, labels)) == expected


def test_binary_trees_score_top_nodes_for_all_and_others_step_by_step(heads, monkeypatch):
    monkeypatch.setattr(budgets, "TOP_NODES", 4)
    head, labels = heads("tree"), PROBLEM.labels()
    steps = [edge // 2 for label in labels for edge in np.asarray(head.tree.paths())[label]
             if edge >= 0]
    below = sum(node >= 4 for node in steps)
    assert products_of(head, labels) == [(21, 8, 4), (below, 8, 1)]


@pytest.mark.parametrize("head", [c.head for c in head_suites.heads(60) if c.kind == "head"])
def test_every_head_has_a_floor(heads, head):
    products = products_of(heads(head), PROBLEM.labels())
    assert products and all(min(product) >= 0 for product in products)
    assert floor.multiplications(products) > 0


def test_the_floor_computes_all_products(monkeypatch):
    import tensorflow as tf

    monkeypatch.setattr(floor, "MOST_SCORES", 12)
    computed = []
    matmul = tf.matmul

    def counted(a, b, **kwargs):
        computed.append(kwargs)
        return matmul(a, b, **kwargs)

    monkeypatch.setattr(tf, "matmul", counted)
    tf.config.run_functions_eagerly(True)
    try:
        assert np.isfinite(floor.matmuls([floor.Product(3, 2, 9), floor.Product(2, 5, 1)],
                                         "float32")())
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(computed) == 3 * (2 + 1 + 1)  # 9 words of 3 rows: twice 4, then 1


@pytest.mark.parametrize("head", ["full", "tree"])
def test_the_forward_pass_has_the_loss_of_a_step_and_leaves_the_weights_alone(head):
    measured = cases.FORWARD, cases.GRADIENTS, cases.STEP
    case = dataclasses.replace(case_of(head), measures=measured)
    forward, gradients, step = programs.head(case, PROBLEM).functions.values()
    assert forward() == forward() == pytest.approx(gradients())
    before = forward()
    step()
    assert forward() < before


@pytest.mark.parametrize("head", ["full", "sampled", "tree"])
def test_a_step_is_the_loss_of_the_head_and_trains_it(head):
    program = programs.head(case_of(head), PROBLEM)
    assert set(program.functions) == {cases.GRADIENTS, cases.STEP}
    first = program.functions[cases.GRADIENTS]()
    for _ in range(5):
        last = program.functions[cases.STEP]()
    assert last < first
    assert program.parameters >= 59 * 8


@pytest.mark.parametrize("backend", ["cell", "fused"])
def test_recurrent_layers_multiply_inputs_and_states_by_their_gates(backend):
    options = {"cell": "lstm", "layers": 2, "units": 5, "backend": backend}
    program = programs.recurrent(cases.Case("x", "recurrent", backend, options), PROBLEM)
    assert np.isfinite(program.functions[cases.GRADIENTS]())
    assert by_position(program.products) == 2 * (21 + 7 * 3) * 20
    assert program.parameters == 20 * (8 + 5 + 1) + 20 * (5 + 5 + 1)


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
    import types

    from experiments.framework import catalogue, definition
    from runs_helper import small_corpus

    small_corpus(tmp_path)
    small = definition.Run("small", model={"hidden_units": 8, "embedding_units": 8})
    module = types.SimpleNamespace(RUNS=[definition.Run("other"), small])
    monkeypatch.setitem(catalogue.EXPERIMENTS, "made_up", module)
    given = types.SimpleNamespace(experiment="made_up", data=str(tmp_path / "data"), only=["small"])
    ((suite, problem, (case,)),) = run.speed(given)
    assert suite == "speed" and problem.positions == 24 and case.peers == ()
    step = models.training(case, problem).functions[cases.WHOLE]
    first = step()
    assert [step() for _ in range(30)][-1] < first  # goes round the corpus


def test_labels_come_from_a_corpus_where_one_is_given(tmp_path):
    from runs_helper import small_corpus
    from tfsoftmax.corpora.records import Corpus

    small_corpus(tmp_path)
    vocabulary = Corpus.load(str(tmp_path / "data")).vocabulary
    problem = Problem(len(vocabulary), 8, 4, 6, str(tmp_path / "data"))
    assert len(problem.labels()) == 24 and problem.labels().max() < len(vocabulary)
    assert list(problem.counts()) == list(vocabulary.counts)
    with pytest.raises(ValueError, match="`vocab_sizes` must be the corpus's"):
        Problem(5, data=str(tmp_path / "data")).labels()


def test_adaptive_softmax_finds_frequent_words_where_tails_are_unlikely(heads):
    head = heads("adaptive", cutoffs=[10, 31])
    functions = adaptive_evaluation.ours(head, PROBLEM)
    assert list(functions) == list(cases.EVALUATIONS)
    assert functions[cases.EVALUATIONS[3]]() < 10
    assert functions[cases.EVALUATIONS[0]]() < 0


def test_labels_follow_zipfs_law():
    labels = Problem(1000, streams=100, steps=100).labels()
    counts = np.bincount(labels, minlength=1000)
    shares = 1 / np.arange(1, 1001) / sum(1 / r for r in range(1, 1001))
    assert abs(counts[0] / 10_000 - shares[0]) < 0.02
    assert abs(counts[:100].sum() / 10_000 - shares[:100].sum()) < 0.03


def test_rows_name_the_commit_of_what_was_measured(tmp_path):
    assert run.commit_of(tmp_path) == "no commit"
    (tmp_path / "tfsoftmax").mkdir()
    for name in ("tfsoftmax/a.py", "b.py"):
        (tmp_path / name).write_text("1", encoding="utf-8")

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    commit = run.commit_of(tmp_path)
    assert len(commit) == 8
    (tmp_path / "b.py").write_text("2", encoding="utf-8")
    assert run.commit_of(tmp_path) == commit
    (tmp_path / "tfsoftmax" / "a.py").write_text("2", encoding="utf-8")
    assert run.commit_of(tmp_path) == f"{commit} with changes"


@pytest.mark.slow
def test_a_command_measures_and_reports_and_would_leave_alone_what_is_done(tmp_path):
    command = [
        sys.executable, "-m", "experiments.benchmarks.run", "heads", "--vocab_sizes=60",
        "--units=8", "--streams=3", "--steps=7", "--seconds=0", "--only=Shortlist",
        "--others=1",
        f"--results={tmp_path}",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert "Shortlist, step:" in done.stdout, done.stdout + done.stderr
    kept = rows.read(tmp_path / "rows.jsonl")
    assert [row["measure"] for row in kept] == [cases.STEP]
    assert all(row["to_floor"] > 0 and row["samples"] == 3 and row["V"] == 60 for row in kept)
    assert kept[0]["versions"]["tensorflow"] and kept[0]["versions"]["tfsoftmax"] and kept[0]["hardware"]
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| 60 | Shortlist |" in text and "N = 21" in text
    done = {rows.key_of(row) for row in kept}
    some = [case for case in head_suites.heads(60) if case.name == "Shortlist"]
    assert run.missing(some, "heads", PROBLEM, "zipf", kept[0]["hardware"], done) == []
    assert run.missing(some, "heads", PROBLEM, "zipf", "another machine", done) == some


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_all_ways_to_the_full_logits_agree(is_sorted, compiled, monkeypatch, tmp_path):
    head = full_logits.head_of(60, 8, is_sorted)
    assert head.bands.order.identity == is_sorted
    hidden = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    seconds = full_logits.times(head, hidden, compiled, repeats=1)
    assert len(seconds) == len(full_logits.WAYS) and min(seconds) > 0
    monkeypatch.setattr(full_logits, "RESULTS", tmp_path)
    full_logits.write([["60"] * len(full_logits.HEADINGS)], "a machine", 8, 1)
    assert "on a machine, shared with other work. D = 8" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("body", models.BODIES)
def test_whole_steps_train_every_body_and_have_the_products_of_its_head(body):
    options = {"body": body, "head_options": {"cutoffs": [6, 30]}}
    problem = Problem(60, units=32, streams=16, steps=8, text_words=40)
    case = cases.Case("x", "whole", "adaptive", options, measures=(cases.WHOLE,))
    program = models.whole(case, problem)
    step = program.functions[cases.WHOLE]
    first = step()
    assert [step() for _ in range(20)][-1] < first
    head, _ = programs.built_head(dataclasses.replace(case, options={"cutoffs": [6, 30]}), problem)
    of_head = products_of(head, problem.labels())
    assert program.products[-len(of_head):] == of_head
    assert (body == "bag of words") == (len(program.products) == len(of_head))


@pytest.mark.parametrize("body, more", [("LSTM", 4 * 32), ("Transformer", 0), ("bag of words", 0)])
def test_models_of_pytorch_have_the_parameters_of_ours(body, more):
    """But that PyTorch's LSTM has two biases."""
    pytest.importorskip("torch")
    from experiments.benchmarks import peers

    options = {"body": body, "head_options": {"cutoffs": [6, 30]}}
    problem = Problem(60, units=32, streams=16, steps=8, text_words=40)
    case = cases.Case("x", "whole", "adaptive", options, measures=(cases.WHOLE,))
    theirs = peers.pytorch_model(case, problem)
    step = theirs.functions[cases.WHOLE]
    first = step()
    assert [step() for _ in range(20)][-1] < first
    assert theirs.parameters == models.whole(case, problem).parameters + more


@pytest.mark.parametrize("head, columns", [("full", 60), ("sampled", 60)])
def test_an_evaluation_is_held_against_the_scores_of_all_words(head, columns, monkeypatch):
    import tensorflow as tf

    case = dataclasses.replace(case_of(head), measures=(cases.NATS,))
    program = programs.head(case, PROBLEM)
    assert program.products == [(21, 8, columns)] and not program.gradients
    layer, labels = programs.built_head(case, PROBLEM)[0], PROBLEM.labels()
    probabilities = layer.log_prob(PROBLEM.hidden(), labels)
    assert np.isfinite(program.functions[cases.NATS]()) and probabilities.shape == labels.shape
    computed, matmul = [], tf.matmul
    monkeypatch.setattr(tf, "matmul", lambda *a, **k: computed.append(0) or matmul(*a, **k))
    floor.matmuls(program.products, "float32", gradients=False)()
    assert len(computed) == 1


def test_the_rows_that_a_step_changes_are_counted_once(heads):
    labels = PROBLEM.labels()
    for name in ("tree", "class", "nary", "self_organised"):
        rows_changed, of_rows, units = moves_of(heads(name), labels)
        assert 0 < rows_changed <= of_rows and units == 8
    nodes = {edge // 2 for label in labels for edge in np.asarray(heads("tree").tree.paths())[label]
             if edge >= 0}
    assert moves_of(heads("tree"), labels) == (len(nodes), 59, 8)
    clusters = heads("self_organised").clusters
    words = sum(cluster in set(clusters[labels]) for cluster in clusters)
    assert moves_of(heads("self_organised"), labels) == (words, 60, 8)
    assert moves_of(heads("full"), labels) is None


def test_moves_gather_and_update_only_the_chosen_rows(monkeypatch):
    import tensorflow as tf

    made = []
    monkeypatch.setattr(tf, "Variable", lambda value, make=tf.Variable: made.append(make(value))
                        or made[-1])
    run_moves = floor.moved(3, 7, 2)
    run_moves()
    changed = (made[0].numpy() != 1).all(axis=1)
    assert changed.sum() == 3 and ((made[1].numpy() != 1).all(axis=1) == changed).all()


@pytest.mark.parametrize("head, by", [
    ("full", "head"), ("full", "operations"), ("adaptive", "head"), ("adaptive", "all"),
    ("tree", "head"), ("tree", "all"),
])
def test_the_likeliest_words_are_those_of_the_head(head, by, monkeypatch):
    made = []
    build = uses.built_head
    monkeypatch.setattr(uses, "built_head", lambda *given: made.append(build(*given)) or made[-1])
    case = cases.Case("x", "top_k", head, {"by": by}, measures=("top_k of 64, k = 10",))
    best = uses.top_k(case, PROBLEM).functions["top_k of 64, k = 10"]()
    ((layer, _),) = made
    hidden = PROBLEM.hidden() / PROBLEM.hidden().std()
    expected = layer.log_probs(hidden[:1])[0]
    if by == "operations":  # without biases and ln Z
        expected = hidden[0] @ layer.kernel.numpy().T
    assert best == pytest.approx(np.max(expected), rel=1e-5)
    shares = np.exp(layer.log_probs(hidden)).mean(0)
    assert np.corrcoef(shares, PROBLEM.counts())[0, 1] > 0.7  # frequent words are likely


def test_a_text_that_is_made_up_has_the_words_that_it_says(tmp_path):
    words = uses.written(tmp_path / "text", PROBLEM, 50)
    lines = (tmp_path / "text").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 50 and sum(len(line.split()) for line in lines) == words
    assert {word for line in lines for word in line.split()} <= set(PROBLEM.words())


@pytest.mark.slow
@pytest.mark.parametrize("head", ["prepare", "tokenizers", "sentencepiece", "train", "import"])
def test_commands_run_again_and_again(head):
    case = cases.Case("x", "command", head, {"sentences": 300}, measures=(cases.COMMAND,))
    program = uses.command(case, Problem(600))
    once = program.functions[cases.COMMAND]
    assert once() == once() == program.facts["words"] > 0

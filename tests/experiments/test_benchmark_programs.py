"""What the benchmarks run: floors counted by hand, and one command from end to end."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks import cases, floor, head_suites, programs, rows, run
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
    assert kept[0]["hardware"] and {"tensorflow", "tfsoftmax"} <= set(kept[0]["versions"])
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| 60 | Shortlist |" in text and "N = 21" in text
    done = {rows.key_of(row) for row in kept}
    some = [case for case in head_suites.heads(60) if case.name == "Shortlist"]
    assert run.missing(some, "heads", PROBLEM, "zipf", kept[0]["hardware"], done) == []
    assert run.missing(some, "heads", PROBLEM, "zipf", "another machine", done) == some


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

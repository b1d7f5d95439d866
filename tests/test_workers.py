"""Training by several workers and devices: what one process does, whoever ends, starts or dies."""

import json
import shutil
import signal

import numpy as np
import pytest

import command_server
import replicas_helper
from runs_helper import events
from tfsoftmax.runs.runs import Run
from workers_helper import changing_workers, check_a_killed_worker, largest_difference, trained

# The gradients are clipped in almost every step.
PLAIN = {
    "model": {"dropout": 0.0},
    "config": {"max_steps": 59, "clip_norm": 0.25, "decay": 1.0, "reassign_steps": 15},
}
TRANSFORMER = {
    "cell": "transformer", "layers": 2, "embedding_units": 8, "hidden_units": 8,
    "attention_heads": 2, "context": 9,
}
ADAPTIVE = {"head": "adaptive", "head_options": {"cutoffs": [9, 30], "projection_factor": 2}}


def by_one_process(corpus, folder, model=None):
    """The run of one process, in this one."""
    model = {**PLAIN["model"], **(model or {})}
    trained(corpus.directory, str(folder), model, PLAIN["config"])
    return Run(str(folder))


def assert_close_runs(run, other):
    assert largest_difference(run, other) < 1e-6
    assert_close_lines(run, other, "valid", ["step", "perplexity", "tokens"], 1e-7)


def assert_close_lines(run, other, event, keys, rtol):
    got, wanted = ([[m[k] for k in keys] for m in events(r, event)] for r in (run, other))
    np.testing.assert_allclose(got, wanted, rtol=rtol)


@pytest.mark.slow
def test_the_number_of_workers_may_change_and_a_signal_to_one_stops_all(corpus, tmp_path):
    """Two workers, then one process, then two; the second of the first two gets SIGTERM."""
    run = Run(str(tmp_path / "run"))
    changing_workers(corpus, run, lambda _: None, **PLAIN)
    assert_close_runs(run, by_one_process(corpus, tmp_path / "one"))


def test_a_killed_worker_ends_the_others_and_the_run_goes_on_bitwise(corpus, tmp_path):
    check_a_killed_worker(corpus, tmp_path, stop=[1, 8, signal.SIGKILL])


@pytest.mark.parametrize("model", [
    ADAPTIVE,
    pytest.param({}, marks=pytest.mark.slow),
    pytest.param({"head": "tree"}, marks=pytest.mark.slow),
    pytest.param({"head": "self_organised"}, marks=pytest.mark.slow),
    pytest.param({"head": "sampled", "head_options": {"num_samples": 8}}, marks=pytest.mark.slow),
    pytest.param({"layers": 2, "cell": "gru"}, marks=pytest.mark.slow),
    pytest.param(TRANSFORMER, marks=pytest.mark.slow),
], ids=str)
def test_two_devices_of_a_process_equal_one(model, corpus, tmp_path):
    model, run = {**PLAIN["model"], **model}, str(tmp_path / "run")
    replicas_helper.run(
        trained, devices=2, data=corpus.directory, run=run, model=model, config=PLAIN["config"]
    )
    alone = by_one_process(corpus, tmp_path / "one", model)
    assert_close_runs(Run(run), alone)
    assert_close_lines(Run(run), alone, "train", ["step", "loss"], 1e-6)


def printed(*arguments):
    """What a command prints with one process, and with two."""
    alone, both = (
        command_server.run([*arguments, *workers], seconds=120) for workers in ([], ["--workers=2"])
    )
    assert (alone.returncode, both.returncode) == (0, 0), alone.stderr + both.stderr
    return alone.stdout.splitlines(), both.stdout.splitlines()


def test_two_workers_evaluate_as_one_does(finished_run, tmp_path):
    run = shutil.copytree(finished_run.directory, tmp_path / "run")
    before = len(events(Run(str(run)), "test"))
    (alone,), (both,) = printed("evaluate", f"--run={run}", "--split=valid")
    alone, both = json.loads(alone), json.loads(both)
    assert both["tokens"] == alone["tokens"] and both["oov_tokens"] == alone["oov_tokens"]
    np.testing.assert_allclose(both["nats_per_token"], alone["nats_per_token"], rtol=1e-7)
    assert len(events(Run(str(run)), "test")) == before + 2


def text(words, folder):
    path = folder / "text"
    rng = np.random.default_rng(0)
    words = [word for word in words if word[0] != "<"]
    lines = [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(61)]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def test_two_workers_score_as_one_does(finished_run, tmp_path):
    path = text(finished_run.vocabulary().words, tmp_path)
    results = printed("score", f"--run={finished_run.directory}", f"--input={path}")
    alone, both = ([line.split("\t") for line in lines] for lines in results)
    assert [words for _, words in both] == [words for _, words in alone] and len(both) == 61
    np.testing.assert_allclose(
        [float(score) for score, _ in both], [float(score) for score, _ in alone], rtol=1e-6
    )


def scored_and_evaluated(run, data, sentences, number):
    """The scores of sentences, and what evaluation says, by devices of one process."""

    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.lm.evaluation import exact_evaluator
    from tfsoftmax.runs import runs, shared_scoring
    from tfsoftmax.sharding.workers import Workers

    workers = Workers(replicas_helper.strategy_here())
    model, vocabulary, _ = shared_scoring.load(workers, run, streams=4)
    scores = shared_scoring.SharedScorer(workers, model, vocabulary).sentences(sentences)
    corpus = Corpus.load(data)
    with workers.strategy.scope():
        model, _, _ = runs.load(run, corpus.streams // number, corpus.time_steps)
    result = exact_evaluator(model)(corpus, "valid")
    assert workers.replicas == number
    return np.concatenate(scores), result["nats_per_token"], result["tokens"]


@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_devices_of_a_process_score_and_evaluate_as_one_does(
    devices, finished_run, corpus, tmp_path
):
    lines = text(finished_run.vocabulary().words, tmp_path).read_text().splitlines()
    arguments = {"run": finished_run.directory, "data": corpus.directory,
                 "sentences": [line.split() for line in lines]}
    ((scores, nats, tokens),) = replicas_helper.run(
        scored_and_evaluated, devices=devices, number=devices, **arguments
    )
    wanted = scored_and_evaluated(number=1, **arguments)
    np.testing.assert_array_equal(scores, wanted[0])  # by batches of the same shape
    np.testing.assert_allclose(nats, wanted[1], rtol=1e-7)
    assert tokens == wanted[2]


@pytest.mark.slow
def test_two_workers_rescore_as_one_does(finished_run, tmp_path):
    lines = text(finished_run.vocabulary().words, tmp_path).read_text().splitlines()
    rows = [f"u{i // 4} {-i} {i % 3} {line}\n" for i, line in enumerate(lines)]
    (tmp_path / "nbest").write_text("".join(rows))
    alone, both = printed(
        "rescore", f"--run={finished_run.directory}", f"--nbest={tmp_path / 'nbest'}",
        "--lm_weight=3", f"--out={tmp_path / 'out'}", "--overwrite",
    )
    assert alone == both and len(both) == 16


def test_what_workers_cannot_share_is_refused(finished_run):
    done = command_server.run(["score", f"--run={finished_run.directory}", "--workers=2"])
    assert done.returncode == 1 and "be 1 for a stream, standard input" in done.stderr
    options = [f"--run={finished_run.directory}", "--strategy=mirrored", "--stream"]
    done = command_server.run(["score", *options])
    assert done.returncode == 1 and "be 1 for a stream, standard input" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["score", "rescore"])
def test_commands_take_all_devices_of_the_machine(command, finished_run, tmp_path):
    path = text(finished_run.vocabulary().words, tmp_path)
    rows = [f"u{i} -1 3 {line}\n" for i, line in enumerate(path.read_text().splitlines())]
    (tmp_path / "nbest").write_text("".join(rows))
    given = {"score": [f"--input={path}"], "rescore": [f"--nbest={tmp_path / 'nbest'}"]}[command]
    printed = [
        command_server.run([command, f"--run={finished_run.directory}", *given, *strategy])
        for strategy in ([], ["--strategy=mirrored"])
    ]
    assert [each.returncode for each in printed] == [0, 0]
    assert printed[0].stdout == printed[1].stdout

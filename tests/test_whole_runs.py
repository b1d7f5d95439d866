"""What a run holds is its own, whole and unchanged, or one sentence says which file is not."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from refusals import refused
from runs_helper import CONFIG, MODEL, events, tool, train
from tfsoftmax import SelfOrganisedSoftmax, language_model
from tfsoftmax.commands import tfprof
from tfsoftmax.lm.head_options import head_for
from tfsoftmax.runs import runs, training
from tfsoftmax.runs.checkpoints import Checkpoints
from tfsoftmax.runs.copies import keep_copies, with_copies

SEAL = {"run": "a", "model_sha256": "b"}
SHORT = dataclasses.replace(CONFIG, max_steps=2)


def checkpoints(directory, **seal):
    return Checkpoints(str(directory), lambda: {**SEAL, **seal})


def saved(directory, step=1, **seal):
    """Checkpoints, the last of which holds the step as its only variable too."""
    directory.mkdir(exist_ok=True)
    result = checkpoints(directory, **seal)
    if not (directory / "pointers.json").exists():
        result.begin()
    result.save({"x": [tf.Variable([float(step)] * 500)]}, {"step": step})
    return result


def restored(checkpoints):
    variable = tf.Variable([0.0] * 500)
    return checkpoints.restore({"x": [variable]}), variable.numpy()[0]


@pytest.fixture
def own_run(finished_run, tmp_path):
    return runs.Run(str(shutil.copytree(finished_run.directory, tmp_path / "run")))


def write_codes(path, words, shift=0):
    """Classes of words, which another shift makes others."""
    path.write_text("".join(f"{(i + shift) % 9 // 3}\t{w}\n" for i, w in enumerate(words)))


@pytest.fixture(scope="module")
def class_run(corpus, tmp_path_factory):
    """A run with a file of classes, which was named by a relative path."""
    folder = tmp_path_factory.mktemp("classes")
    write_codes(folder / "codes.txt", corpus.vocabulary.words)
    model = dataclasses.replace(MODEL, head="class", head_options={"classes": "codes.txt"})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train(corpus, folder / "run", model, SHORT)
    return runs.Run(str(folder / "run")), model, folder


def logits_of(run):
    return runs.load(run.directory, 1)[0](np.arange(20)[None]).numpy()


def test_a_run_reads_its_own_copy_of_a_file_from_anywhere(class_run, corpus, tmp_path, monkeypatch):
    run, model, folder = class_run
    before = logits_of(run)
    write_codes(folder / "codes.txt", corpus.vocabulary.words, shift=1)
    np.testing.assert_array_equal(logits_of(run), before)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(logits_of(run), before)
    profiled, _, _ = tfprof.of_run(run.directory)
    assert profiled == run.model_config()
    longer = dataclasses.replace(SHORT, max_steps=3)
    copy = shutil.copytree(run.directory, tmp_path / "copy")
    finished = train(corpus, copy, model, longer)
    assert finished["step"] == 3  # there is no codes.txt here, but the run has its copy
    write_codes(tmp_path / "codes.txt", corpus.vocabulary.words, shift=1)
    with pytest.raises(ValueError, match="a file for classes with the SHA-256 .* there, .* now"):
        train(corpus, copy, model, longer)
    moved = dataclasses.replace(model, head_options={"classes": str(tmp_path / "same.txt")})
    write_codes(tmp_path / "same.txt", corpus.vocabulary.words)
    assert train(corpus, copy, moved, longer) == finished


def test_a_copy_that_was_changed_is_named(class_run, corpus, tmp_path):
    copy = shutil.copytree(class_run[0].directory, tmp_path / "run")
    write_codes(copy / "files" / "classes.txt", corpus.vocabulary.words, shift=1)
    refused("files/classes.txt: must be as it was written", runs.load, str(copy), 1)
    (copy / "files" / "classes.txt").unlink()
    refused("classes.txt: must be .* Received: no such file", runs.load, str(copy), 1)


def test_a_run_keeps_its_own_copy_of_learnt_clusters(corpus, tmp_path):
    vocabulary, path = corpus.vocabulary, tmp_path / "clusters.txt"
    learnt = head_for(vocabulary, SelfOrganisedSoftmax, seed=3)
    learnt.build((None, 5))
    learnt.save_clusters(path, vocabulary.words)
    config = dataclasses.replace(MODEL, head="self_organised", head_options={"clusters": str(path)})
    files = keep_copies(str(tmp_path / "files"), config, SHORT, None)
    path.unlink()
    config = with_copies(config, str(tmp_path / "files"), files)
    head = language_model(config, vocabulary, 1).get_layer("head")
    np.testing.assert_array_equal(head.clusters, learnt.clusters)


def test_pretrained_vectors_are_in_the_run_before_its_first_step(corpus, tmp_path, monkeypatch):
    file = tmp_path / "vectors.txt"
    file.write_text("w7 " + " ".join("0.125" for _ in range(9)) + "\n")
    config = dataclasses.replace(SHORT, pretrained=str(file), optimizer="sgd", learning_rate=1e-9)

    def killed(self, end):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training.Trainer, "_train_part", killed)
        train(corpus, tmp_path / "run", config=config)
    file.unlink()
    train(corpus, tmp_path / "run", config=config)
    model, vocabulary, _ = runs.load(str(tmp_path / "run"), 1)
    embeddings = model.get_layer("embedding").get_weights()[0]
    np.testing.assert_allclose(embeddings[vocabulary.encode(["w7"])[0]], 0.125, rtol=1e-5)
    assert np.abs(embeddings).max() <= 0.125


def test_lost_pointers_are_refused_and_nothing_is_deleted(own_run, corpus):
    os.unlink(own_run.path("checkpoints", "pointers.json"))
    before = sorted(os.listdir(own_run.checkpoints.directory))
    refused("pointers.json: must be there", train, corpus, own_run.directory)
    assert sorted(os.listdir(own_run.checkpoints.directory)) == before


def test_only_checkpoints_of_the_run_are_deleted(tmp_path):
    folder, elsewhere = tmp_path / "checkpoints", tmp_path / "elsewhere"
    saved(elsewhere, 7, run="another")
    own = saved(folder, 1)
    shutil.copytree(elsewhere / "step-000000007", folder / "step-000000007")
    (folder / "step-notes").mkdir()
    os.symlink(elsewhere, folder / "step-000000005")
    first = folder / "step-000000001"
    shutil.copytree(first, folder / "step-000000001-mybackup")
    killed = shutil.copytree(first, folder / ".step-000000002.tfsoftmax.partial")
    saved(folder, 3)
    assert not killed.exists() and not os.path.exists(own.path("step-000000001"))
    others = {"step-000000007", "step-notes", "step-000000005", "step-000000001-mybackup"}
    assert others < set(os.listdir(folder))
    assert (elsewhere / "step-000000007").exists()
    refused("step-000000007: must not exist", saved, folder, 7)
    assert restored(own) == ({"step": 3}, 3.0)
    assert not list(folder.glob("*.partial"))


def test_what_was_deleted_or_written_in_part_is_recognised(tmp_path, monkeypatch):
    """Training was killed in the middle of writing or of deleting a checkpoint."""
    own = saved(tmp_path, 1)
    begun = tmp_path / ".step-000000002.tfsoftmax.partial"
    shutil.copytree(tmp_path / "step-000000001", tmp_path / "step-000000000")
    begun.mkdir()
    (begun / "manifest.json").write_text("{")
    foreign = tmp_path / ".step-000000003.partial"
    foreign.mkdir()
    (foreign / "notes").touch()
    unlink, deleted = os.unlink, []

    def killed(path, *arguments, **options):
        if deleted:
            raise KeyboardInterrupt
        deleted.append(unlink(path, *arguments, **options))

    while True:  # each start is killed after it has deleted a file
        deleted.clear()
        monkeypatch.setattr(os, "unlink", killed)
        try:
            own.prune()
            break
        except KeyboardInterrupt:
            monkeypatch.undo()
    names = [foreign.name, "pointers.json", "step-000000001"]
    assert sorted(os.listdir(tmp_path)) == names
    assert restored(own) == ({"step": 1}, 1.0)


def test_a_checkpoint_is_bound_to_its_progress_and_to_its_run(tmp_path):
    own, other = saved(tmp_path / "own", 120), saved(tmp_path / "other", 181, run="another")
    assert restored(own) == ({"step": 120}, 120.0)
    progress = tmp_path / "own/step-000000120/progress.json"
    content = progress.read_text()
    progress.write_text(content.replace("120", "160"))
    refused("progress.json: must be as it was written", restored, own)
    progress.write_text(content)
    for file in ("progress.json", "variables.index", "variables.data-00000-of-00001"):
        shutil.copy(other.path("step-000000181", file), tmp_path)
    shutil.rmtree(own.path("step-000000120"))
    shutil.copytree(other.path("step-000000181"), own.path("step-000000120"))
    refused("manifest.json: must be of this run, with run='a'", restored, own)
    with pytest.raises(ValueError, match="must be of this run, with model_sha256='c'"):
        restored(checkpoints(tmp_path / "other", run="another", model_sha256="c"))
    os.unlink(own.path("step-000000120", "manifest.json"))
    refused("manifest.json", restored, own)


def test_any_flipped_bit_of_a_checkpoint_is_found(tmp_path):
    own, rng = saved(tmp_path / "own", 1), np.random.default_rng(0)
    files = [own.path("pointers.json"), *(
        own.path("step-000000001", f) for f in os.listdir(own.path("step-000000001"))
    )]
    assert len(files) == 5
    for path in files:
        content = np.fromfile(path, np.uint8)
        for place in rng.choice(len(content), min(25, len(content)), replace=False):
            damaged = content.copy()
            damaged[place] ^= 1 << rng.integers(8)
            damaged.tofile(path)
            try:
                found = restored(own)
            except ValueError as error:
                assert own.directory in str(error)
            else:  # white space
                assert found == ({"step": 1}, 1.0)
        content.tofile(path)
    assert restored(own) == ({"step": 1}, 1.0)


def test_pointers_lead_nowhere_else(tmp_path):
    own = checkpoints(saved(tmp_path / "own", 1).directory)
    for name in (str(tmp_path / "other"), "../other", 3):
        own._point({"last": name})
        refused("pointers.json.*must (name|be a string)", own.name)


def test_a_reader_takes_the_newer_checkpoint_when_its_own_is_deleted(tmp_path, monkeypatch):
    own, read = saved(tmp_path / "own", 1), tf.train.Checkpoint.read

    def read_late(self, path):
        monkeypatch.undo()
        saved(tmp_path / "own", 2)
        return read(self, path)

    monkeypatch.setattr(tf.train.Checkpoint, "read", read_late)
    assert restored(own) == ({"step": 2}, 2.0)


def test_a_run_that_is_deleted_while_it_ends_is_named(corpus, tmp_path, monkeypatch):
    log = runs.Run.log

    def log_and_delete(self, **values):
        log(self, **values)
        if values["event"] == "finished":
            shutil.rmtree(self.directory)

    monkeypatch.setattr(runs.Run, "log", log_and_delete)
    run = str(tmp_path / "run")
    refused(f"{run}: must be there until training ends", train, corpus, run, config=SHORT)


def test_a_refused_second_trainer_changes_nothing(own_run, corpus):
    with open(own_run.path("config.json"), "rb") as file:
        before = file.read()
    with own_run.locked():
        refused("`run` must not be in training by another process",
                train, corpus, own_run.directory, epochs=9)
    with open(own_run.path("config.json"), "rb") as file:
        assert file.read() == before


def test_what_a_killed_writer_left_is_removed_and_nothing_else(own_run):
    left = [own_run.path(".config.json.0123456789abcdef.partial"),
            own_run.path("checkpoints", ".pointers.json.0123456789abcdef.partial")]
    foreign = own_run.path(".config.json.mine.partial")
    for path in (*left, foreign):
        with open(path, "w"):
            pass
    with own_run.locked():
        assert not any(map(os.path.exists, left)) and os.path.exists(foreign)


def test_training_writes_along_no_link(own_run, corpus, tmp_path):
    (tmp_path / "precious").write_text("mine")
    for name in ("metrics.jsonl", ".lock", "checkpoints", "tensorboard"):
        os.rename(own_run.path(name), tmp_path / "aside")
        os.symlink(tmp_path / "precious", own_run.path(name))
        refused(f"{name}: must not be a symbolic link", train, corpus, own_run.directory)
        os.unlink(own_run.path(name))
        os.rename(tmp_path / "aside", own_run.path(name))
    assert (tmp_path / "precious").read_text() == "mine"


def test_evaluate_prints_its_result_where_it_cannot_record_it(own_run, corpus):
    os.rename(own_run.path("metrics.jsonl"), own_run.path("aside"))
    os.symlink("aside", own_run.path("metrics.jsonl"))  # root may write to read-only files
    result = tool("evaluate", f"--run={own_run.directory}", "--split=valid")
    best = min(m["perplexity"] for m in events(own_run, "valid"))
    np.testing.assert_allclose(json.loads(result.stdout)["perplexity"], best, rtol=1e-5)
    assert "warning: the result is only printed, not recorded" in result.stderr
    assert "metrics.jsonl" in result.stderr

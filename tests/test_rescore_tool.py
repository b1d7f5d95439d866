"""`tfsoftmax rescore`."""

import importlib.util
import json
import os

import numpy as np
import pytest

from nbest_helper import archive, binary_float, integers, write
from runs_helper import error_of, tool
from tfsoftmax.commands import rescore
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import rescoring, transcripts
from tfsoftmax.nbest.rescoring import Weights
from tfsoftmax.nbest.word_errors import word_errors
from tfsoftmax.runs import runs

KENLM = importlib.util.find_spec("kenlm")


@pytest.fixture(scope="module")
def lists(finished_run, tmp_path_factory):
    """Files of lists, in which the sentence of the test split is never the first."""
    directory = tmp_path_factory.mktemp("lists")
    rng, words = np.random.default_rng(6), finished_run.vocabulary().words
    said = {f"utt-{i}": [words[w] for w in rng.integers(3, 9, 5)] for i in range(12)}
    lines = []
    for utterance, sentence in said.items():
        for rank in range(4):
            changed = list(sentence)
            if rank != 2:
                changed[rank] = words[rng.integers(3, 9)]
            lines.append(f"{utterance} {-rank} {-2 * rank} {' '.join(changed)}\n")
    (directory / "nbest").write_text("".join(lines))
    (directory / "said").write_text(transcripts.text(said, said.values()))
    return directory


def rescored(run, lists, *flags, **options):
    """The command that has rescored lists by a run."""
    return tool("rescore", f"--run={run.directory}", f"--nbest={lists}", *flags, **options)


def test_the_tool_rescores_keeps_ids_in_order_and_writes_trn(lists, finished_run, tmp_path):
    pytest.importorskip("jiwer")
    done = rescored(finished_run, lists / "nbest", f"--reference={lists / 'said'}",
                    "--lm_weight=2", "--old_lm_weight=0.5", f"--out={tmp_path / 'out'}")
    read = nbest.read(lists / "nbest")
    model, vocabulary, _ = runs.load(finished_run.directory, 8)
    lm = rescoring.lm_scores(Scorer(model, vocabulary), read.sentences)
    chosen = rescoring.choose(read, rescoring.features(read, lm), Weights(2.0, 0.5))
    expected = [read.sentences[i] for i in chosen]
    assert done.stdout == transcripts.text(read.utterances, expected)
    out = tmp_path / "out"
    assert (out / "hyp.trn").read_text() == transcripts.trn(read.utterances, expected)
    said = transcripts.read_transcripts(lists / "said")
    assert transcripts.read_transcripts(out / "ref.trn") == said
    results = json.loads((out / "results.json").read_text())
    errors = word_errors(list(said.values()), expected).sum(axis=0).tolist()
    assert list(results["systems"]["rescored"].values()) == errors
    assert sum(results["systems"]["oracle"].values()) == 0
    assert results["low"] <= results["difference"] <= results["high"]
    assert f"{lists / 'nbest'}: 48 hypotheses with the scores: acoustic, old_lm\n" in done.stderr
    assert "oracle       0.00%" in done.stderr and "points, 95 %" in done.stderr


def test_the_tool_carries_states_over_the_first_hypotheses(lists, finished_run):
    flags = "--state=carried", "--hypotheses=3", "--lm_weight=30"
    done = rescored(finished_run, lists / "nbest", *flags)
    read = rescoring.first_hypotheses(nbest.read(lists / "nbest"), 3)
    said = {}
    for state, streams in (("carried", 1), ("sentence", 128)):
        model, vocabulary, _ = runs.load(finished_run.directory, streams)
        lm = rescoring.lm_scores(Scorer(model, vocabulary), read.sentences, state)
        chosen = rescoring.choose(read, rescoring.features(read, lm), Weights(30.0))
        said[state] = transcripts.text(read.utterances, [read.sentences[i] for i in chosen])
    assert done.stdout == said["carried"] != said["sentence"]


def test_the_tool_carries_states_within_speakers_and_reads_standard_input(
    lists, finished_run, tmp_path
):
    text = (lists / "nbest").read_text()
    speakers = {f"utt-{i}": f"s{i % 5}" for i in range(12)}
    (tmp_path / "utt2spk").write_text("".join(f"{u} {s}\n" for u, s in speakers.items()))
    out = f"--out={tmp_path / 'out'}", "--overwrite"
    flags = "--state=speaker", "--lm_weight=30", *out
    read, model = nbest.read(lists / "nbest"), runs.load(finished_run.directory, 5)[:2]
    for extra, of in ((f"--utt2spk={tmp_path / 'utt2spk'}", speakers.get), (None, lambda u: "utt")):
        done = rescored(finished_run, "-", *flags, *filter(None, [extra]), input=text)
        names = [of(u) for u in read.utterances for _ in range(4)]
        lm = rescoring.lm_scores(Scorer(*model), read.sentences, "speaker", names)
        chosen = rescoring.choose(read, rescoring.features(read, lm), Weights(30.0))
        expected = [read.sentences[i] for i in chosen]
        assert done.stdout == transcripts.text(read.utterances, expected)
        assert f"{len(set(names))} speakers in 12 utterances" in done.stderr
        written = nbest.read(tmp_path / "out" / "nbest")
        assert written.sentences == read.sentences
        np.testing.assert_allclose(written.old_lm, lm, rtol=1e-5)
        np.testing.assert_allclose(written.acoustic, read.acoustic)
    (tmp_path / "out" / "results.json").write_text("mine")
    again = rescored(finished_run, "-", *flags[:-1], input=text, check=False)
    assert "must not replace a file" in again.stderr
    assert (tmp_path / "out" / "results.json").read_text() == "mine"


def test_the_tool_reads_jobs_of_binary_archives_and_keeps_kaldis_keys(
    lists, finished_run, tmp_path
):
    read, words = nbest.read(lists / "nbest"), finished_run.vocabulary().words
    (tmp_path / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(words, 1)))
    ids = {word: i for i, word in enumerate(words, 1)}
    for job, first in ((1, 0), (2, 24)):
        rows = list(read.rows())[first : first + 24]
        keys = [f"{row.utterance}-{i % 4 + 1}" for i, row in enumerate(rows)]
        said = {k: [ids[w] for w in row.words] for k, row in zip(keys, rows)}
        costs = {k: -row.acoustic for k, row in zip(keys, rows)}
        write(tmp_path / "lists", **{
            f"archives.{job}__words.ark": archive(said, integers),
            f"archives.{job}__acwt.ark": archive(costs, binary_float),
        })
    flags = f"--words={tmp_path / 'words.txt'}", f"--out={tmp_path / 'out'}"
    done = rescored(finished_run, tmp_path / "lists", *flags, "--lm_weight=2")
    assert done.stdout == rescored(finished_run, lists / "nbest", "--lm_weight=2").stdout
    model, vocabulary, _ = runs.load(finished_run.directory, 8)
    lm = rescoring.lm_scores(Scorer(model, vocabulary), read.sentences)
    out = nbest.read(tmp_path / "out" / "nbest")
    assert (out.sentences, out.rank.tolist()) == (read.sentences, [*"1234"] * 12)
    np.testing.assert_allclose(out.old_lm, lm, rtol=1e-5)
    np.testing.assert_allclose(out.acoustic, read.acoustic)


def test_the_tool_tunes_weights_and_compares_with_another_system(lists, finished_run, tmp_path):
    pytest.importorskip("jiwer")
    said = [f"--{name}={lists / 'said'}" for name in ("reference", "tune_reference", "against")]
    done = rescored(finished_run, lists / "nbest", f"--tune={lists / 'nbest'}", *said,
                    "--old_lm_weight=0,1", f"--out={tmp_path}")
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["tuning_errors"] == sum(results["systems"]["rescored"].values())
    assert results["lm_weight"] in rescoring.GRID["lm_weight"]
    assert (results["compared_with"], sum(results["systems"]["against"].values())) == ("against", 0)
    assert "rescored - against: " in done.stderr


def test_the_tool_takes_ids_in_upper_case_and_reports_unknown_words(lists, finished_run, tmp_path):
    ids = {word: str(i + 1) for i, word in enumerate(finished_run.vocabulary().words)}
    rows = [f"{word.upper()} {i}\n" for word, i in ids.items()]
    (tmp_path / "words.txt").write_text("<eps> 0\nforeign 999\n" + "".join(rows))
    read = nbest.read(lists / "nbest")
    said = [f"{u}-{i} 0 {' '.join(map(ids.get, words))} 999\n" for i, (u, words) in enumerate(
        zip(np.repeat(read.utterances, 4), read.sentences, strict=True)
    )]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "words_text").write_text("".join(said))
    flags = f"--words={tmp_path / 'words.txt'}", "--lowercase"
    done = rescored(finished_run, tmp_path / "lists", *flags)
    assert f"{tmp_path / 'lists'}: 48 of 288 words (16.67%) are not in the voc" in done.stderr
    assert {tuple(line.split()[1:-1]) for line in done.stdout.splitlines()} <= set(read.sentences)
    assert {line.split()[-1] for line in done.stdout.splitlines()} == {"foreign"}


def test_a_missing_package_is_named_before_anything_is_loaded(lists, tmp_path):
    (tmp_path / "jiwer.py").write_text("raise ModuleNotFoundError('no jiwer')")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    flags = f"--nbest={lists / 'nbest'}", f"--reference={lists / 'said'}"
    done = error_of("rescore", "--run=x", *flags, path=path)
    assert done == "error: the word error rate needs jiwer: pip install jiwer\n"


def test_the_oracle_may_leave_out_all_words_of_the_references(tmp_path):
    pytest.importorskip("jiwer")
    (tmp_path / "said.trn").write_text("{ a / @ } (u1)\n")
    (tmp_path / "lists").write_text("u1 -1 -1 b\nu1 -2 -2\n")
    said = transcripts.read_transcripts(tmp_path / "said.trn").values()
    found = rescoring.compare(nbest.read(tmp_path / "lists"), list(said), np.array([0]))
    assert found["system_words"]["oracle"] == 0
    assert "oracle       0.00%    0.00%" in rescore.table(found)


def test_what_would_fail_in_the_end_fails_before_the_model_is_loaded(lists, tmp_path):
    pytest.importorskip("jiwer")
    (tmp_path / "short").write_text("utt-1 x\n")
    (tmp_path / "silent").write_text("".join(f"utt-{i}\n" for i in range(12)))
    (tmp_path / "out" / "hyp.trn").mkdir(parents=True)
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "ref.trn").touch()
    for flag, message in (
        (f"--reference={tmp_path / 'short'}", "`reference` must have a line for each utterance"),
        (f"--reference={tmp_path / 'silent'}", "`reference` must have words. Received: reference="),
        (f"--out={tmp_path / 'out'}", "`out` cannot be used: Is a directory"),
        (f"--out={tmp_path / 'earlier'}", "`out` must be a directory without files of another"),
        (f"--arpa={tmp_path / 'none'}", "kenlm" if KENLM is None else "none"),
    ):
        flags = [flag, *["--arpa_weight=1"] * flag.startswith("--arpa")]
        done = error_of("rescore", "--run=x", f"--nbest={lists / 'nbest'}", *flags)
        assert done.startswith("error: ") and message in done
        assert done.count("\n") == 1


@pytest.mark.parametrize("name", ["nbest", "nbest.jsonl"])
def test_nothing_that_is_read_is_replaced(lists, tmp_path, name):
    path = tmp_path / name
    text = (lists / "nbest").read_text() if name == "nbest" else '{"id": 1, "nbest": ["x"]}\n'
    path.write_text(text)
    done = error_of("rescore", "--run=x", f"--nbest={path}", f"--out={tmp_path}")
    assert "`out` must be a directory in which nothing of `nbest` would be replaced" in done
    assert path.read_text() == text


def test_lists_to_tune_on_lack_no_score(lists, tmp_path):
    pytest.importorskip("jiwer")
    (tmp_path / "tune").write_text('{"id": "utt-1", "nbest": ["x"]}')
    flags = f"--tune={tmp_path / 'tune'}", f"--tune_reference={lists / 'said'}"
    done = error_of("rescore", "--run=x", f"--nbest={lists / 'nbest'}", *flags)
    assert done.startswith(
        "error: `tune` must have the scores that `nbest` has, acoustic, old_lm. Received: none")


@pytest.mark.parametrize("flags, message", [
    (["--lm_weight=1,2"], "`lm_weight` must be one number without --tune. Received: 1.0,2.0"),
    (["--word_penalty=x"], "`word_penalty` must be numbers"),
    (["--tune=x"], "`tune` must be given with --tune_reference only. Received: tune='x', "),
    (["--arpa_weight=1"], "`arpa_weight` must be given with --arpa only"),
    (["--arpa=x"], "`arpa_weight` must be given with `arpa`, or lists to tune it on with `tu"),
    (["--nbest=nowhere"], "nowhere"),
    (["--out=/dev/null"], "`out` cannot be used: File exists. Received: out='/dev/null'"),
    (["--utt2spk=x"], "`utt2spk` must be given with --state=speaker only. Received: utt2spk"),
    (["--state=speaker", "--utt2spk=nowhere"], "`utt2spk` cannot be used: No such file"),
    (["--tune=-", "--tune_reference=-"], "`tune_reference` must be a file where `tune` is st"),
    (["--words=-", "--workers=2"], "`words` must be a file, which several processes can re"),
    (["--words=/dev/null", "--workers=2"], "`words` must be a file, which several process"),
    (["--hypotheses=0"], "`hypotheses` must be at least 1. Received: hypotheses=0"),
])
def test_mistakes_end_in_one_sentence(lists, flags, message):
    done = error_of("rescore", "--run=x", f"--nbest={lists / 'nbest'}", *flags)
    assert done.startswith("error: ") and message in done


def test_keys_of_json_that_are_not_read_are_named_or_ignored(tmp_path):
    (tmp_path / "lists").write_text('{"id": "a", "nbest": [{"text": "x", "logit_score": -1}]}\n')
    flags = ["rescore", "--run=x", f"--nbest={tmp_path / 'lists'}"]
    done = error_of(*flags)
    assert "lists, line 1, hypothesis 1: numbers must be scores" in done
    assert "`ignore_keys` names others, which are not read. Received: 'logit_score'" in done
    done = error_of(*flags, "--ignore_keys=logit_score")
    assert done.startswith("error: `run` must be the directory of a training run")


def test_the_tool_reads_marks_pieces_and_alternatives_and_says_so(finished_run, tmp_path):
    pytest.importorskip("jiwer")
    (tmp_path / "lists").write_text("u -1 -2 <s> ▁w1 ▁w 2 </s>\nu -3 -1 ▁w1 ▁u h ▁w2\n")
    (tmp_path / "ref.trn").write_text("w1 { um / uh / @ } w2 (u)\n")
    flags = ["rescore", f"--run={finished_run.directory}", f"--nbest={tmp_path / 'lists'}",
             f"--reference={tmp_path / 'ref.trn'}", f"--out={tmp_path / 'out'}", "--lm_weight=0"]
    assert "lists, line 1: words must not be pieces" in error_of(*flags)
    done = tool(*flags, "--join_pieces")
    assert done.stdout == "u w1 w2\n"
    assert f"note: {tmp_path / 'lists'}: left out <s>, </s> at the ends of 1 sentence," in (
        done.stderr)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["system_words"]["rescored"] == 2
    assert sum(results["systems"]["rescored"].values()) == 0
    assert (tmp_path / "out" / "ref.trn").read_text() == "w1 { um / uh / @ } w2 (u)\n"
    done = error_of(*flags, "--join_pieces", f"--against={tmp_path / 'ref.trn'}")
    assert "ref.trn, line 1: must have no alternatives" in done
    (tmp_path / "lists").write_text("u -1 -2 {laugh} w1\n")
    assert error_of(*flags).startswith("error: `nbest` must have no words with {, and no @")


def test_the_tool_reads_lists_of_moses_and_of_nemo(finished_run, tmp_path):
    (tmp_path / "moses").write_text("0 ||| w1 w2 ||| LM0= -1 ||| -2\n0 ||| w2 ||| LM0= -1 ||| -1\n")
    (tmp_path / "nemo.tsv").write_text("w1 w2\t-2\nw2\t-1\n")
    for name, flags in (("moses", []), ("nemo.tsv", ["--beam_size=2"])):
        done = rescored(finished_run, tmp_path / name, "--lm_weight=0", *flags)
        assert done.stdout == "0 w2\n" and "2 hypotheses with the scores: acoustic" in done.stderr

"""Rescoring of n-best lists, word errors and their intervals, and `tfsoftmax rescore`."""

import dataclasses
import importlib.util
import itertools
import json
import math
import os

import numpy as np
import pytest

from runs_helper import tool
from test_nbest_formats import archive, binary_float, integers, write
from tfsoftmax.commands import rescore_inputs
from tfsoftmax.lm import runs
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import rescoring, transcripts
from tfsoftmax.nbest.rescoring import Weights
from tfsoftmax.nbest.word_errors import bootstrap, word_errors

KENLM = importlib.util.find_spec("kenlm")
ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.5
-0.7\t</s>
-0.3\tcat\t-0.2

\\2-grams:
-0.1\t<s> cat

\\end\\
"""


def random_lists(seed=0, utterances=9, words=("the", "cat", "sat", "on", "a", "mat")):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 6, utterances))])
    sentences = tuple(tuple(rng.choice(words, rng.integers(0, 6))) for _ in range(starts[-1]))
    names = tuple(f"u{i}" for i in range(utterances))
    scores = rng.normal(size=(2, starts[-1]), scale=3)
    return nbest.NBest(names, starts, sentences, *scores)


def edit_distance(reference, hypothesis):
    """Fewest substitutions, deletions and insertions, by the recursion."""
    table = np.zeros((len(reference) + 1, len(hypothesis) + 1), int)
    table[:, 0], table[0] = range(len(reference) + 1), range(len(hypothesis) + 1)
    for i, j in itertools.product(range(len(reference)), range(len(hypothesis))):
        table[i + 1, j + 1] = min(
            table[i, j + 1] + 1, table[i + 1, j] + 1,
            table[i, j] + (reference[i] != hypothesis[j]),
        )
    return table[-1, -1]


def test_word_errors_are_edit_distances_and_know_their_kinds():
    pytest.importorskip("jiwer")
    pairs = [("a b c", "a b c"), ("a b c", "a x c"), ("a b c", "a c"), ("a c", "a b c"),
             ("", "a b"), ("a b", ""), ("", "")]
    split = [[side.split() for side in pair] for pair in pairs]
    counts = word_errors(*zip(*split))
    np.testing.assert_array_equal(
        counts, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 2], [0, 2, 0], [0, 0, 0]]
    )
    lists = random_lists(utterances=40)
    references = random_lists(seed=1, utterances=40).sentences[:40]
    expected = [
        edit_distance(references[u], lists.sentences[i])
        for u in range(40) for i in range(*lists.starts[u : u + 2])
    ]
    np.testing.assert_array_equal(rescoring.hypothesis_errors(lists, references), expected)


def test_intervals_cover_the_difference_as_often_as_they_say():
    rng, inside = np.random.default_rng(2), 0
    for trial in range(200):
        words = rng.integers(1, 30, 150)
        hard = rng.poisson(0.1 * words)  # what is hard for both systems
        errors, other = hard + rng.poisson(0.05 * words), hard + rng.poisson(0.08 * words)
        result = bootstrap(errors, other, words, resamples=400, seed=trial)
        inside += result.low <= -0.03 <= result.high
    assert 0.89 <= inside / 200 <= 0.99


def test_the_bootstrap_is_seeded_and_paired():
    rng = np.random.default_rng(0)
    words, errors = rng.integers(1, 30, 50), rng.integers(0, 9, 50)
    other = rng.integers(0, 9, 50)
    first = bootstrap(errors, other, words)
    assert first == bootstrap(errors, other, words) != bootstrap(errors, other, words, seed=2)
    assert first.difference == pytest.approx((errors.sum() - other.sum()) / words.sum())
    assert first.low < first.difference < first.high
    same = bootstrap(errors, errors, words)
    assert (same.low, same.high, same.better) == (0, 0, 0.5)
    assert bootstrap(errors, errors + 1, words).better == 1
    with pytest.raises(ValueError, match="`words` must not all be zero"):
        bootstrap([1], [0], [0])


def test_the_weighted_sum_of_scores_decides():
    lists = random_lists()
    rng = np.random.default_rng(3)
    lm, arpa = rng.normal(size=(2, len(lists.sentences)))
    weights = Weights(1.7, 0.6, 0.4, 0.3)
    scores = rescoring.features(lists, lm, arpa)
    chosen = rescoring.choose(lists, scores, weights)
    for u, index in enumerate(chosen):
        totals = [
            lists.acoustic[i] + 1.7 * lm[i] + 0.6 * lists.old_lm[i] + 0.4 * arpa[i]
            - 0.3 * len(lists.sentences[i])
            for i in range(*lists.starts[u : u + 2])
        ]
        assert index == lists.starts[u] + np.argmax(totals)


def test_graph_scores_have_the_weight_of_each_language_model():
    lists = random_lists()
    rng = np.random.default_rng(3)
    lm, arpa, graph = rng.normal(size=(3, len(lists.sentences)))
    plain = rescoring.features(lists, lm, arpa)
    scores = rescoring.features(dataclasses.replace(lists, graph=graph), lm, arpa)
    np.testing.assert_allclose(scores - plain, graph[:, None] * [0, 1, 1, 1, 0], atol=1e-12)


@pytest.mark.parametrize("cells", [1, 1 << 22])
def test_tuning_finds_the_weights_with_the_fewest_errors(cells, monkeypatch):
    monkeypatch.setattr(rescoring, "CELLS", cells)
    lists, rng = random_lists(), np.random.default_rng(4)
    scores = rescoring.features(lists, rng.normal(size=len(lists.sentences)))
    errors = rng.integers(0, 5, len(lists.sentences))
    grid = {"lm_weight": (0, 1, 4), "old_lm_weight": (0, 2), "arpa_weight": (0,),
            "word_penalty": (-1, 0, 1)}
    weights, fewest = rescoring.tune(lists, scores, errors, grid)
    by_hand = {
        values: errors[rescoring.choose(lists, scores, Weights(*values))].sum()
        for values in itertools.product(*grid.values())
    }
    assert fewest == min(by_hand.values())
    assert by_hand[dataclasses.astuple(weights)] == fewest


def test_of_equal_weights_those_nearest_to_the_defaults_are_taken():
    lists = random_lists()
    scores, errors = np.zeros((len(lists.sentences), 5)), np.ones(len(lists.sentences), int)
    weights, _ = rescoring.tune(lists, scores, errors, rescoring.GRID)
    assert weights == Weights()


def test_the_first_hypotheses_of_each_utterance_are_kept_with_their_scores():
    lists = random_lists()
    lists = dataclasses.replace(lists, graph=np.arange(len(lists.sentences)))
    for count in (1, 2, 99):
        kept = [
            i for u in range(len(lists.utterances))
            for i in range(*lists.starts[u : u + 2]) if i < lists.starts[u] + count
        ]
        first = rescoring.first_hypotheses(lists, count)
        assert first.sentences == tuple(lists.sentences[i] for i in kept)
        np.testing.assert_array_equal(first.graph, kept)
        np.testing.assert_array_equal(first.acoustic, lists.acoustic[kept])
        assert first.best(-first.acoustic[:, None]).shape == (len(lists.utterances), 1)
    assert rescoring.first_hypotheses(dataclasses.replace(lists, old_lm=None), 1).old_lm is None
    with pytest.raises(ValueError, match="`count` must lie .*Received: count=0"):
        rescoring.first_hypotheses(lists, 0)


def test_carried_states_make_one_text_of_the_hypotheses(finished_run):
    sentences = random_lists(words=finished_run.vocabulary().words[3:9]).sentences
    model, vocabulary, _ = runs.load(finished_run.directory, 1)
    scorer = Scorer(model, vocabulary)
    scorer.stream([("w1", "w2")])  # what was read before does not matter
    carried = rescoring.lm_scores(scorer, sentences, "carried")
    apart = rescoring.lm_scores(scorer, sentences)
    text = [scorer.stream([words])[0].sum() for words in sentences]
    np.testing.assert_allclose(carried, text, rtol=1e-5)
    np.testing.assert_allclose(carried[0], apart[0], rtol=1e-5)
    assert np.abs(carried[1:] - apart[1:]).min() > 1e-3
    with pytest.raises(ValueError, match="`state` must be one of .*Received: state='kept'"):
        rescoring.lm_scores(scorer, sentences, "kept")


def test_the_hypotheses_of_a_speaker_are_one_text(finished_run):
    sentences = random_lists(words=finished_run.vocabulary().words[3:9]).sentences
    speakers = [("a", "b", "c")[i % 3] for i in range(len(sentences) - 1)] + ["d"]
    model, vocabulary, _ = runs.load(finished_run.directory, 2)  # fewer streams than speakers
    scores = rescoring.lm_scores(Scorer(model, vocabulary), sentences, "speaker", speakers)
    scorer = Scorer(*runs.load(finished_run.directory, 1)[:2])
    for speaker in "abcd":
        of_speaker = [i for i, name in enumerate(speakers) if name == speaker]
        alone = rescoring.lm_scores(scorer, [sentences[i] for i in of_speaker], "carried")
        np.testing.assert_allclose(scores[of_speaker], alone, rtol=1e-5)
    one = rescoring.lm_scores(scorer, sentences, "speaker", ["x"] * len(sentences))
    np.testing.assert_allclose(one, rescoring.lm_scores(scorer, sentences, "carried"), rtol=1e-5)
    with pytest.raises(ValueError, match="`speakers` must name one for each of .*Received: None"):
        rescoring.lm_scores(scorer, sentences, "speaker")


def test_speakers_who_say_as_much_are_read_side_by_side():
    class Scorer:
        def texts(self, texts):
            for text in texts:
                given.append(sum(len(words) + 1 for words in text))
                yield [np.full(len(words) + 1, len(given)) for words in text]

    given, done, sentences = [], [], [("a",) * n for n in (1, 1, 9, 0, 2, 1)]
    scores = rescoring.lm_scores(Scorer(), sentences, "speaker", [*"xxyzzx"], done.append)
    assert (given, done) == ([10, 6, 4], [1, 3, 2])
    assert scores.tolist() == [2 * 2, 2 * 2, 10, 3, 3 * 3, 2 * 2]


def test_the_oracle_is_the_least_wrong_of_each_list():
    lists = random_lists()
    errors = np.random.default_rng(5).integers(0, 5, len(lists.sentences))
    for u, index in enumerate(rescoring.oracle(lists, errors)):
        of_list = errors[slice(*lists.starts[u : u + 2])]
        assert errors[index] == of_list.min() and lists.starts[u] <= index < lists.starts[u + 1]


def test_arpa_scores_are_natural_logarithms_of_the_whole_sentence(tmp_path):
    pytest.importorskip("kenlm")
    (tmp_path / "arpa").write_text(ARPA)
    # <s> cat, cat backs off to </s>; <s> backs off to <unk>, then </s>.
    expected = math.log(10) * np.array([-0.1 - 0.2 - 0.7, -0.5 - 1.0 - 0.7])
    scores = rescoring.arpa_scorer(tmp_path / "arpa")([("cat",), ("dog",)])
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kenlm", None)
    monkeypatch.setitem(__import__("sys").modules, "jiwer", None)
    with pytest.raises(RuntimeError, match=r"needs kenlm: pip install 'tfsoftmax\[arpa\]'"):
        rescoring.arpa_scorer("x")
    with pytest.raises(RuntimeError, match=r"need jiwer: pip install 'tfsoftmax\[wer\]'"):
        word_errors([["a"]], [["a"]])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Weights)])
def test_weights_are_finite(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be finite. Received: {name}={value}"):
        Weights(**{name: value})


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


def test_the_tool_rescores_keeps_ids_in_order_and_writes_trn(lists, finished_run, tmp_path):
    pytest.importorskip("jiwer")
    done = tool(
        "rescore", f"--run={finished_run.directory}", f"--nbest={lists / 'nbest'}",
        f"--reference={lists / 'said'}", "--lm_weight=2", "--old_lm_weight=0.5",
        f"--out={tmp_path / 'out'}",
    )
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
    done = tool(
        "rescore", f"--run={finished_run.directory}", f"--nbest={lists / 'nbest'}",
        "--state=carried", "--hypotheses=3", "--lm_weight=30",
    )
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
    flags = "--state=speaker", "--nbest=-", "--lm_weight=30", f"--out={tmp_path / 'out'}"
    read, model = nbest.read(lists / "nbest"), runs.load(finished_run.directory, 5)[:2]
    for extra, of in ((f"--utt2spk={tmp_path / 'utt2spk'}", speakers.get), (None, lambda u: "utt")):
        done = tool(
            "rescore", f"--run={finished_run.directory}", *flags, *filter(None, [extra]),
            input=text,
        )
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
    flags = f"--nbest={tmp_path / 'lists'}", f"--words={tmp_path / 'words.txt'}"
    done = tool(
        "rescore", f"--run={finished_run.directory}", *flags, "--lm_weight=2",
        f"--out={tmp_path / 'out'}",
    )
    plain = tool(
        "rescore", f"--run={finished_run.directory}", f"--nbest={lists / 'nbest'}", "--lm_weight=2"
    )
    assert done.stdout == plain.stdout
    model, vocabulary, _ = runs.load(finished_run.directory, 8)
    lm = rescoring.lm_scores(Scorer(model, vocabulary), read.sentences)
    out = nbest.read(tmp_path / "out" / "nbest")
    assert (out.sentences, out.rank.tolist()) == (read.sentences, [*"1234"] * 12)
    np.testing.assert_allclose(out.old_lm, lm, rtol=1e-5)
    np.testing.assert_allclose(out.acoustic, read.acoustic)


def test_the_tool_tunes_weights_and_compares_with_another_system(lists, finished_run, tmp_path):
    pytest.importorskip("jiwer")
    done = tool(
        "rescore", f"--run={finished_run.directory}", f"--nbest={lists / 'nbest'}",
        f"--reference={lists / 'said'}", f"--tune={lists / 'nbest'}", "--old_lm_weight=0,1",
        f"--tune_reference={lists / 'said'}", f"--against={lists / 'said'}", f"--out={tmp_path}",
    )
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["tuning_errors"] == sum(results["systems"]["rescored"].values())
    assert results["lm_weight"] in rescoring.GRID["lm_weight"]
    assert (results["compared_with"], sum(results["systems"]["against"].values())) == ("against", 0)
    assert "rescored - against: " in done.stderr


def test_the_tool_takes_ids_in_upper_case_and_reports_unknown_words(
    lists, finished_run, tmp_path
):
    ids = {word: str(i + 1) for i, word in enumerate(finished_run.vocabulary().words)}
    rows = [f"{word.upper()} {i}\n" for word, i in ids.items()]
    (tmp_path / "words.txt").write_text("<eps> 0\nforeign 999\n" + "".join(rows))
    read = nbest.read(lists / "nbest")
    said = [f"{u}-{i} 0 {' '.join(map(ids.get, words))} 999\n" for i, (u, words) in enumerate(
        zip(np.repeat(read.utterances, 4), read.sentences, strict=True)
    )]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "words_text").write_text("".join(said))
    flags = f"--nbest={tmp_path / 'lists'}", f"--words={tmp_path / 'words.txt'}", "--lowercase"
    done = tool("rescore", f"--run={finished_run.directory}", *flags)
    assert f"{tmp_path / 'lists'}: 48 of 288 words (16.67%) are not in the voc" in done.stderr
    assert {tuple(line.split()[1:-1]) for line in done.stdout.splitlines()} <= set(read.sentences)
    assert {line.split()[-1] for line in done.stdout.splitlines()} == {"foreign"}


def test_a_missing_package_is_named_before_anything_is_loaded(lists, tmp_path):
    (tmp_path / "jiwer.py").write_text("raise ModuleNotFoundError('no jiwer')")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = tool("rescore", "--run=x", f"--nbest={lists / 'nbest'}", f"--reference={lists / 'said'}",
                check=False, path=path)
    assert done.stderr == "error: word error rates need jiwer: pip install 'tfsoftmax[wer]'\n"


def test_what_would_fail_in_the_end_fails_before_the_model_is_loaded(lists, tmp_path):
    pytest.importorskip("jiwer")
    (tmp_path / "short").write_text("utt-1 x\n")
    (tmp_path / "silent").write_text("".join(f"utt-{i}\n" for i in range(12)))
    (tmp_path / "out" / "hyp.trn").mkdir(parents=True)
    for flag, message in (
        (f"--reference={tmp_path / 'short'}", "`reference` must have a line for each utterance"),
        (f"--reference={tmp_path / 'silent'}", "`reference` must have words. Received: reference="),
        (f"--out={tmp_path / 'out'}", "`out` cannot be used: Is a directory"),
        (f"--arpa={tmp_path / 'none'}", "kenlm" if KENLM is None else "none"),
    ):
        done = tool("rescore", "--run=x", f"--nbest={lists / 'nbest'}", flag, check=False)
        assert done.stderr.startswith("error: ") and message in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name, value", [("acoustic", "none"), ("graph", "acoustic, graph, old_lm"),
                                         ("old_lm", "acoustic")])
def test_weights_are_not_tuned_with_other_scores(name, value):
    lists, grid = random_lists(), {"old_lm_weight": (0.0, 1.0)}
    if name == "acoustic":
        lists = dataclasses.replace(lists, old_lm=None)
    other = None if getattr(lists, name) is not None else np.zeros(len(lists.sentences))
    tuning = dataclasses.replace(lists, **{name: other})
    advice = r" \(or --old_lm_weight=0\)" if name == "old_lm" else ""
    message = f"`tune` must have the scores that `nbest` has, .*{advice}. Received: {value}$"
    with pytest.raises(ValueError, match=message):
        rescore_inputs.check_scores(lists, tuning, grid)
    grid["old_lm_weight"] = (0.0,)
    if name == "old_lm":
        rescore_inputs.check_scores(lists, tuning, grid)
    else:
        with pytest.raises(ValueError, match="`tune` must have the scores that `nbest` has"):
            rescore_inputs.check_scores(lists, tuning, grid)


def test_lists_to_tune_on_lack_no_score(lists, tmp_path):
    pytest.importorskip("jiwer")
    (tmp_path / "tune").write_text('{"id": "utt-1", "nbest": ["x"]}')
    done = tool("rescore", "--run=x", f"--nbest={lists / 'nbest'}", f"--tune={tmp_path / 'tune'}",
                f"--tune_reference={lists / 'said'}", check=False)
    assert done.stderr.startswith(
        "error: `tune` must have the scores that `nbest` has, acoustic, old_lm. Received: none")


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--lm_weight=1,2"], "`lm_weight` must be one number without --tune. Received: 1,2"),
        (["--word_penalty=x"], "`word_penalty` must be numbers. Received: x"),
        (["--tune=x"], "`tune_reference` must be given with `tune`. Received: none"),
        (["--arpa_weight=1"], "`arpa` must be given with `arpa_weight`. Received: none"),
        (["--nbest=nowhere"], "nowhere"),
        (["--out=/dev/null"], "`out` cannot be used: File exists. Received: out='/dev/null'"),
        (["--utt2spk=x"], "`utt2spk` must be given with --state=speaker. Received: state='sent"),
        (["--state=speaker", "--utt2spk=nowhere"], "`utt2spk` cannot be used: No such file"),
        (["--tune=-", "--tune_reference=-"], "`tune_reference` must be a file where `tune` is st"),
        (["--words=-", "--workers=2"], "`words` must be a file, which several processes can re"),
        (["--hypotheses=0"], "`hypotheses` must be at least 1. Received: hypotheses=0"),
    ],
)
def test_mistakes_end_in_one_sentence(lists, flags, message):
    done = tool("rescore", "--run=x", f"--nbest={lists / 'nbest'}", *flags, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and message in done.stderr
    assert "Traceback" not in done.stderr

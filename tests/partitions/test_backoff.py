"""Bigram models with backoff: their equations, their sums, ARPA files, and configurations."""

import dataclasses
import json

import numpy as np
import pytest

from refusals import refused
from tfsoftmax.ngrams.backoff import BackoffBigrams
from tfsoftmax.ngrams.counts import Bigrams

V = 11
WORDS = ("the", "<unk>", "cat", "<eos>", "sat")
ARPA = """
\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-99\t<s>\t-0.3
-0.5\t</s>
-0.6\tthe\t-0.4
-0.9\tcat\t-0.1
-1.2\tfelix\t-0.2
-1.0\t<unk>

\\2-grams:
-0.2\t<s> the
-0.4\tthe cat
-0.5\tcat </s>
-0.1\tfelix the

\\end\\
"""


def text(length=400, seed=0):
    """Words that each depend on the one before; word 10 is never seen."""
    rng = np.random.default_rng(seed)
    words = [0]
    for _ in range(length):
        words.append(int((2 * words[-1] + rng.integers(3)) % 10))
    return np.array(words)


def counted(discount=0.75):
    words = text()
    bigrams = Bigrams.count([(words[:-1], words[1:])], V)
    return BackoffBigrams.from_counts(bigrams, np.bincount(words, minlength=V), discount)


def table(model):
    """P(w | v) of all pairs, (V, V)."""
    size = model.vocab_size
    return np.exp(model.log_prob(np.arange(size)[:, None], np.arange(size)))


@pytest.mark.parametrize("discount", [0.3, 1.0])
def test_probabilities_equal_the_equation(discount):
    words, found = text(), table(counted(discount))
    pairs = list(zip(words[:-1].tolist(), words[1:].tolist()))
    counts = [words.tolist().count(w) for w in range(V)]
    assert counts[-1] == 0 < min(counts[:-1])
    counts[-1] = min(counts[:-1])
    for v in range(V):
        total, kinds = sum(a == v for a, _ in pairs), len({b for a, b in pairs if a == v})
        for w in range(V):
            expected = counts[w] / sum(counts)
            if total:
                seen = max(pairs.count((v, w)) - discount, 0)
                expected = (seen + discount * kinds * expected) / total
            np.testing.assert_allclose(found[v, w], expected, rtol=1e-10)


def test_the_mass_of_some_words_is_their_sum():
    model, chosen = counted(), np.arange(V) % 3 == 1
    np.testing.assert_allclose(np.exp(model.log_mass(chosen)), table(model)[:, chosen].sum(1))
    np.testing.assert_allclose(model.log_mass(np.ones(V, bool)), 0, atol=1e-12)


def test_an_arpa_file_is_read_for_the_words_of_the_vocabulary(tmp_path):
    (tmp_path / "arpa").write_text(ARPA)
    found = table(BackoffBigrams.read_arpa(tmp_path / "arpa", WORDS))
    log_u = {"the": -0.6, "<unk>": -1.0, "cat": -0.9, "<eos>": -0.5, "sat": -1.0}  # the rarest
    backoff = {"<eos>": -0.3, "the": -0.4, "cat": -0.1}
    seen = {("<eos>", "the"): -0.2, ("the", "cat"): -0.4, ("cat", "<eos>"): -0.5}
    for i, v in enumerate(WORDS):
        expected = [10 ** seen.get((v, w), backoff.get(v, 0.0) + log_u[w]) for w in WORDS]
        np.testing.assert_allclose(found[i], np.array(expected) / sum(expected), rtol=1e-10)


def of_unknown_words(unknown):
    """An ARPA file with bigrams of unknown words."""
    bigrams = f"-0.7\tthe {unknown}\n-0.3\t{unknown} cat\n"
    arpa = ARPA.replace("<unk>", f"{unknown}\t-0.6").replace("ngram 2=4", "ngram 2=6")
    return arpa.replace("-0.1\tfelix the\n", f"-0.1\tfelix the\n{bigrams}")


def test_an_arpa_file_may_spell_unknown_words_in_capitals(tmp_path):
    found = []
    for unknown in ("<unk>", "<UNK>"):
        (tmp_path / "arpa").write_text(of_unknown_words(unknown))
        found.append(table(BackoffBigrams.read_arpa(tmp_path / "arpa", WORDS)))
    np.testing.assert_array_equal(*found)
    of_the = np.array([10**-1.0, 10**-0.7, 10**-0.4, 10**-0.9, 10**-1.4])
    assert found[0][0, 1] == pytest.approx(10**-0.7 / of_the.sum(), rel=1e-10)


@pytest.mark.parametrize("unknown", ["<unk>", "<UNK>"])
def test_an_arpa_file_says_what_kenlm_says_up_to_the_sum(tmp_path, unknown):
    kenlm = pytest.importorskip("kenlm")
    (tmp_path / "arpa").write_text(of_unknown_words(unknown))
    found, theirs = BackoffBigrams.read_arpa(tmp_path / "arpa", WORDS), np.zeros((5, 5))
    model = kenlm.Model(str(tmp_path / "arpa"))
    for i, v in enumerate(WORDS):
        before, after = kenlm.State(), kenlm.State()
        model.BeginSentenceWrite(before)
        if v != "<eos>":
            model.NullContextWrite(before)
            model.BaseScore(before, v, after)
            before = after
        for j, w in enumerate(WORDS):
            word = "</s>" if w == "<eos>" else w
            theirs[i, j] = model.BaseScore(before, word, kenlm.State())
    differences = np.log(10.0**theirs) - found.log_prob(np.arange(5)[:, None], np.arange(5))
    known = differences[:4, :4]  # the file says nothing of "sat"
    np.testing.assert_allclose(known - known[:, :1], 0, atol=1e-5)


def test_an_arpa_file_that_is_written_reads_as_the_same_model(tmp_path):
    model, words = counted(), [f"w{i}" for i in range(V - 1)]
    words.insert(4, "<eos>")
    model.write_arpa(tmp_path / "arpa", words)
    again = BackoffBigrams.read_arpa(tmp_path / "arpa", words)
    np.testing.assert_allclose(table(again), table(model), rtol=1e-5)
    tags = [line.split() for line in (tmp_path / "arpa").read_text().splitlines() if "s>" in line]
    assert ["-99", "<s>", f"{model.log_backoff[4] / np.log(10):.6f}"] in tags
    assert not any(fields[-1] == "<s>" or fields[1:-1] == ["</s>"] for fields in tags)


@pytest.mark.parametrize("mark", ["<s>", "</s>", "<UNK>"])
def test_words_that_mean_something_else_in_arpa_files_are_refused(mark, tmp_path):
    model, words = counted(), [mark, "<eos>", *"abcdefghi"]
    with pytest.raises(ValueError, match=f"`words` must not hold <s>, </s> or .*Received: {mark}"):
        model.write_arpa(tmp_path / "arpa", words)
    (tmp_path / "arpa").write_text(ARPA)
    with pytest.raises(ValueError, match=f"`words` must not hold <s>, </s> or .*Received: {mark}"):
        BackoffBigrams.read_arpa(tmp_path / "arpa", words)


@pytest.mark.parametrize("words", [["<eos>"], ["w"] * V])
def test_an_arpa_file_needs_the_vocabulary(words, tmp_path):
    with pytest.raises(ValueError, match="`words` must be 11 words with <eos> among them"):
        counted().write_arpa(tmp_path / "arpa", words)


def test_configurations_survive_json():
    some = counted(), BackoffBigrams.from_counts(Bigrams.count([([0], [0])], 3), [3, 2, 1])
    for model in some:
        model.log_prob(0, 0)  # remembers its keys, which the configuration does not need
        assert "keys" not in model.to_config()
        again = BackoffBigrams.from_config(json.loads(json.dumps(model.to_config())))
        np.testing.assert_array_equal(table(again), table(model))


def test_words_without_successors_have_the_unigram():
    model = BackoffBigrams.from_counts(Bigrams.count([([0], [1])], 3), [5, 3, 2])
    np.testing.assert_allclose(table(model)[1], [0.5, 0.3, 0.2])


@pytest.mark.parametrize("content, message", [
    (ARPA.replace("\\2-grams:", "\\3-grams:"), r"line 14: must be a section .*3-grams"),
    (ARPA.replace("-0.4\tthe cat", "-0.4\tthe"), "line 16: must be a 2-gram. Received"),
    (ARPA.replace("-0.9\tcat", "x\tcat"), "line 10: must have a finite number. Received: 'x'"),
    ("", "must have words of the vocabulary. Received: none"),
])
def test_damaged_files_are_named(content, message, tmp_path):
    (tmp_path / "arpa").write_text(content)
    refused(f"arpa.*{message}", BackoffBigrams.read_arpa, tmp_path / "arpa", WORDS)


def test_a_bad_discount_is_named():
    refused(r"`discount` must lie in \(0, 1\]. Received: discount=0", counted, discount=0)



@pytest.mark.parametrize("change, message", [
    ({"log_backoff": np.full(V, np.nan)}, "`log_backoff` must be 11 finite numbers"),
    ({"log_unigram": np.array(["a"] * V)}, "`log_unigram` must be 11 finite numbers"),
    ({"log_seen": np.zeros(3)}, "`log_seen` must be .* finite numbers"),
    ({"starts": np.array([3, 0])}, "`starts` must be 12 numbers that rise from 0"),
    ({"starts": np.arange(V + 1)[::-1]}, "`starts` must be 12 numbers that rise from 0"),
    ({"starts": np.arange(V + 1)}, "`starts` must be 12 numbers that rise from 0 to"),
    ({"words": -1}, r"`words` must lie in \[0, 11\)"),
])
def test_arrays_that_do_not_fit_are_named(change, message):
    model = counted()
    change = {k: v if k != "words" else np.full_like(model.words, v) for k, v in change.items()}
    refused(message, dataclasses.replace, model, **change)

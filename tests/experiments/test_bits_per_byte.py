"""Facts about bits per byte of words and pieces."""

import dataclasses
import json
import math

import pytest

from experiments.measurements import bits_per_byte
from experiments.measurements.bits_per_byte import END, Speller, row
from experiments.tables import pieces
from tfsoftmax.support.vocabulary import Vocabulary


def test_probabilities_of_the_speller_sum_to_one():
    speller = Speller({"abab": 3, "abc": 1, "été": 2})
    for context in ([], list(b"ab"), list(b"zz"), list(b"baba"), list("é".encode())):
        total = sum(speller.probability(context, symbol) for symbol in range(257))
        assert total == pytest.approx(1)


def test_the_speller_is_witten_and_bells():
    speller = Speller({"a": 3, "b": 1})
    # Order one: a and b and two ends of 8 symbols; three kinds. Order two: after a only the end.
    uniform = 1 / 257
    first = {s: (n + 3 * uniform) / (8 + 3) for s, n in ((ord("a"), 3), (ord("b"), 1), (END, 4))}
    after_a = (3 + 1 * first[END]) / (3 + 1)
    assert speller.probability([], ord("a")) == pytest.approx(first[ord("a")])
    assert speller.bits("a") == pytest.approx(-math.log2(first[ord("a")] * after_a))
    assert speller.bits("a") < speller.bits("b") < speller.bits("zz")


def finished_run(folder, name, words, split, **result):
    """The folder of a run that has ended, with a line of its evaluation."""
    (run,) = [run for run in pieces.RUNS if run.name == f"{name}-seed1"]
    (folder / run.name).mkdir()
    model, training = map(dataclasses.asdict, run.configs())
    config = {"model": model, "training": training,
              "corpus": {"directory": str(folder), "splits": {"test": split}}}
    (folder / run.name / "config.json").write_text(json.dumps(config))
    Vocabulary([*words, "<unk>", "<eos>"], [1] * (len(words) + 2)).save(
        folder / run.name / "vocabulary.txt"
    )
    events = [{"event": "valid", "step": 2, "epoch": 1.0, "seconds": 60.0, "perplexity": 2.0},
              {"event": "finished", "step": 2, "epoch": 1.0, "seconds": 60.0},
              {"event": "test", "split": "test", "step": 2, **result}]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (folder / run.name / "metrics.jsonl").write_text(lines)


def test_words_pay_for_the_spelling_of_unknown_words_and_pieces_do_not(tmp_path):
    (tmp_path / "train.txt").write_text("the dog\nthe cow\n")
    (tmp_path / "test.txt").write_text("the cat\nthe dog\n")
    texts = str(tmp_path / "train.txt"), str(tmp_path / "test.txt")
    assert row("words-10000", tmp_path, *texts) is None
    nats = 3.0
    split = {"tokens": 6, "sentences": 2, "words": 4, "oov": 2}
    finished_run(tmp_path, "words-10000", ["the"], split, tokens=6, nats_per_token=nats / 6,
                 perplexity=math.exp(nats / 6))
    bits = nats / math.log(2)
    speller = Speller({"dog": 1, "cow": 1})
    spelling = speller.bits("cat") + speller.bits("dog")
    cells = row("words-10000", tmp_path, *texts)
    assert cells[2] == "50.00%"
    assert cells[4:7] == [
        f"{bits / 16:.4f}", f"{spelling / 16:.4f}", f"**{(bits + spelling) / 16:.4f}**",
    ]
    finished_run(tmp_path, "bpe-10000", ["the"], split | {"oov": 0, "tokens": 9}, tokens=9,
                 nats_per_token=nats / 9, perplexity=2.0, bits_per_byte=bits / 16)
    cells = row("bpe-10000", tmp_path, *texts)
    assert cells[4:8] == ["–", "0", f"**{bits / 16:.4f}**", f"{math.exp(nats / 6):,.2f}"]


def test_the_text_is_counted_with_the_ends_of_its_lines(tmp_path):
    (tmp_path / "a").write_text("été a\n\n été\n")
    vocabulary = Vocabulary(["a", "<unk>", "<eos>"], [1, 1, 1])
    counts, size, changed = bits_per_byte.unknown_words([str(tmp_path / "a")], vocabulary)
    assert counts == {"été": 2} and size == len("été a\n été\n".encode()) and changed == 1


@pytest.mark.parametrize("oov", [0, 2])
def test_tokens_that_do_not_restore_the_text_have_no_row(tmp_path, oov):
    (tmp_path / "test.txt").write_text("the  cat\nthe dog\n")
    split = {"tokens": 6, "sentences": 2, "words": 4, "oov": oov}
    finished_run(tmp_path, "words-10000", ["the"], split, tokens=6, nats_per_token=0.5,
                 perplexity=math.exp(0.5))
    with pytest.raises(ValueError, match="words-10000-seed1: the tokens must restore every line"):
        row("words-10000", tmp_path, str(tmp_path / "test.txt"), str(tmp_path / "test.txt"))

"""`tfsoftmax demo`: what its page answers, without and with gradio."""

import concurrent.futures
import socket
from unittest import mock

import numpy as np
import pytest

from demo_helper import HEADS, WORDS, shown_runs
from experiments.measurements import demo_screenshot
from runs_helper import error_of, tool
from tfsoftmax.commands import demo_page
from tfsoftmax.commands.demo_page import Page, continuations, groups, next_words, path, score
from tfsoftmax.corpora.tokenizers import Words
from tfsoftmax.runs.shown_run import MOST_WORDS, ShownRun
from tfsoftmax.support.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder):
    return shown_runs(folder)


@pytest.fixture(scope="module")
def page(shown, generating_run):
    """Runs of two vocabularies, and one that is broken."""
    return Page({**shown, "other": ShownRun(generating_run), "bad": "no <b> \x1b"})


def test_texts_that_are_too_long_are_refused_in_a_sentence(shown, page):
    run, words = shown["full"], ["the"] * (MOST_WORDS + 1)
    for ask in (lambda: run.next_words(words, 3), lambda: run.score(words),
                lambda: run.continuations(words, "greedy", 3), lambda: run.probabilities(words)):
        with pytest.raises(ValueError, match=r"at most 500 words here\. Received: 501"):
            ask()
    assert len(run.score(words[:-1])) == len(words)
    note, rows, picks = page.ask(score, "full", " ".join(words), True)
    assert "at most 500 words" in note and rows == [] and picks == {}
    note, rows, _ = page.ask(next_words, "full", "x" * 20_000, True)
    assert "…" in note and len(note) < 400 and len(rows) == len(WORDS)


@pytest.mark.parametrize("head", HEADS)
def test_next_words_have_their_probabilities_and_go_on_when_clicked(shown, page, head):
    note, rows, picks = page.ask(next_words, head, "The  ZEBRA", True)
    assert rows == [list(pair) for pair in shown[head].next_words(["the", "zebra"], 12)]
    assert note.startswith("After “the zebra”: all other words 0.00%")
    assert note.endswith("\nRead as <unk>: zebra")
    assert picks == {word: f"the zebra {word}" for word in set(WORDS) - {"<unk>", "<eos>"}}
    assert "Read as <unk>: The ZEBRA" in page.ask(next_words, head, "The ZEBRA", False)[0]


def test_scores_and_continuations_are_those_of_the_run(shown, page):
    run, words = shown["tree"], ["the", "zebra"]
    note, rows, _ = page.ask(score, "tree", "the zebra", True)
    log_probs = [p for _, p, _ in run.score(words)]
    assert rows == list(map(list, zip(["the", "zebra → <unk>", "<eos>"], log_probs)))
    assert f"ln P = {sum(log_probs):.3f} nats" in note
    assert f"perplexity {np.exp(-np.mean(log_probs)):,.6g}" in note
    unlikely = [("the", -2000.0, False), ("<eos>", -1.0, False)]  # as of a model that diverged
    with mock.patch.object(run, "score", return_value=unlikely):
        assert page.ask(score, "tree", "the", True)[0].endswith("perplexity inf")
    _, rows, _ = page.ask(continuations, "tree", "the zebra", True, "beam", 4)
    found = run.continuations(words, "beam", 4)
    assert [p for _, p in rows] == [each.log_prob for each in found]
    assert [text for text, _ in rows] == [
        " ".join([*words, *each.words]) + ("" if each.ended else " …") for each in found
    ]


def test_groups_and_ways_are_those_of_the_run(shown, page):
    _, rows, picks = page.ask(groups, "adaptive", "the", True, "")
    assert [tuple(row[:4]) for row in rows] == [g[:4] for g in shown["adaptive"].groups(["the"])]
    assert picks["the <unk> cat"] == "the"
    assert len(page.ask(groups, "adaptive", "the", True, " cat ")[1]) == 1
    note, rows, picks = page.ask(path, "tree", "the", True, " cat ")
    likely = shown["tree"].probabilities(["the"])[WORDS.index("cat")]
    assert f"P of “cat” is {demo_page.percent(likely)}" in note
    steps = shown["tree"].path(["the"], "cat")
    assert [row[2] for row in rows] == [b.probability for step in steps for b in step]
    taken = [row for row in rows if row[1]]
    assert [row[0] for row in taken] == list(range(1, len(steps) + 1))
    assert taken[-1][3] == demo_page.percent(likely) and picks[taken[-1][5]] == "cat"
    (word, p), *_ = shown["tree"].next_words(["the"], 1)
    assert f"P of “{word}” is {p:.2%}" in page.ask(path, "tree", "the", True, "")[0]


def test_costs_count_what_the_output_layer_holds(shown, page):
    costs = {name: row for name, *row in page.costs()}
    assert set(costs) == {*HEADS, "other"}
    layer, words, step, milliseconds, millions, megabytes = costs["full"]
    assert (layer, words, step) == ("FullSoftmax", 10, 1) and milliseconds > 0
    assert millions == pytest.approx((10 * 6 + 10) / 1e6) and megabytes == pytest.approx(280 / 1e6)
    held = sum(w.numpy().nbytes for w in shown["self_organised"].head.weights)
    assert costs["self_organised"][5] == pytest.approx(held / 1e6, rel=0.005)
    assert held > 4e6 * costs["self_organised"][4]


def test_a_run_that_cannot_answer_says_why(page, shown, monkeypatch):
    assert page.ask(next_words, "bad", "the", True) == ("no <b> \\x1b", [], {})
    assert "must not contain <eos>" in page.ask(score, "full", "the <eos>", True)[0]
    for question, head in ((path, "tree"), (groups, "class")):
        note, rows, _ = page.ask(question, head, "the", True, "zebra")
        assert "`word` must be in the vocabulary" in note and not rows

    def refuse(words, k):
        raise ValueError("A text must have at most 3 pieces here. Received: 4")

    monkeypatch.setattr(shown["full"], "next_words", refuse)
    assert "at most 3 pieces" in page.ask(next_words, "full", "the cat", True)[0]


@pytest.mark.parametrize("text", ["", "   ", "\x1b[2J \u202e", "<b>&\"'"])
def test_odd_texts_are_answered(page, text):
    for question, head, *more in ((next_words, "full"), (score, "full"), (groups, "class", ""),
                                  (path, "tree", " ")):
        note, rows, _ = page.ask(question, head, text, False, *more)
        assert rows and "\x1b" not in f"{note}{rows}"
        assert text.strip() or note.startswith("At the beginning of a sentence: ")


def test_marks_that_no_tokenizer_decodes_are_shown_but_cannot_be_picked(shown, monkeypatch):
    class Pieces(Words):
        def decode(self, pieces):
            if {"<eos>", "<unk>"} & set(pieces):
                raise KeyError(pieces)
            return super().decode(pieces)

    monkeypatch.setattr(shown["full"], "_tokenizer", Pieces())
    _, rows, picks = Page(shown).ask(next_words, "full", "the cat", True)
    assert len(rows) == len(WORDS) and set(WORDS) - set(picks) == {"<eos>", "<unk>"}


GERMAN = ["der", "Hund", "die", "Katze", "<unk>", "<eos>"]


@pytest.mark.parametrize("words, counts, cased", [
    (GERMAN, [9, 5, 4, 3, 2, 8], True),
    (["the", "N", "<unk>", "<eos>", *(f"w{i}" for i in range(200))], None, False),  # PTB
    (["the", "A", "<unk>", "<eos>"], [9, 0, 2, 3], False),  # a byte that never occurred
])
def test_texts_are_lower_case_at_first_unless_a_vocabulary_is_cased(
    shown, monkeypatch, words, counts, cased
):
    assert Page(shown).lowercase()
    vocabulary = Vocabulary(words, counts or [1] * len(words))
    monkeypatch.setattr(shown["full"], "vocabulary", vocabulary)
    assert shown["full"].is_cased == cased
    assert Page({**shown, "bad": "x"}).lowercase() != cased


def test_questions_at_the_same_time_do_not_mix_states(page):
    texts = ["the cat sat on the mat", "a dog", "on the mat a cat"]

    def ask(text):
        return page.ask(score, "tree", text, True)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, texts * 4)) == [ask(text) for text in texts] * 4


@pytest.mark.parametrize("port", ["0", "65536"])
def test_ports_out_of_range_are_named(port):
    done = error_of("demo", "--run=x", f"--port={port}")
    assert f"`port` must lie in [1, 65536). Received: port={port}" in done


def test_without_gradio_a_sentence_says_what_to_install(tmp_path):
    (tmp_path / "gradio.py").write_text("raise ModuleNotFoundError('no gradio')")
    done = error_of("demo", "--run=x", path=str(tmp_path))
    assert done == "error: the page needs gradio: pip install gradio\n"


def parts_of(page):
    """The parts of the page by their kinds, in gradio's words."""
    parts = {}
    for part in demo_page.blocks(page).get_config_file()["components"]:
        parts.setdefault(part["type"], []).append(part["props"])
    return parts


def test_the_page_has_a_column_for_each_run_in_each_tab_that_fits(page, shown):
    pytest.importorskip("gradio")
    parts = parts_of(page)
    labels = [props["label"] for props in parts["textbox"]]
    counts = {name: labels.count(name) for name in page.runs}
    assert counts == {"full": 3, "adaptive": 4, "shortlist": 4, "tree": 4, "class": 5,
                      "self_organised": 4, "other": 3, "bad": 3}
    assert [p["value"] for p in parts["checkbox"]] == [page.lowercase()]
    assert parts["markdown"][1]["visible"] and "html" not in parts
    few = parts_of(Page({"full": shown["full"], "tree": shown["tree"]}))
    assert not few["markdown"][1]["visible"]
    assert [t["label"] for t in few["tabitem"]] == ["Next words", "Sentence", "Continue", "Trees"]


def test_tables_have_bars_of_one_scale_and_exact_numbers(page):
    gr = pytest.importorskip("gradio")
    with gr.Blocks():
        answer, _, outputs = demo_page._tables(
            gr, page, next_words, ["full", "tree", "bad"], ("word", "P"), []
        )
    values = answer("the", True)
    assert len(values) == len(outputs) and not values[7].visible and values[6] == "no <b> \\x1b"
    tables = [values[1].value, values[4].value]
    for name, table in zip(["full", "tree"], tables, strict=True):
        assert table["data"] == page.ask(next_words, name, "the", True)[1]
        shown = [row[1] for row in table["metadata"]["display_value"]]
        assert shown == [demo_page.percent(p) for _, p in table["data"]]
    widest = max((p, style) for table in tables for (_, p), (_, style) in
                 zip(table["data"], table["metadata"]["styling"], strict=True))
    assert "100.0%" in widest[1]


@pytest.mark.slow
def test_a_person_types_clicks_and_browses(folder, shown, generating_run):
    pytest.importorskip("gradio")
    pytest.importorskip("playwright")
    if demo_screenshot.chromium() is None:
        pytest.skip("no Chromium on the PATH")
    given = ",".join([*(str(folder / h) for h in ("tree", "class")), generating_run, "nothing"])
    with demo_screenshot.served(given) as address, demo_screenshot.browser_page() as page:
        page.on("pageerror", lambda error: page.requested.append(str(error)))
        page.goto(address)
        demo_screenshot.read(page, "the")
        notes = [note.input_value() for note in page.locator("textarea[disabled]").all()]
        assert len(notes) == 4 and "must be the directory" in notes[3]
        [(word, probability), *_] = [
            pair for pair in shown["tree"].next_words(["the"], 12) if "<" not in pair[0]
        ]
        row = page.get_by_role("row").filter(has_text=word).first
        assert row.inner_text().split() == [word, f"{probability:.2%}"]
        assert page.get_by_text("different vocabularies").is_visible()

        row.get_by_text(word).click()
        demo_screenshot.wait_for_note(page, f"After “the {word}”")
        assert page.locator("#text textarea, #text input").input_value() == f"the {word}"

        demo_screenshot.open_tab(page, "Sentence")
        total = sum(p for _, p, _ in shown["class"].score(["the", word]))
        demo_screenshot.wait_for_note(page, f"ln P = {total:.3f} nats")

        demo_screenshot.open_tab(page, "Continue")
        page.get_by_label("beam").click()
        page.click("#continue")
        demo_screenshot.wait_for_note(page, "stands for what is cut")
        best = shown["tree"].continuations(["the", word], "beam", 20)[0]
        assert page.get_by_role("row").filter(has_text=f"{best.log_prob:.3f}").count()

        demo_screenshot.open_tab(page, "Trees", "cat")
        other = page.get_by_role("row").filter(has_text="on").first
        other.get_by_role("gridcell").last.click()
        neighbour = other.inner_text().split("%")[-1].split()[1]
        demo_screenshot.wait_for_note(page, f"P of “{neighbour}” is")

        demo_screenshot.open_tab(page, "Clusters")
        demo_screenshot.wait_for_note(page, "how likely each class is")
        demo_screenshot.read(page, "")
        assert all(url.startswith((address, "data:", "blob:")) for url in page.requested)


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(generating_run):
    pytest.importorskip("gradio")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = tool("demo", f"--run={generating_run}", f"--port={port}", check=False)
    assert done.returncode and f"`port` must be free. Received: port={port}" in done.stderr


@pytest.mark.slow
def test_a_run_that_is_broken_alone_ends_the_command(tmp_path):
    pytest.importorskip("gradio")
    done = tool("demo", f"--run={tmp_path}", check=False)
    assert done.returncode and "`run` must be the directory of a training run" in done.stderr

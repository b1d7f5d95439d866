"""`tfsoftmax demo`: what its page answers, in HTML, with and without gradio."""

import socket
import threading

import pytest

from demo_helper import HEADS, WORDS, shown_runs
from experiments.measurements import demo_screenshot
from runs_helper import tool
from tfsoftmax.commands import demo_html, demo_page
from tfsoftmax.commands.demo_page import MOST_CHARACTERS, Page
from tfsoftmax.corpora.tokenizers import Words
from tfsoftmax.runs.shown_run import MOST_WORDS, ShownRun, Unreadable
from tfsoftmax.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder):
    return shown_runs(folder)


@pytest.fixture(scope="module")
def page(shown, generating_run):
    """Runs of two vocabularies, and one that is broken."""
    return Page([*shown.values(), ShownRun(generating_run, "other"), Unreadable("bad", "no <b>")])


def test_texts_that_are_too_long_are_refused_in_a_sentence(shown, page):
    run, words = shown["full"], ["the"] * (MOST_WORDS + 1)
    for ask in (lambda: run.next_words(words, 3), lambda: run.score(words),
                lambda: run.continuations(words, "greedy", 3), lambda: run.probabilities(words)):
        with pytest.raises(ValueError, match=r"at most 500 words here\. Received: 501"):
            ask()
    assert run.score(words[:-1]).perplexity > 1
    assert "at most 500 words" in page.scores(" ".join(words), True)
    assert "at most 20,000 characters" in page.next_words("x" * (MOST_CHARACTERS + 1), True)
    assert "…" in page.next_words("x" * MOST_CHARACTERS, True)


def test_a_run_that_cannot_answer_leaves_the_others_their_cards(shown, monkeypatch):
    one, other = shown["full"], shown["tree"]

    def refuse(words, k):
        raise ValueError("A text must have at most 3 pieces here. Received: 4")

    monkeypatch.setattr(one, "next_words", refuse)
    answer = Page([one, other]).next_words("the cat", True)
    assert answer.count('class="card"') == 2 and "at most 3 pieces" in answer
    assert answer.count("all other words") == 1
    assert Page([one]).next_words("the cat", True).count("at most 3 pieces") == 1


def test_marks_that_no_tokenizer_decodes_are_shown_but_cannot_be_picked(shown, monkeypatch):
    class Pieces(Words):
        def decode(self, pieces):
            if {"<eos>", "<unk>"} & set(pieces):
                raise KeyError(pieces)
            return super().decode(pieces)

    run = shown["full"]
    monkeypatch.setattr(run, "_tokenizer", Pieces())
    answer = Page([run]).next_words("the cat", True)
    assert "&lt;eos&gt;" in answer and "&lt;unk&gt;" in answer
    assert answer.count("<button") == len(WORDS) - 2


GERMAN = ["der", "Hund", "die", "Katze", "<unk>", "<eos>"]


@pytest.mark.parametrize("words, counts, cased", [
    (GERMAN, [9, 5, 4, 3, 2, 8], True),
    (["the", "N", "<unk>", "<eos>", *(f"w{i}" for i in range(200))], None, False),  # PTB
    (["the", "A", "<unk>", "<eos>"], [9, 0, 2, 3], False),  # a byte that never occurred
])
def test_texts_are_lower_case_at_first_unless_a_vocabulary_is_cased(
    shown, monkeypatch, words, counts, cased
):
    run, other = shown["full"], shown["tree"]
    assert Page([run, other]).lowercase()
    vocabulary = Vocabulary(words, counts or [1] * len(words))
    monkeypatch.setattr(run, "vocabulary", vocabulary)
    assert run.is_cased == cased
    assert Page([run, other, Unreadable("bad", "x")]).lowercase() != cased


@pytest.mark.parametrize("cased", [False, True])
def test_the_box_of_lower_case_is_ticked_by_the_vocabularies(shown, monkeypatch, cased):
    gr, boxes = pytest.importorskip("gradio"), []
    page = Page([shown["full"]])
    monkeypatch.setattr(page, "lowercase", lambda: not cased)
    monkeypatch.setattr(gr, "Checkbox", lambda value, **_: boxes.append(value) or gr.State(value))
    demo_page.blocks(page)
    assert boxes == [not cased]


def test_the_page_shows_all_runs_side_by_side(page):
    for answer in (page.next_words("The  ZEBRA", True), page.scores("the zebra", True),
                   page.continuations("the zebra", True, "beam", 4)):
        assert answer.count('class="card"') == len(HEADS) + 2
        assert "no &lt;b&gt;" in answer and "All runs, after “the zebra”:" in answer
        assert answer.count("read as &lt;unk&gt;: zebra") == len(HEADS) + 1
        assert "<script>" not in answer
    assert "read as &lt;unk&gt;: The ZEBRA" in page.next_words("The ZEBRA", False)
    assert "different vocabularies" in page.notice()
    assert Page(page.runs[:2]).notice() == ""


@pytest.mark.parametrize("text", ["", "   ", None, "\x1b[2J \u202e", "<b>&\"'"])
def test_odd_texts_are_answered(page, text):
    for answer in (page.next_words(text, True), page.scores(text, False),
                   page.groups(text, True, "class", ""), page.path(text, True, "tree", " ")):
        assert "%" in answer or "nats" in answer
        assert "\x1b" not in answer and "<b>&" not in answer
    if not (text or "").strip():
        assert "at the beginning of a sentence:" in page.next_words(text, True)


def test_mistakes_are_sentences_of_the_run_or_of_the_tab(page):
    answer = page.scores("the <eos>", True)
    assert answer.count("must not contain &lt;eos&gt;") == len(HEADS) + 1
    for answer in (page.path("the", True, "tree", "zebra"),
                   page.groups("the", True, "class", "zebra")):
        assert "`word` must be in the vocabulary of " in answer and "class=\"error\"" in answer
    assert "<script>" not in page.groups("the", True, "class", "<script>")


def test_tabs_offer_the_runs_that_fit(page):
    assert list(page.named("grouping")) == ["adaptive", "shortlist", "class", "self_organised"]
    assert list(page.named("tree")) == ["tree", "class"]
    assert "P of “cat”" in page.path("the", True, "tree", " cat ")
    assert page.groups("the", True, "adaptive", "").count("<tr>") == 4


def test_many_groups_are_cut_with_the_sum_of_the_others(page, monkeypatch):
    monkeypatch.setattr(demo_html, "MOST_GROUPS", 1)
    left = page.readable[1].groups(["the"])[1:]
    answer = page.groups("the", True, "adaptive", "")
    assert f"and 2 more, together {sum(g.probability for g in left):.2%}" in answer


def test_questions_at_the_same_time_do_not_mix_states(page):
    texts = ["the cat sat on the mat", "a dog", "on the mat a cat"]
    alone = [page.scores(text, True) for text in texts]
    answers = {}

    def ask(number):
        answers[number] = [page.scores(text, True) for text in texts]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answers[i] == alone for i in range(4))


@pytest.mark.parametrize("port", ["0", "65536"])
def test_ports_out_of_range_are_named(port):
    done = tool("demo", "--run=x", f"--port={port}", check=False)
    assert f"`port` must lie in [1, 65536). Received: port={port}" in done.stderr


def test_without_gradio_a_sentence_says_what_to_install(tmp_path):
    (tmp_path / "gradio.py").write_text("raise ModuleNotFoundError('no gradio')")
    done = tool("demo", "--run=x", check=False, path=str(tmp_path))
    assert done.stderr == "error: the page needs gradio: pip install 'tfsoftmax[demo]'\n"


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
        cards = page.locator("#next_words .card")
        assert cards.count() == 4 and "must be the directory" in cards.nth(3).inner_text()
        [(word, probability), *_] = shown["tree"].next_words(["the"], 12).words
        first = cards.nth(0).locator(".bars tr").nth(0)
        assert first.inner_text().split() == [word, f"{probability:.2%}"]
        assert cards.nth(0).locator(".bars tr").count() == len(WORDS)
        assert page.get_by_text("different vocabularies").is_visible()

        first.locator("button").click()
        demo_screenshot.wait_for_answer(page, f"the {word}")
        assert page.locator("#text textarea, #text input").input_value() == f"the {word}"

        demo_screenshot.open_tab(page, "Sentence")
        score = shown["class"].score(["the", word])
        assert f"{score.log_prob:.3f}" in page.locator("#sentence .card").nth(1).inner_text()
        assert not first.is_visible()

        demo_screenshot.open_tab(page, "Continue")
        page.get_by_label("beam").click()
        page.click("#continue")
        page.wait_for_selector("#sentences .words")
        assert page.locator("#sentences .card").nth(0).locator(".words").count() == 4

        demo_screenshot.open_tab(page, "Trees", "tree", "cat")
        browsed = page.locator("#tree_shown")
        assert browsed.locator("table").count() == len(shown["tree"].path(["the", word], "cat"))
        other = browsed.locator(".pick:not([data-tree='cat'])").first
        neighbour = other.inner_text()
        other.click()
        browsed.get_by_text(f"P of “{neighbour}”").wait_for()

        demo_screenshot.open_tab(page, "Clusters", "class")
        rows = page.locator("#group_shown tr")
        assert rows.count() == 1 + len(shown["class"].groups(["the", word]))
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

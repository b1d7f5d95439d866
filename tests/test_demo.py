"""`tfsoftmax demo`: what its page answers, in data and in HTML, with and without gradio."""

import json
import math
import socket
import threading

import numpy as np
import pytest
import tensorflow as tf

from experiments import demo_screenshot
from runs_helper import saved_run, tool
from tfsoftmax.commands import demo_html
from tfsoftmax.commands.demo_page import MOST_CHARACTERS, Page
from tfsoftmax.lm import runs
from tfsoftmax.lm.config import ModelConfig
from tfsoftmax.lm.model import language_model
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.lm.shown_run import MOST_WORDS, ShownRun, Unreadable, load_runs
from tfsoftmax.lm.word_groups import edge_sums, grouping_of, likeliest_below, path_of, tree_of
from tfsoftmax.partitions import tree_builders
from tfsoftmax.vocabulary import Vocabulary

WORDS = ["the", "<unk>", "cat", "<script>", "sat", "<eos>", "mat", "on", "dog", "a"]
VOCABULARY = Vocabulary(WORDS, range(20, 10, -1))
HEADS = {
    "full": {},
    "adaptive": {"cutoffs": [3, 6]},
    "shortlist": {"shortlist": 4},
    "tree": {"tree": "huffman"},
    "class": {"num_classes": 3},
    "self_organised": {},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run of each kind of head, with random weights."""
    folder = tmp_path_factory.mktemp("demo")
    for head, options in HEADS.items():
        config = ModelConfig(head, options, embedding_units=6, hidden_units=6, init_scale=1.0)
        model = language_model(config, VOCABULARY, streams=2)
        saved_run(folder / head, config, VOCABULARY, model)
    return folder


@pytest.fixture(scope="module")
def shown(folder):
    """The runs, by the names of their heads."""
    return {run.name: run for run in load_runs([str(folder / head) for head in HEADS])}


@pytest.fixture(scope="module")
def page(shown, generating_run):
    """Runs of two vocabularies, and one that is broken."""
    return Page([*shown.values(), ShownRun(generating_run, "other"), Unreadable("bad", "no <b>")])


@pytest.mark.parametrize("head", HEADS)
def test_next_words_are_those_of_the_exact_distribution(shown, head):
    run = shown[head]
    found = dict(run.next_words(["the", "cat"], 99).words)  # V is 10
    probabilities = run.probabilities(["the", "cat"])
    assert probabilities.sum() == pytest.approx(1, abs=1e-6) and len(found) == len(WORDS)
    for word, probability in found.items():
        assert probability == pytest.approx(probabilities[WORDS.index(word)], rel=1e-5)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    again = dict(run.next_words(["on"], 99).words)
    assert again != found and dict(run.next_words(["the", "cat"], 99).words) == found


@pytest.mark.parametrize("head", HEADS)
def test_a_score_is_the_product_of_the_next_words_probabilities(shown, head):
    run, words = shown[head], ["the", "zebra", "sat"]
    score = run.score(words)
    assert [word for word, _, _ in score.words] == [*words, "<eos>"]
    assert [unknown for _, _, unknown in score.words] == [False, True, False, False]
    expected = [
        math.log(dict(run.next_words(words[:i], 99).words)[word])
        for i, word in enumerate(["the", "<unk>", "sat", "<eos>"])
    ]
    np.testing.assert_allclose([p for _, p, _ in score.words], expected, rtol=1e-4)
    assert score.log_prob == pytest.approx(sum(expected), rel=1e-4)
    assert score.perplexity == pytest.approx(math.exp(-sum(expected) / 4), rel=1e-4)
    assert run.unknown([*words, "zebra"]) == ["zebra"]
    assert run.added(words, ["on", "mat"]) == " on mat" and run.added([], ["on"]) == "on"


@pytest.mark.parametrize("search", ["greedy", "beam", "draw"])
def test_continuations_have_the_score_of_their_words(shown, search):
    run, given = shown["tree"], ["the", "zebra"]
    found = run.continuations(given, search, max_words=3, seed=5)
    assert len(found) == (1 if search == "greedy" else 4)
    assert len({each.ended for each in found}) == 2 or search != "beam"
    for each in found:
        log_probs = [p for _, p, _ in run.score([*given, *each.words]).words][len(given) :]
        expected = sum(log_probs if each.ended else log_probs[:-1])
        assert each.log_prob == pytest.approx(expected, rel=1e-4)
        assert "<unk>" not in each.words


@pytest.mark.parametrize("head", HEADS)
def test_probabilities_of_groups_are_sums_over_their_words(shown, head):
    run, words = shown[head], ["a", "dog"]
    if head in ("full", "tree"):
        assert run.grouping is None
        with pytest.raises(ValueError, match="must divide its words into groups"):
            run.groups(words)
        return
    groups, p = run.groups(words, shown=99), run.probabilities(words)
    assert sorted(word for group in groups for word in group.frequent) == sorted(WORDS)
    assert sum(group.token_share for group in groups) == pytest.approx(1)
    for group in groups:
        ids = [WORDS.index(word) for word in group.frequent]
        assert group.probability == pytest.approx(p[ids].sum())
        assert ids == sorted(ids) and len(ids) == group.words  # counts fall with the ids
        assert group in run.groups(words, shown=99, word=group.frequent[-1])
    falling = [group.probability for group in groups]
    assert falling == sorted(falling, reverse=True) and len(falling) > 1


def test_the_grouping_is_that_of_the_head(shown):
    kinds = {head: run.grouping and run.grouping.kind for head, run in shown.items()}
    assert kinds == {"full": None, "tree": None, "adaptive": "band", "shortlist": "part",
                     "class": "class", "self_organised": "cluster"}
    assert grouping_of(shown["adaptive"].head).of_word.tolist() == [0] * 3 + [1] * 3 + [2] * 4
    own = shown["self_organised"]
    assert grouping_of(own.head).of_word.tolist() == own.head.clusters.tolist()
    assert shown["class"].grouping.of_word.tolist() == shown["class"].head.classes.tolist()


def test_a_path_multiplies_the_decisions_of_a_binary_tree(shown):
    run, words = shown["tree"], ["the", "cat"]
    head, hidden = run.head, run._generator.hidden(words)
    scores = tf.linalg.matvec(head.kernel.value, hidden) + head.bias.value
    for word, path in enumerate(head.tree.paths()):
        edges = path[path >= 0]
        decisions = tf.sigmoid(tf.gather(scores, edges // 2) * (1 - 2.0 * (edges % 2))).numpy()
        steps = run.path(words, WORDS[word])
        taken = [next(b for b in branches if b.taken) for branches in steps]
        np.testing.assert_allclose([b.probability for b in taken], decisions, rtol=1e-4)
        assert math.prod(b.probability for b in taken) == pytest.approx(
            run.probabilities(words)[word], rel=1e-5
        )
        assert taken[-1].likeliest == [word] and taken[-1].words == 1
        assert [sum(b.words for b in branches) for branches in steps] == [
            10, *(b.words for b in taken[:-1])
        ]


def test_of_many_branches_the_likeliest_are_shown_and_the_one_that_is_taken():
    tree = tree_builders.from_nested([["a", "b", "c", "d"], "e"], dict(zip("abcde", range(5))))
    p = np.array([0.1, 0.3, 0.2, 0.05, 0.35])
    np.testing.assert_allclose(np.sort(edge_sums(tree, p)), np.sort([0.65, *p]))
    for word, expected in ((3, [1, 3]), (1, [1, 2])):
        first, second = path_of(tree, word, p, shown=2)
        assert [b.likeliest for b in first] == [[1, 2], [4]] and first[0].taken
        assert [b.probability for b in first] == pytest.approx([0.65, 0.35])
        assert [b.likeliest[0] for b in second] == expected
        assert [b.taken for b in second] == [b.likeliest[0] == word for b in second]
    root = int(np.flatnonzero(tree.words < 0)[0])
    assert likeliest_below(tree, root, p, 9) == [1, 2, 0, 3]


def test_deep_trees_sum_as_loops_do():
    tree = tree_builders.build("random", 37)
    values = np.random.default_rng(0).random(37)
    expected = np.zeros(len(tree.words))
    for word, path in enumerate(tree.paths()):
        expected[path[path >= 0]] += values[word]
    np.testing.assert_allclose(edge_sums(tree, values), expected)


def test_costs_count_what_the_head_holds(shown):
    full = shown["full"]
    assert full.parameters == 10 * 6 + 10 and full.megabytes == pytest.approx(280 / 1e6)
    own = shown["self_organised"]
    held = sum(w.numpy().nbytes for w in own.head.weights)
    assert own.megabytes * 1e6 == pytest.approx(held) and held > 4 * own.parameters
    assert full.next_words([], 3).milliseconds > 0
    assert tree_of(full.head) is None


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


def test_runs_that_cannot_be_read_say_why(tmp_path, generating_run, corpus):
    folder = tmp_path / "young"
    config = ModelConfig("full", embedding_units=6, hidden_units=6)
    described = {"model": {**vars(config)}, "training": {}}
    described["corpus"] = {"vocabulary_sha256": VOCABULARY.sha256}
    runs.Run(str(folder)).start(json.loads(json.dumps(described)), VOCABULARY)
    names = [str(folder), generating_run, str(tmp_path / "none"), generating_run]
    young, good, none = load_runs(names)
    assert young.name == "young" and "too few steps" in young.reason
    assert isinstance(good, ShownRun) and "must be the directory of a" in none.reason
    with pytest.raises(ValueError, match="too few steps"):
        load_runs([str(folder)])
    with pytest.raises(ValueError, match="must name runs"):
        load_runs([])


def test_runs_of_the_same_name_are_told_apart(generating_run, shown, tmp_path):
    (tmp_path / "run").symlink_to(generating_run)
    one, other = load_runs([generating_run, str(tmp_path / "run")])
    assert one.name == generating_run and other.name == str(tmp_path / "run")


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


def test_scores_are_those_of_the_command(shown, generating_run):
    model, vocabulary, _ = runs.load(generating_run, streams=3)
    [expected] = Scorer(model, vocabulary).sentences([["the", "cat"]])
    score = ShownRun(generating_run, "run").score(["the", "cat"])
    np.testing.assert_allclose([p for _, p, _ in score.words], expected, rtol=1e-5)


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

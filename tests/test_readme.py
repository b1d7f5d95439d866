"""The examples of the README and the guides run, and the links of our pages lead somewhere."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent


def blocks(page, language="python"):
    """The blocks of a page in some language, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def smaller(block, sizes):
    """The block with other numbers."""
    return re.sub(r"\d[\d_]*", lambda number: sizes.get(number[0], number[0]), block)


def test_the_blocks_of_the_readme_run_in_order(tmp_path, monkeypatch, capsys):
    """Smaller; `test_the_readme_prints_what_it_says` runs them as they stand."""
    monkeypatch.chdir(tmp_path)
    sizes = {"50_000": "500", "6_000": "120", "5_000": "100", "128": "8", "20_000": "400",
             "10_000": "120", "9_000": "100", "1024": "20", "64": "8"}
    names = {}
    for block in blocks("README.md"):
        exec(smaller(block, sizes), names)
    said = capsys.readouterr().out.splitlines()
    shown = "".join(blocks("README.md", "text")).splitlines()
    assert [re.sub(r"[\d.,\[\] e-]+", " ", line) for line in said] == [
        re.sub(r"[\d.,\[\] e-]+", " ", line) for line in shown
    ]
    assert keras.models.load_model("model.keras").output_shape == (None, 20, 500)


@pytest.mark.slow
def test_the_readme_prints_what_it_says(tmp_path):
    """As it stands, in a process of its own. Threads move Dense's perplexity: 3,364 to 3,759.

    The cutoffs of AdaptiveSoftmax, and so what it learns, depend on the machine.
    """
    program = "\n".join(blocks("README.md"))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    said = done.stdout.splitlines()
    shown = "".join(blocks("README.md", "text")).splitlines()
    for ours, page in zip(said, shown, strict=True):
        numbers = [[float(x.replace(",", "")) for x in re.findall(r"\d[\d.,]*", line.partition(
            " s, ")[2] or line)] for line in (ours, page)]
        if "is followed by" in page:
            numbers = [values[:2] for values in numbers]  # the word, and the likeliest next one
        of_machine = 0.4 if "Adaptive" in page else 0.1
        np.testing.assert_allclose(*numbers, rtol=of_machine, atol=0.03)
    dense, adaptive = (float(re.search(r"(\d+) s,", line)[1]) for line in said[:2])
    assert adaptive < dense


def test_the_weights_of_a_dense_layer_move_over():
    for block in blocks("docs/migration.md"):
        exec(block, {})


@pytest.mark.slow
def test_the_transformer_trains():
    data = np.random.default_rng(0).integers(0, 200, (64, 6))
    names, (*_, block) = {}, blocks("docs/which_head.md")
    sizes = {"200_000": "200", "20_000": "20", "60_000": "60", "2048": "16", "512": "8",
             "128": "5"}
    exec(smaller(block, sizes), names)
    model = names["model"]
    history = model.fit(data[:, :-1], data[:, 1:], epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    np.testing.assert_allclose(history["perplexity"], np.exp(history["loss"]), rtol=1e-4)


def test_the_page_about_keras_runs():
    page = (ROOT / "docs" / "keras.md").read_text(encoding="utf-8").replace("10_000", "100")
    keras.utils.set_random_seed(0)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.replace("500", "50"), re.DOTALL):
        exec(block, names)
    assert 1 < names["results"]["perplexity"] < 200
    wanted = names["head"].log_prob(names["body"](names["inputs"][:2]), names["labels"][:2])
    np.testing.assert_allclose(names["sentences"], wanted.numpy().sum(axis=1), rtol=1e-4)
    assert names["ids"].shape == names["log_probs"].shape == (2, 20, 5)
    batch = [np.asarray(names[name]) for name in ("inputs", "labels")]
    losses = [*names["losses"], *(float(names["step"](*batch)) for _ in range(80))]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


def test_the_page_about_sequences_runs(tmp_path, monkeypatch):
    """Smaller; what it serves, before and after the export, is without the items of a user."""
    monkeypatch.chdir(tmp_path)
    names, sizes = {}, {"10_000": "200", "1_000": "100", "512": "40", "64": "16", "30": "2"}
    for block in blocks("docs/sequences.md"):
        exec(smaller(block, sizes), names)
    assert 0 <= names["results"]["ndcg_at_10"] <= names["results"]["recall_at_10"] <= 1
    assert names["best"].shape == (100, 10)
    for best, user in zip(names["best"], names["users"], strict=True):
        assert not {*best} & {0, *user[:-1]}
    listed = [name.decode() for name in names["found"]["ids"].numpy()[0]]
    seen = {f"item {i}" for i in names["users"][0]}
    assert len({*listed}) == 10 and not {*listed} & {"padding", *seen}


def test_the_page_about_retrieval_runs(tmp_path, monkeypatch):
    """Smaller, and without its index where faiss is missing; names and user features are served."""
    monkeypatch.chdir(tmp_path)
    names, sizes = {}, {"2_000": "200", "4_000": "300", "1_000": "100", "128": "16"}
    for block in blocks("docs/retrieval.md"):
        if importlib.util.find_spec("faiss") or not re.search(r"faiss|WordIndex", block):
            exec(smaller(block, sizes), names)
        if "found" in names:
            listed = [name.decode() for name in names["found"]["ids"].numpy()[0]]
            assert len({*listed}) == 100 and not {*listed} & {"[UNK]", "film 7", "film 12"}
    results = names["unseen"].evaluate(names["held_out"].map(names["with_seen"]), verbose=0)
    assert np.isfinite(results).all()


def test_the_page_about_catalogues_runs(tmp_path, monkeypatch):
    """Smaller; each model has learned nothing new, and lost nothing."""
    monkeypatch.chdir(tmp_path)
    names, sizes = {}, {"1_000": "100", "512": "40", "64": "8", "100_000": "300"}
    for block in blocks("docs/catalogues.md"):
        exec(smaller(block, sizes), names)
        if "before" in names and "fewer" not in names:
            before, found = names["before"], names["grown"].layers[-1]
    assert sorted(before)[:201] == [-1] * 200 + [50] and len(before) == found.vocab_size == 250
    assert names["fewer"].layers[-1].not_items == (17, 23)
    old, new = (names[name].items.embeddings.numpy() for name in ("model", "grown"))
    np.testing.assert_array_equal(new[:100], old)
    assert (tmp_path / "served" / "saved_model.pb").exists()


def test_the_distribution_of_the_page_about_the_design_keeps_the_contract(tmp_path):
    page, names = (ROOT / "docs" / "design.md").read_text(encoding="utf-8"), {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), names)
    head, hidden, labels = names["model"].layers[-1], names["hidden"], names["labels"]
    log_probs = head.log_probs(hidden).numpy()
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, rtol=1e-5)
    own = np.take_along_axis(log_probs, labels.numpy()[:, None], 1)[:, 0]
    np.testing.assert_allclose(head.log_prob(hidden, labels), own, rtol=1e-5)
    ids, values = head.top_k(hidden, 3)
    np.testing.assert_allclose(values, np.take_along_axis(log_probs, ids.numpy(), 1), rtol=1e-5)
    names["model"].save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(hidden), names["model"](hidden))
    results = names["model"].evaluate(hidden, labels, verbose=0, return_dict=True)
    np.testing.assert_allclose(np.log(results["perplexity"]), -own.mean(), rtol=1e-4)


def test_the_demonstration_of_pairs_is_that_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rule = re.search(r"\ndemo_summaries:.*?\n(.*?)\n\n", makefile, re.DOTALL).group(1)
    rule = " ".join(rule.replace("$(BIN)/", "").replace("\\\n", " ").split())
    (block,) = [b for b in blocks("README.md", "bash") if "prepare_pairs" in b]
    assert "summarise" in rule and rule == " ".join(block.split())


def test_links_between_our_pages_and_pictures_lead_somewhere():
    dead, links = [], 0
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("experiments/**/*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                links += 1
                if not (page.parent / target).exists():
                    dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert links > 10 and dead == []

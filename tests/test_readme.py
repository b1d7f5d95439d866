"""The examples of the README run at a smaller size, and the links of our pages lead somewhere."""

import pathlib
import re

import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def example(heading):
    """The first Python block after `heading`, with smaller numbers."""
    block = re.search(heading + r".*?```python\n(.*?)```", README, re.DOTALL).group(1)
    smaller = {"_000": "", "2048": "16", "512": "8", "128": "5", "(20,)": "(5,)"}
    for large, small in smaller.items():
        block = block.replace(large, small)
    return block


def test_the_keras_example_trains_and_agrees_with_the_one_before_it():
    data = np.random.default_rng(0).integers(0, 200, (12, 6))
    words, next_words = data[:, :-1], data[:, 1:]
    names = {"words": words, "next_words": next_words}
    exec(example("Before:"), names)
    before = names["model"]
    exec(example("After:"), names)
    after = names["model"]
    loss, perplexity = after.evaluate(words, next_words, verbose=0)
    np.testing.assert_allclose(perplexity, np.exp(loss), rtol=1e-5)

    kernel, bias = after.get_weights()[-2:]
    before.set_weights([*after.get_weights()[:-2], kernel.T, bias])
    expected = before.evaluate(words, next_words, verbose=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.slow
def test_the_transformer_trains():
    data = np.random.default_rng(0).integers(0, 200, (64, 6))
    names = {}
    exec(example("## A Transformer"), names)
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
    block = re.search(r"downloads nothing: .*?```bash\n(.*?)```", README, re.DOTALL).group(1)
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

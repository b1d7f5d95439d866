"""Words that a model was not trained on, by their characters: their scores, and perplexity."""

import json

import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import UNITS, counts, positions, prepared, spelled
from refusals import refuses
from runs_helper import error_of, tool
from test_bigram_sampler import ngram
from tfsoftmax import CharacterEmbedding, CharCnnSoftmax, ModelConfig, SampledSoftmax, Vocabulary
from tfsoftmax.commands import score
from tfsoftmax.heads.char_cnn import with_words
from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.lm.head_options import head_for
from tfsoftmax.lm.model import language_model, reset_states, split_at_head
from tfsoftmax.lm.open_vocabulary import with_unseen_words
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.ngrams.previous_word import UNITS as ID_UNITS

V, WORDS = 23, ["the", "cat", "sat", "<unk>", "mat", "<eos>"]
SMALL = {"characters": {"filters": [3, 4], "correction_units": 2}}


def model_of(head="char_cnn", options=SMALL, tied=False, units=7):
    config = ModelConfig(
        head=head, head_options=options, embedding_units=units, hidden_units=units,
        tie_embeddings=tied, init_scale=0.5,
    )
    vocabulary = Vocabulary(WORDS, [9, 5, 3, 2, 1, 4])
    return language_model(config, vocabulary, streams=2), vocabulary


@pytest.mark.parametrize("head, options, tied", [
    ("char_cnn", SMALL, False), ("char_cnn", SMALL, True),
    ("sampled", {"num_samples": 3, **SMALL}, False),
])
def test_probabilities_of_all_words_sum_to_one_and_keep_their_ratios(head, options, tied):
    model, vocabulary = model_of(head, options, tied)
    wide, wider = with_unseen_words(model, vocabulary, ["cats", "bat"])
    assert list(wider.words) == [*WORDS, "cats", "bat"]
    text = [["the", "cat", "sat"], ["mat"]]
    before, after = (Scorer(*each).sentences(text) for each in ((model, vocabulary), (wide, wider)))
    heads, hiddens = zip(*(split_at_head(*each) for each in ((model, vocabulary), (wide, wider))))
    ids = np.array([[0, 1], [2, 4]], np.int32)
    log_probs = []
    for h, m in zip(heads, hiddens):
        reset_states(model)  # the two share the recurrent layers
        log_probs.append(h.log_probs(m(ids)).numpy())
    narrow, broad = log_probs
    np.testing.assert_allclose(np.exp(broad).sum(-1), 1, rtol=1e-5)
    ratio = broad[..., : len(WORDS)] - narrow
    np.testing.assert_allclose(ratio, ratio[..., :1].repeat(len(WORDS), -1), atol=1e-4)
    assert (ratio < 0).all()
    for a, b in zip(before, after):
        assert (b < a).all()


def test_an_unseen_word_is_scored_by_itself_and_read_by_its_characters_only_if_tied():
    scores = {}
    for tied in (False, True):
        wide, wider = with_unseen_words(*model_of(tied=tied), ["cats", "zzz"])
        for word in ("cats", "zzz", "<unk>"):
            (scores[tied, word],) = Scorer(wide, wider).sentences([[word, "the"]])
    for tied in (False, True):  # what is predicted
        assert scores[tied, "cats"][0] != scores[tied, "zzz"][0] != scores[tied, "<unk>"][0]
    assert scores[False, "cats"][1] == pytest.approx(scores[False, "<unk>"][1], abs=1e-5)
    assert abs(scores[True, "cats"][1] - scores[True, "zzz"][1]) > 1e-4


@pytest.mark.parametrize("use_bias", [True, False])
def test_rows_that_are_no_items_stay_so_and_do_not_lower_the_new_words(use_bias):
    hidden = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    heads = []
    for words, none in ((WORDS, [2]), (WORDS[:2] + WORDS[3:], [])):
        head = CharCnnSoftmax(len(words), words, SMALL["characters"], not_items=none,
                              use_bias=use_bias)
        head.build(hidden.shape)
        heads.append(head)
    for other, weight in zip(heads[1].weights, heads[0].weights, strict=True):
        rows = weight.numpy()
        other.assign(np.delete(rows, 2, 0) if len(rows) == len(WORDS) else rows)
    wide, without = (with_words(head, ["cats"]) for head in heads)
    assert wide.not_items == (2,) and (wide.top_k(hidden, 7)[0].numpy()[:, -1] == -1).all()
    wanted = np.insert(np.exp(without.log_probs(hidden)), 2, 0, axis=1)
    np.testing.assert_allclose(np.exp(wide.log_probs(hidden)), wanted, rtol=1e-5)


def test_other_heads_are_refused():
    for head, options in (("full", {}), ("adaptive", {"cutoffs": [2], **SMALL})):
        with pytest.raises(ValueError, match="`head` must be built, with P"):
            with_unseen_words(*model_of(head, options), ["cats"])


def test_words_that_are_not_new_are_refused():
    head = split_at_head(*model_of())[0]
    for words in (["cat"], ["bat", "bat"], "bat"):
        with pytest.raises(ValueError, match="`words` must be a list of different words"):
            with_words(head, words)


def test_score_tells_the_perplexity_of_an_open_vocabulary(corpus, tmp_path):
    units = [f"--{name}_units=11" for name in ("embedding", "hidden")]
    run = f"--run={tmp_path / 'run'}"
    tool("train", f"--data={corpus.directory}", run, "--head=char_cnn",
         f"--head_options={json.dumps(SMALL)}", "--max_steps=3", *units)

    def scored(text, *flags):
        """The score of the first line, and what is said of all."""
        (tmp_path / "text").write_text(text)
        done = tool("score", run, f"--input={tmp_path / 'text'}", *flags)
        return float(done.stdout.split("\t")[0]), json.loads(done.stderr.splitlines()[-1])

    text, of_open = "w1 w2 w777\nw777 w3\n", "--open_vocabulary"
    (_, closed), (_, opened) = scored(text), scored(text, of_open)
    assert closed["oov_tokens"] == 2 and opened["oov_tokens"] == 0
    assert closed["tokens"] == opened["tokens"] == 7 and opened["perplexity"] > 1
    assert opened["perplexity"] != closed["perplexity"]
    for once in ("-", "/dev/null"):  # which cannot be read again, as a pipe cannot
        done = error_of("score", run, of_open, f"--input={once}")
        assert done.startswith("error: `open_vocabulary` must be used with a file")

    # Scores depend on the unseen words of the whole file, which is said.
    # <UNK> is read as <unk>.
    alone, none = scored("w1 w2\n<UNK>\n", of_open)
    beside, two = scored("w1 w2\nw777 w888\n", of_open)
    assert beside < alone and (none["added_words"], two["added_words"]) == (0, 2)
    assert "depends on the unseen words in the rest of --input" in " ".join(
        score.__doc__.split())


def test_new_words_have_the_scores_of_their_rows_and_a_mean_bias():
    hidden, _ = positions(V, 8)
    layer = CharacterEmbedding(V, None, spelled(V), filters=[3, 2], correction_units=2)
    head = prepared(SampledSoftmax(V, 5, "uniform", tied_to=layer))
    wider = with_words(head, ["unseen", "слово"])
    np.testing.assert_allclose(np.exp(wider.log_probs(hidden)).sum(-1), 1, rtol=1e-5)
    logits = wider(hidden).numpy()
    np.testing.assert_allclose(logits[:, :V], head(hidden), rtol=1e-5, atol=1e-5)
    new = hidden @ tf.transpose(layer.rows_of_words(["unseen", "слово"])).numpy()
    np.testing.assert_allclose(logits[:, V:], new + head.bias.numpy().mean(), rtol=1e-4, atol=1e-4)


def character_tied(make, *args, **options):
    embedding = CharacterEmbedding(V, None, spelled(V), filters=[3, 2])
    return make(V, *args, tied_to=embedding, **options)


@pytest.mark.parametrize("head", [
    tfsoftmax.FullSoftmax(V, tied_to=tfsoftmax.Embedding(V, UNITS)), "head",
    tfsoftmax.TreeSoftmax(V), *(character_tied(make) for make in (
        tfsoftmax.FullSoftmax, tfsoftmax.SphericalSoftmax, tfsoftmax.TaylorSoftmax,
        tfsoftmax.CubicScores,
    )),
])
def test_heads_that_cannot_have_more_words_are_refused(head):
    if isinstance(head, LinearHead) and not isinstance(head, tfsoftmax.FullSoftmax):
        head.build((None, UNITS))
    with refuses("head", "tied to a CharacterE"):
        with_words(head, ["unseen"])


@pytest.mark.parametrize("make", [tfsoftmax.NCE, tfsoftmax.NegativeSampling])
def test_scores_that_read_the_word_before_cannot_have_more_words(make):
    head = character_tied(make, 5, "bigram", ngram=ngram(V), shared_samples=False)
    head.build((None, UNITS + ID_UNITS))
    with refuses("head", "be built, with P"):
        with_words(head, ["unseen"])


def test_unbuilt_characters_and_words_beside_a_tie_are_named():
    words = ["<unk>", "<eos>", *spelled(V)[2:]]
    embedding = CharacterEmbedding(V, UNITS, words)
    with refuses(None, "CharacterEmbedding must be built before it gets more"):
        embedding.with_words(["unseen"])
    for given in ({"words": words}, {"characters": {"filters": [2]}}):
        with refuses(None, "`words` and `characters` must be None with `tied_to`"):
            CharCnnSoftmax(V, tied_to=embedding, **given)
    vocabulary = Vocabulary(words, counts(V))
    assert head_for(vocabulary, CharCnnSoftmax, tied_to=embedding).tied_to is embedding

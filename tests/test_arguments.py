"""Facts about the options of heads and settings: a value of the wrong type is named, not used."""

import json

import numpy as np
import pytest

import tfsoftmax
from tfsoftmax import ModelConfig, language_model
from tfsoftmax.commands.options import as_field
from tfsoftmax.support.arguments import check_hint, expect, refusing

V = 30
NAN, INF = float("nan"), float("inf")
COUNTS = np.arange(V, 0, -1)
WORDS = ["<unk>", "<eos>", *(f"w{i}" for i in range(V - 2))]


@pytest.mark.parametrize("head, options", [
    ("full", {"use_bias": "no"}), ("full", {"use_bias": 0}), ("full", {"soft_cap": NAN}),
    ("full", {"soft_cap": INF}), ("full", {"z_loss": NAN}), ("full", {"z_loss": 1e39}),
    ("full", {"label_smoothing": False}), ("self_normalised", {"alpha": INF}),
    ("self_normalised", {"squared": "no"}), ("nce", {"Z": None}), ("nce", {"Z": True}),
    ("nce", {"train_z": 1}), ("sampled", {"num_samples": 10**11}),
    ("sampled", {"num_samples": 2.0}), ("sampled", {"num_samples": True}),
    ("sampled", {"shared_samples": "no"}),
    ("negative", {"restore_proposal": "no"}), ("blackout", {"remove_accidental_hits": "yes"}),
    ("adaptive", {"cutoffs": [4.0, 9]}), ("adaptive", {"cutoffs": [True, 9]}),
    ("adaptive", {"cutoffs": 9}), ("adaptive", {"shares": [NAN], "cutoffs": [4]}),
    ("adaptive", {"shares": [-1.0], "cutoffs": [4]}), ("adaptive", {"projection_factor": INF}),
    ("adaptive", {"permutation": "no", "cutoffs": [4]}),
    ("differentiated", {"units": [4.5, 3], "cutoffs": [4]}),
    ("differentiated", {"projection_factor": NAN, "cutoffs": [4]}),
    ("shortlist", {"shortlist": 7.0, "counts": COUNTS}),
    ("shortlist", {"oos_node": "no", "shortlist": 7, "counts": COUNTS}),
    ("self_organised", {"frequency_budget": NAN, "counts": COUNTS}),
    ("self_organised", {"frequency_budget": -0.1, "counts": COUNTS}),
    ("self_organised", {"gamma": INF, "counts": COUNTS}),
    ("self_organised", {"counts": [NAN] * V}), ("self_organised", {"counts": "many"}),
    ("char_cnn", {"words": 3}), ("char_cnn", {"words": ["a"] * 3}),
    ("class", {"num_classes": 5.5}), ("class", {"num_classes": True}), ("tree", {"tree": {}}),
])
def test_a_wrong_option_of_a_head_is_named_when_it_is_made(head, options):
    with pytest.raises(ValueError, match=rf"`{next(iter(options))}` must "):
        tfsoftmax.HEADS[head](V, **options)


@pytest.mark.parametrize("head, options", [
    ("taylor", {"epsilon": 2.0}), ("class", {"tree": [0, 1]}),
    ("class_nce", {"counts": COUNTS, "tree": [0, 1]}),
])
def test_an_option_that_a_head_decides_itself_is_refused(head, options):
    name = [*options][-1]
    with pytest.raises(TypeError, match=f"`{name}` is not an argument of .* Received: {name}="):
        tfsoftmax.HEADS[head](V, **options)


@pytest.mark.parametrize("options", [{"alpha": NAN}, {"unique": "no"}])
def test_a_wrong_option_of_a_sampler_is_named(options):
    with pytest.raises(ValueError, match=rf"`{next(iter(options))}` must be"):
        tfsoftmax.samplers.Unigram(V, counts=COUNTS, **options)


@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm"])
@pytest.mark.parametrize("value", [NAN, INF, "1", True])
def test_a_wrong_norm_of_clipping_is_named(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be a finite number, or None"):
        tfsoftmax.optimizers.Adagrad(0.1, **{name: value})


def test_positional_arguments_are_checked_too():
    with pytest.raises(ValueError, match="`z_loss` must be a finite number. Received: z_loss=nan"):
        tfsoftmax.FullSoftmax(V, 0.1, NAN)


@pytest.mark.parametrize("value, hint", [
    (np.int64(3), int), (np.float32(3), float), (3, float), (np.True_, bool), (None, int | None),
    ("auto", float | str), (NAN, object),
])
def test_numbers_of_numpy_and_other_hints_pass(value, hint):
    check_hint("x", value, hint)


@pytest.mark.parametrize("tie", [False, True])
def test_head_options_hold_no_layer(tie):
    config = ModelConfig(
        embedding_units=6, hidden_units=6, tie_embeddings=tie, head_options={"tied_to": "embedding"}
    )
    with pytest.raises(ValueError, match="`head_options` must not have `tied_to`; set `tie_emb"):
        language_model(config, tfsoftmax.Vocabulary(WORDS, COUNTS), 2)


@pytest.mark.parametrize("options, name", [
    *(({name: 5}, name) for name in ("dtype", "name", "vocab_size")),
    *(({"characters": {name: 5}}, name) for name in ("dtype", "name", "input_dim")),
])
def test_head_options_that_the_model_sets_are_refused_by_name(options, name):
    config = ModelConfig(embedding_units=6, hidden_units=6, head_options=options)
    with pytest.raises(ValueError, match=f"FullSoftmax: got multiple values for .*'{name}'"):
        language_model(config, tfsoftmax.Vocabulary(WORDS, COUNTS), 2)


@pytest.mark.parametrize("text, message", [
    ('{"soft_cap": 30, "soft_cap": 3}', "'soft_cap' twice"), ("[" * 10**5, "levels of brackets"),
    ("{", "must be JSON"), (json.dumps([1]), "must be a JSON object"),
])
def test_head_options_in_a_flag_are_one_json_object(text, message):
    field = ModelConfig.__dataclass_fields__["head_options"]
    with pytest.raises(ValueError, match=f"`head_options` .*{message}"):
        as_field(text, field)


@pytest.mark.parametrize("arguments, message", [
    (("k", "lie in [1, 9]", 10), "`k` must lie in [1, 9]. Received: k=10"),
    (("k", "be an integer", np.float64(1.5)), "`k` must be an integer. Received: k=1.5"),
    (("name", "be one of ('a',)", "b"), "`name` must be one of ('a',). Received: name='b'"),
    (("w.txt, line 3:", "be a word", ""), "w.txt, line 3: must be a word. Received: ''"),
    (("x", "be (V,)", None, "shape ()"), "`x` must be (V,). Received: shape ()"),
    (("a", "be b", None, {"a": 1, "b": "2"}), "`a` must be b. Received: a=1, b='2'"),
    (("x", "be short", "a" * 999), f"`x` must be short. Received: x='{'a' * 198}…"),
])
def test_a_refusal_names_the_argument_the_rule_and_the_value(arguments, message):
    expect(True, *arguments)
    with pytest.raises(ValueError) as error:
        expect(False, *arguments)
    assert str(error.value) == message
    is_name = arguments[0].isidentifier()
    assert error.value.argument == (arguments[0] if is_name else None)


def test_errors_of_other_code_become_refusals():
    with pytest.raises(ValueError, match="`x` must be a number. Received: x of could not") as error:
        with refusing((ValueError, TypeError), "x", "be a number", before="x of "):
            float("a")
    assert error.value.argument == "x" and error.value.__cause__ is not None
    with pytest.raises(KeyError):
        with refusing(ValueError, "x", "be a number"):
            {}["a"]


def test_a_value_is_rendered_only_for_the_message():
    class Silent:
        def __repr__(self):
            raise AssertionError

    expect(True, "x", "be silent", Silent())
    with pytest.raises(TypeError, match="`x` must be silent. Received: x=1"):
        expect(False, "x", "be silent", 1, error=TypeError)

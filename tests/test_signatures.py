"""Every argument of a head stands in its signature, for `help` and for tools that read sources."""

import inspect
import json
import typing

import pytest

import tfsoftmax
from cases import needed
from tfsoftmax import HEADS
from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.heads.shards import Shards
from tfsoftmax.heads.tied import TiedHead

V = 30
LAYER = {"name", "dtype", "trainable"}
BASES = (TiedHead, LinearHead, Shards, SamplingHead)
ALL = [*HEADS.values(), *BASES, tfsoftmax.CubicScores]


def made(name, **options):
    return HEADS[name](V, **{**options, **needed(name, V)}, name="head")


def shown(head):
    return inspect.signature(head).parameters


def configured(value):
    """A configuration as JSON, without the names of its parts, which have a number."""
    if isinstance(value, dict):
        return {key: configured(part) for key, part in value.items() if key != "name"}
    if isinstance(value, (list, tuple)):
        return list(map(configured, value))
    return json.loads(json.dumps(value, default=str))


@pytest.mark.parametrize("name", HEADS)
def test_what_a_configuration_has_is_in_the_signature(name):
    missing = set(made(name).get_config()) - set(shown(HEADS[name])) - LAYER
    assert not missing


@pytest.mark.parametrize("name", HEADS)
def test_the_defaults_that_are_shown_are_those_that_act(name):
    defaults = {p.name: p.default for p in shown(HEADS[name]).values() if p.default is not p.empty}
    assert {"use_bias", "kernel_initializer", "bias_constraint"} <= set(defaults)
    given, left = made(name, **defaults).get_config(), made(name).get_config()
    assert configured(given) == configured(left)


@pytest.mark.parametrize("head", ALL)
def test_the_source_shows_the_same_arguments(head):
    """A tool that runs nothing reads the constructor, and the keys of its `Unpack`."""
    names = set(inspect.signature(head.__init__).parameters) - {"self", "kwargs"}
    (passed_on,) = typing.get_args(head.__init__.__annotations__["kwargs"])
    keys = typing.get_type_hints(passed_on)
    assert not names & set(keys)
    assert names | set(keys) == set(shown(head)) - {"kwargs"} | LAYER
    hints = {name: shown(head)[name].annotation for name in set(keys) - LAYER}
    assert hints.items() <= keys.items()


@pytest.mark.parametrize("name", HEADS)
def test_an_argument_that_no_base_has_is_refused_by_its_name(name):
    with pytest.raises((TypeError, ValueError), match="no_such_option"):
        made(name, no_such_option=3)


def test_a_head_of_a_user_shows_what_it_passes_on():
    class Own(tfsoftmax.FullSoftmax):
        decided_options = ("z_loss",)

        def __init__(self, vocab_size, temperature=1.0, **kwargs):
            super().__init__(vocab_size, **kwargs)

    names = list(shown(Own))
    assert names[:3] == ["vocab_size", "temperature", "label_smoothing"] and "z_loss" not in names
    assert shown(Own)["use_bias"].kind == inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(TypeError, match="`z_loss` is not an argument of Own"):
        Own(V, z_loss=0.1)


def test_the_signature_of_a_built_head_is_that_of_its_call():
    assert "hidden" in shown(tfsoftmax.FullSoftmax(V))


@pytest.mark.parametrize("sampler", ["InBatch", "TargetSampling", "Excluding", "Bigram"])
def test_a_sampler_does_not_show_what_it_decides(sampler):
    assert "unique" not in shown(getattr(tfsoftmax.samplers, sampler))
    assert "unique" in shown(tfsoftmax.samplers.Unigram)

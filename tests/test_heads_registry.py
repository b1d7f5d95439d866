"""`HEADS`, the exports, the contract, the README and the benchmarks list every head."""

import importlib
import inspect
import pathlib
import pkgutil
import re

import keras
import numpy as np
import pytest

import tfsoftmax
from cases import CASES, ONE_OF_EACH, UNITS, built, positions
from experiments.benchmarks import head_suites as benchmarks
from experiments.benchmarks.head_products import products_of
from refusals import refuses
from tfsoftmax import HEADS, SoftmaxHead, heads, survey
from tfsoftmax.heads.tied import TiedHead
from tfsoftmax.lm.head_options import KnownOptions, known_options

ROOT = pathlib.Path(__file__).parent.parent
V = 20
CASE_OF = {type(make(V)): case for case, make in reversed(CASES.items())}  # the first of each


def descendants(cls):
    return {cls}.union(*map(descendants, cls.__subclasses__()))


def test_heads_lists_every_head_that_keras_can_load():
    for module in pkgutil.iter_modules(heads.__path__):
        importlib.import_module(f"tfsoftmax.heads.{module.name}")
    ours = {cls for cls in descendants(SoftmaxHead)
            if cls.__module__.startswith("tfsoftmax.") and cls.is_distribution}
    saved = {cls for cls in ours if keras.saving.get_registered_name(cls) != cls.__name__}
    saved -= {tfsoftmax.SampledObjective}  # whose loss is written in Python: no command offers it
    missing = {cls.__name__ for cls in saved ^ set(HEADS.values())}
    assert not missing, f"registered with Keras, or in `HEADS`, but not both: {missing}"


@pytest.mark.parametrize("head", HEADS.values())
def test_heads_are_exported_at_the_top(head):
    room = heads if head.__module__.startswith("tfsoftmax.heads.") else survey
    assert head.__name__ in room.__all__, f"add it to `__all__` of {room.__name__}"
    assert head.__name__ in tfsoftmax.__all__
    assert getattr(tfsoftmax, head.__name__) is head


@pytest.mark.parametrize("head", HEADS.values())
def test_heads_run_through_the_contract(head):
    assert head in CASE_OF, f"add a case of {head.__name__} to `CASES` in tests/cases.py"
    assert CASE_OF[head] in ONE_OF_EACH, "the first case of a head has a name without spaces"


def test_the_guide_lists_every_head():
    guide = (ROOT / "docs" / "which_head.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([^|]*) \|", guide, re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    missing = {head.__name__ for head in HEADS.values()} - listed
    assert not missing, f"add rows to the table of heads in docs/which_head.md: {missing}"


@pytest.mark.parametrize("name", HEADS)
def test_benchmarks_time_every_head_and_know_its_products(name):
    timed = {case.head for case in benchmarks.heads(1000)}
    assert name in timed, "add a case to `heads` in experiments/benchmarks/head_suites.py"
    products = products_of(built(CASE_OF[HEADS[name]], V), positions(V, 9)[1])
    assert products and all(min(product) >= 0 for product in products)
    assert sum(np.prod(product) for product in products) > 0


@pytest.mark.parametrize("head", HEADS.values())
def test_the_toolkit_knows_the_arguments_of_every_head(head):
    taken = set(inspect.signature(head).parameters)
    known, row = known_options(head), "correct its row in tfsoftmax/lm/head_options.py"
    assert set(known.vocabulary) == taken & {"counts", "words"}, row
    matrices = {name for name in taken if name.endswith("_initializer")} - {"bias_initializer"}
    assert set(known.matrices) == matrices, row
    assert (known.embedding is not None) == issubclass(head, TiedHead), row
    assert set(known.files) | set(known.machine) <= taken, row


def test_a_subclass_has_the_rows_of_its_nearest_base():
    class Mine(tfsoftmax.TwoLevelSoftmax):
        pass

    assert known_options(Mine) is known_options(tfsoftmax.TwoLevelSoftmax)
    head = Mine(V, [4])
    head.build((None, UNITS))
    labels = np.array([1, 2, 9], np.int32)
    assert products_of(head, labels) == [(3, UNITS, 5), (1, UNITS, V - 4)]


def test_a_head_without_rows_has_defaults_and_no_products():
    head = SoftmaxHead(V)
    assert known_options(SoftmaxHead) == KnownOptions()
    with refuses(None, "`head` must be of a class that has a row in `PRODUCTS`"):
        products_of(head, np.arange(3))


@pytest.mark.parametrize("head, products", [
    (tfsoftmax.DifferentiatedSoftmax(V, [4], units=[5, 2]), [(10, 5, 4), (10, 2, 16)]),
    (tfsoftmax.DifferentiatedSoftmax(V, [4], units=[UNITS, 2], projected=True),
     [(10, UNITS, 4), (10, 2, 16), (10, UNITS, 2)]),
    (tfsoftmax.Shortlist(V, 4, counts=np.ones(V)), [(10, UNITS, 5)]),
    (tfsoftmax.SelfNormalisedSoftmax(V, fraction=0.25), [(3, UNITS, V)]),
    # 1 + 2 / 4 products instead of 3
    (tfsoftmax.FullSoftmax(60, gradient_share=0.25), [(10, UNITS, 30)]),
])
def test_products_of_parts_of_the_hidden_state_and_of_the_vocabulary(head, products):
    head.build((None, UNITS))
    assert products_of(head, np.arange(10, dtype=np.int32)) == products


def test_products_of_clusters_that_are_learnt():
    head = tfsoftmax.SelfOrganisedSoftmax(V, np.ones(V))
    head.build((None, UNITS))
    labels = np.array([3, 3, 7], np.int32)
    products = products_of(head, labels)
    whole, words = products[:3], products[3:]
    assert whole == [(3, UNITS, UNITS), (3, UNITS, UNITS), (3, UNITS, 5)]
    scores = sum(int((head.clusters == head.clusters[label]).sum()) for label in labels)
    assert sum(rows * columns for rows, _, columns in words) == scores

import dataclasses
import json
import re

import numpy as np
import pytest

from tfsoftmax.partitions import calibration
from tfsoftmax.partitions.calibration import POINTS, fit, machine_constants, measure
from tfsoftmax.partitions.cost_model import MachineCosts, zipf
from tfsoftmax.partitions.cutoffs import auto_cutoffs


@pytest.mark.parametrize("true", [
    MachineCosts(3e-4, 1.5e-11, 9e-10, 5e-10),
    MachineCosts(1e-5, 1e-12, 0.0, 0.0, 2e-4),
    MachineCosts(0.0, 1e-11),
])
def test_fit_finds_the_constants_that_made_the_times(true):
    points = np.array(POINTS, np.float64).T
    found = fit(POINTS, true.product_seconds(*points))
    np.testing.assert_allclose(
        found.product_seconds(*points), true.product_seconds(*points), rtol=1e-6
    )
    np.testing.assert_allclose(found.multiply_seconds, true.multiply_seconds, rtol=1e-6)


def test_fit_of_noisy_times_is_near_and_never_negative():
    true = MachineCosts(3e-4, 1.5e-11, 9e-10, 0.0)
    noise = np.random.default_rng(0).uniform(0.9, 1.1, size=len(POINTS))
    found = fit(POINTS, noise * true.product_seconds(*np.array(POINTS, np.float64).T))
    assert min(dataclasses.astuple(found)) >= 0
    np.testing.assert_allclose(found.multiply_seconds, true.multiply_seconds, rtol=0.2)


def test_measured_times_are_positive_and_grow_with_the_product():
    small, large = measure([(8, 8, 8), (512, 128, 2048)], rounds=3)
    assert 0 < small < large


@pytest.fixture
def cache(tmp_path, monkeypatch):
    points = ((64, 32, 256), (8, 8, 8), (64, 8, 512), (8, 64, 512))
    monkeypatch.setattr(calibration, "POINTS", points)
    path = tmp_path / "folder" / "costs.json"
    monkeypatch.setenv("TFSOFTMAX_CACHE", str(path))
    return path


def test_constants_are_measured_once_for_each_hardware(cache, monkeypatch):
    first = machine_constants()
    assert first.multiply_seconds > 0 and first.overhead_seconds >= 0
    monkeypatch.setattr(calibration, "measure", lambda points: pytest.fail("measured again"))
    assert machine_constants() == first
    monkeypatch.setattr(calibration, "measure", lambda points: np.full(len(points), 1e-3))
    assert machine_constants(remeasure=True) != first
    monkeypatch.setattr(calibration, "measured_on", lambda: "another machine")
    machine_constants()
    assert len(json.loads(cache.read_text())) == 2


def test_auto_cutoffs_are_those_of_the_machine_and_of_its_constants(cache):
    counts = zipf(3000, 1.0)
    assert auto_cutoffs(counts, 64) == auto_cutoffs(counts, 64, constants=machine_constants())


@pytest.mark.parametrize("content", ["not JSON", "[]", '{"here": {"seconds": 1}}'])
def test_a_damaged_file_is_measured_again(cache, content, monkeypatch):
    monkeypatch.setattr(calibration, "measured_on", lambda: "here")
    cache.parent.mkdir()
    cache.write_text(content)
    constants = machine_constants()
    assert json.loads(cache.read_text())["here"] == dataclasses.asdict(constants)


def test_a_file_that_cannot_be_written_does_no_harm(cache, monkeypatch):
    cache.parent.write_text("a file where the folder should be")
    assert machine_constants().multiply_seconds > 0


def test_hardware_names_processor_and_library():
    assert re.match(r"\d+ cores? of .+, TensorFlow 2\.", calibration.measured_on())

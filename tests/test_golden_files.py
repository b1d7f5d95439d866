"""Files and results of an earlier commit: tests/golden, which tests/golden_files.py wrote."""

import json
import zipfile

import keras
import numpy as np
import pytest

from cases import CASES
from golden_files import path_of, results_of


def version(text):
    return [int(part) for part in text.split(".")[:2]]


@pytest.mark.parametrize("case", CASES)
def test_models_of_an_earlier_commit_load_and_compute_what_they_did(case):
    assert path_of(case, ".keras").exists(), "run tests/golden_files.py and commit its file"
    with zipfile.ZipFile(path_of(case, ".keras")) as file:
        written_by = json.loads(file.read("metadata.json"))["keras_version"]
    if version(keras.__version__) < version(written_by):
        pytest.skip("Keras reads no files of later versions")
    model = keras.models.load_model(path_of(case, ".keras"))
    wanted = np.load(path_of(case, ".npz"))
    found = results_of(model)
    assert found.keys() == set(wanted.files)
    if "nats" in found:
        assert np.isnan(found["nats"][0])  # where the weight is zero
        found["nats"][0] = wanted["nats"][0]
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=2e-6, err_msg=name)

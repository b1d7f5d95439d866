import gc
import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def pytest_collection_finish():
    """Spares Python the search for garbage among what TensorFlow's import made."""
    gc.freeze()


@pytest.fixture
def mended_keras(monkeypatch):
    """`mend_keras` for one test."""
    from tfsoftmax.support import mends

    for owner, name, _ in mends._MENDS:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    mends.mend_keras()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A corpus on which a run takes seconds."""
    import runs_helper

    return runs_helper.small_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def finished_run(corpus, tmp_path_factory):
    """A run that was never interrupted."""
    import runs_helper
    from tfsoftmax.lm import runs, training

    directory = str(tmp_path_factory.mktemp("run") / "run")
    model, config = runs_helper.MODEL, runs_helper.CONFIG
    training.train(corpus.directory, directory, model, config, verbose=False)
    return runs.Run(directory)


@pytest.fixture(scope="session")
def generating_run(tmp_path_factory):
    """The folder of a run whose model is `generation_helper`'s."""
    import generation_helper

    return generation_helper.run_of_a_model(tmp_path_factory.mktemp("generating") / "run")

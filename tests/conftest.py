import fnmatch
import gc
import os
import pathlib
import re
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


TESTS = pathlib.Path(__file__).parent


def slow_tier():
    """{test: the patterns of the cases that the default suite keeps} of slow_tier.txt."""
    lines = (TESTS / "slow_tier.txt").read_text(encoding="utf-8").splitlines()
    named = [line.partition(" keeps ") for line in lines if not line.startswith("#")]
    table = {name: [case.strip() for case in cases.split(";")] for name, _, cases in named}
    if len(table) < len(named):
        raise pytest.UsageError("slow_tier.txt names a test twice")
    return table


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config, items):
    table = slow_tier()
    collected, found = set(), set()
    for item in items:
        file = item.path.relative_to(TESTS).as_posix()
        name = f"{file}::{getattr(item, 'originalname', item.name)}"
        collected.add(file)
        if name not in table:
            continue
        found.add(name)
        case = item.callspec.id if hasattr(item, "callspec") else None
        if case is None or not any(fnmatch.fnmatchcase(case, keep) for keep in table[name]):
            item.add_marker(pytest.mark.slow)
    missing = {name for name in table if name.partition("::")[0] in collected} - found
    if missing and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"slow_tier.txt names no test: {', '.join(sorted(missing))}")


def _refuses_skips(report):
    """With every optional package installed (`make test-extras`), none may be missing."""
    reason = str(report.longrepr)
    missing = re.search("could not import|needs faiss|needs kenlm|no Chromium", reason)
    if os.environ.get("TFSOFTMAX_EXTRAS") and report.skipped and missing:
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _refuses_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _refuses_skips((yield))


def pytest_collection_finish():
    """Spares Python the search for garbage among what TensorFlow's import made."""
    gc.freeze()
    gc.set_threshold(700, 10, 1_000_000)  # full collections: see `pytest_runtest_teardown`


_ended = []  # the modules of tests that have ended


def pytest_runtest_teardown(item, nextitem):
    """Collects all garbage after some modules, and never again looks at what is left by then.

    Python would look at every object of the session each time, an eighth of the suite's time.
    """
    if nextitem is None or nextitem.path != item.path:
        _ended.append(item.path)
        if len(_ended) % 8 == 0:
            _forget_graphs()
            gc.collect()
            gc.freeze()


def _forget_graphs():
    """Drops what TensorFlow keeps of each gradient that it ever traced: the function's graph."""
    ops = sys.modules.get("tensorflow.python.framework.ops")
    gradients = ops.gradient_registry._registry if ops else {}
    for name in [name for name in gradients if name.startswith("CustomGradient-")]:
        del gradients[name]


@pytest.fixture
def restored_keras(monkeypatch):
    """Takes back what a test mends in Keras, which later tests of the process would notice."""
    from tfsoftmax.support import mends

    for owner, name, _ in mends._MENDS:
        monkeypatch.setattr(owner, name, getattr(owner, name))


@pytest.fixture
def mended_keras(restored_keras):
    """`mend_keras` for one test."""
    from tfsoftmax.support import mends

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
    from tfsoftmax.runs import runs

    directory = str(tmp_path_factory.mktemp("run") / "run")
    runs_helper.train(corpus, directory)
    return runs.Run(directory)


@pytest.fixture(scope="session")
def generating_run(tmp_path_factory):
    """The folder of a run whose model is `generation_helper`'s."""
    import generation_helper

    return generation_helper.run_of_a_model(tmp_path_factory.mktemp("generating") / "run")


@pytest.fixture
def through_a_file(tmp_path):
    """A function that saves a model in a file of Keras's and returns what is loaded from it."""
    import keras

    def saved_and_loaded(model):
        model.save(tmp_path / "reloaded.keras")
        return keras.saving.load_model(tmp_path / "reloaded.keras")

    return saved_and_loaded


@pytest.fixture
def set_policy():
    """A function that sets the global dtype policy, which is float32 again after the test."""
    import keras

    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy("float32")

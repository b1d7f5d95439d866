"""What changes Keras: `mend_keras`, where a program calls it, and nothing else."""

import subprocess
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

import replicas_helper
import tfsoftmax

WATCH = """
import sys
import types
import keras

def functions():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("keras.src"):
            for owner in [module, *vars(module).values()]:
                if owner is module or isinstance(owner, type):
                    for key, value in vars(owner).items():
                        if isinstance(value, types.FunctionType):
                            found[getattr(owner, "__qualname__", owner.__name__), key] = id(value)
    return found

before = functions()
import numpy as np
import tfsoftmax
"""
USE_AND_MEND = """
hidden = keras.Input((4,))
heads = [
    tfsoftmax.FullSoftmax(9), tfsoftmax.AdaptiveSoftmax(9, [3, 6]), tfsoftmax.TreeSoftmax(9),
    tfsoftmax.SampledSoftmax(9, 3, "uniform"),
]
model = keras.Model(hidden, [head(hidden) for head in heads])
model.compile(tfsoftmax.optimizers.Adagrad(0.1), [tfsoftmax.SoftmaxLoss() for _ in heads])
model.fit(np.ones((6, 4), "float32"), [np.arange(6)] * len(heads), verbose=0)
model.save(sys.argv[1])
keras.saving.load_model(sys.argv[1])
for mend in (lambda: None, tfsoftmax.mend_keras):
    mend()
    after = functions()
    print(sorted(str(key) for key in before if after[key] != before[key]))
"""


def test_heads_and_losses_change_nothing_in_keras_and_mend_keras_five_functions(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WATCH + USE_AND_MEND, str(tmp_path / "model.keras")],
        capture_output=True, text=True, cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    used, names = done.stdout.splitlines()
    assert used == "[]"
    for name in ("_maybe_symbolic_build", "reduce_per_replica", "_make_function", "check_finite",
                 "_save_model_to_fileobj"):
        assert name in names


def test_a_second_call_mends_nothing_again(mended_keras):
    from tfsoftmax.support._compat import trainer

    mended = trainer.reduce_per_replica
    tfsoftmax.mend_keras()
    assert trainer.reduce_per_replica is mended


def warnings_of_replicas(mended):
    """The warnings of a head and of an optimiser that are made for two replicas."""
    import warnings

    from tfsoftmax.support._compat import trainer

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not mended:
            patch.setattr(trainer, "reduce_per_replica", trainer.reduce_per_replica.__wrapped__)
        with replicas_helper.strategy_here().scope():
            head = tfsoftmax.FullSoftmax(9)
            head.build((None, 4))
            tfsoftmax.optimizers.Adagrad(0.1).build(head.trainable_variables)
    return [str(each.message) for each in caught if "mend_keras" in str(each.message)]


def test_a_loss_that_is_scaled_without_it_is_warned_of(set_policy):
    set_policy("mixed_float16")
    with pytest.warns(UserWarning, match=r"`LossScaleOptimizer` overlooks .*mend_keras"):
        tfsoftmax.optimizers.Adagrad(0.1).build([keras.Variable(np.zeros((3, 2)))])
    set_policy("mixed_bfloat16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tfsoftmax.optimizers.Adagrad(0.1).build([keras.Variable(np.zeros((3, 2)))])


@pytest.mark.parametrize("mended", [True, False])
def test_replicas_without_it_are_warned_of(mended):
    (messages,) = replicas_helper.run(warnings_of_replicas, devices=2, mended=mended)
    assert len(messages) == (0 if mended else 2)
    assert all("Call `tfsoftmax.mend_keras()` once" in message for message in messages)

"""Memory of compiled training steps, as XLA assigns their buffers."""

import os
import re
import subprocess
import sys

import pytest

WORDS, UNITS = 20_000, 16
TRAIN = f"""
import sys
import keras, numpy as np, tfsoftmax
positions, ours = int(sys.argv[1]), sys.argv[2] == "ours"
inputs = keras.Input(({UNITS},))
layer = tfsoftmax.FullSoftmax({WORDS}) if ours else keras.layers.Dense({WORDS})
model = keras.Model(inputs, layer(inputs))
loss = tfsoftmax.SoftmaxLoss() if ours else keras.losses.SparseCategoricalCrossentropy(True)
optimizer = tfsoftmax.optimizers.Adagrad(0.1) if ours else "adagrad"
model.compile(optimizer, loss, jit_compile=True)
model.train_on_batch(np.ones((positions, {UNITS})), np.arange(positions))
"""


def compiled_bytes(folder, positions, whose):
    """Bytes of all buffers of the training step, from the report of XLA in a process of its own."""
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=.*one_step.*"
    environment = {**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", TRAIN, str(positions), whose]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    (report,) = folder.glob("*memory-usage-report.txt")
    return int(re.search(r"Total bytes used: (\d+)", report.read_text())[1])


@pytest.mark.slow
def test_the_memory_for_logits_does_not_grow_with_the_batch(tmp_path):
    sizes = {
        (positions, whose): compiled_bytes(tmp_path / f"{whose}{positions}", positions, whose)
        for positions in (512, 4096) for whose in ("ours", "keras")
    }
    logits = 4 * WORDS * 4096
    assert sizes[4096, "ours"] - sizes[512, "ours"] < logits / 20
    assert sizes[4096, "keras"] - sizes[512, "keras"] > logits * 7 / 8

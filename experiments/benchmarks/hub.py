"""Memory and time of fine-tuning a model of keras_hub, with its own loss and with a head of ours.

    python -m experiments.benchmarks.hub --results=experiments/results/hub

The model is a small Gemma with random weights and the vocabulary of the real one. Each measurement
is a process of its own, which compiles the model, takes one step that does not count, then more
steps. The variants take turns. Needs `pip install keras-hub`.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import time

from experiments.framework import markdown

VARIANTS = {  # (head or None, jit_compile): description
    (None, True): "keras_hub's own loss, XLA",
    ("full", True): '`with_head(causal_lm, "full")`, XLA',
    (None, False): "keras_hub's own loss",
    ("full", False): '`with_head(causal_lm, "full")`',
}
GIGABYTE = 1e9


@dataclasses.dataclass(frozen=True)
class Scale:
    """Size of the model, of a batch and of the measurement.

    Attributes:
        vocab_size: V.
        layers, units: of the backbone.
        batch, time_steps: B and T.
        dtype: dtype policy of the model.
        steps: training steps whose median is the time of one process.
        rounds: processes for each variant.
    """

    vocab_size: int = 256_000
    layers: int = 2
    units: int = 256
    batch: int = 4
    time_steps: int = 256
    dtype: str = "float32"
    steps: int = 3
    rounds: int = 4


def compiled(head, jit_compile, scale):
    """The model with a head of ours or without one, compiled."""
    import keras
    import keras_hub

    import tfsoftmax

    keras.utils.set_random_seed(1)
    backbone = keras_hub.models.GemmaBackbone(
        vocabulary_size=scale.vocab_size, num_layers=scale.layers, num_query_heads=4,
        num_key_value_heads=1, hidden_dim=scale.units, intermediate_dim=4 * scale.units,
        head_dim=scale.units // 4, final_logit_soft_cap=30.0, dtype=scale.dtype,
    )
    model = keras_hub.models.GemmaCausalLM(backbone)
    if head is not None:
        model = tfsoftmax.hub.with_head(model, head)
    model.compile(keras.optimizers.Adam(2e-5), weighted_metrics=[], jit_compile=jit_compile)
    return model


def measure(head, jit_compile, scale):
    """Seconds of a step, bytes at the peak, and the loss of the first step."""
    import numpy as np

    from tfsoftmax.profiling.memory import device_memory, peak_resident_bytes, resident_bytes
    from tfsoftmax.support.hardware import hardware

    model = compiled(head, jit_compile, scale)
    shape = scale.batch, scale.time_steps + 1
    tokens = np.random.default_rng(0).integers(0, scale.vocab_size, shape)
    inputs = {"token_ids": tokens[:, :-1], "padding_mask": np.ones(tokens[:, 1:].shape, bool)}
    before, seconds, losses = resident_bytes(), [], []
    for _ in range(1 + scale.steps):
        start = time.perf_counter()
        losses.append(float(model.train_on_batch(inputs, tokens[:, 1:])))
        seconds.append(time.perf_counter() - start)
    return {
        "head": head, "jit_compile": jit_compile,
        "seconds": statistics.median(seconds[1:]), "loss": losses[0],
        "resident": before, "peak": peak_resident_bytes(), "devices": device_memory(),
        "hardware": hardware(), "parameters": int(model.count_params()),
    }


def run(scale):
    """Rows of all rounds, measured in turn, each in a process of its own."""
    rows = []
    for turn in range(scale.rounds):
        for variant in VARIANTS if turn % 2 == 0 else reversed(VARIANTS):
            command = [sys.executable, "-m", "experiments.benchmarks.hub", "--worker",
                       json.dumps([*variant, dataclasses.asdict(scale)])]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            rows.append(json.loads(output.splitlines()[-1]))
            print(rows[-1], flush=True)
    return rows


def page(scale, rows):
    """The results as blocks of Markdown."""
    first = rows[0]
    logits = 4 * scale.batch * scale.time_steps * scale.vocab_size / GIGABYTE
    of = {v: [r for r in rows if (r["head"], r["jit_compile"]) == v] for v in VARIANTS}
    gpu = next((d for d in first["devices"] if d.startswith("gpu")), None)

    def peak(row):
        return (row["devices"][gpu][1] if gpu else row["peak"]) / GIGABYTE

    def spread(values, digits):
        ordered = sorted(values)
        return f"{ordered[0]:.{digits}f} to {ordered[-1]:.{digits}f}"

    lines = [["", "peak memory, GB", "of which steps added", "seconds a step", "lowest to highest",
              "loss of the first step"]]
    for variant, mine in of.items():
        seconds = [row["seconds"] for row in mine]
        added = statistics.median((row["peak"] - row["resident"]) / GIGABYTE for row in mine)
        lines.append([
            VARIANTS[variant], f"{statistics.median(map(peak, mine)):.2f}",
            "" if gpu else f"{added:.2f}", f"{statistics.median(seconds):.2f}",
            spread(seconds, 2), f"{mine[0]['loss']:.5f}",
        ])
    ratios = [
        statistics.median(map(key, of[None, jit])) / statistics.median(map(key, of["full", jit]))
        for jit in (True, False) for key in (peak, lambda row: row["seconds"])
    ]
    source = f"GPU's allocator ({gpu})" if gpu else "process's resident set"
    return [
        "# Fine-tuning a model of keras_hub",
        f"A training step of a Gemma with random weights: V = {scale.vocab_size:,}, "
        f"{scale.layers} layers of {scale.units} units, {first['parameters'] / 1e6:.0f} million "
        f"parameters in {scale.dtype}, a final cap of the logits, {scale.batch} sequences of "
        f"{scale.time_steps} tokens, Adam for both. All logits in float32 would take "
        f"{logits:.2f} GB. Hardware: {first['hardware']}; other programs were running on it.",
        markdown.table(lines),
        f"Without XLA keras_hub's loss takes {ratios[2]:.2f} times the memory and "
        f"{ratios[3]:.2f} times the time of the head; with XLA (`jit_compile=True`), "
        f"{ratios[0]:.2f} times the memory and {ratios[1]:.2f} times the time.",
        f"Medians of {scale.rounds} processes for each row, which took turns; the time of a "
        f"process is the median of {scale.steps} steps after one that does not count. Memory is "
        f"the peak of the {source}, weights and slots of the optimiser included. Command:",
        f"    python -m experiments.benchmarks.hub --vocab_size={scale.vocab_size} "
        f"--layers={scale.layers} --units={scale.units} --batch={scale.batch} "
        f"--time_steps={scale.time_steps} --dtype={scale.dtype} --steps={scale.steps} "
        f"--rounds={scale.rounds}",
    ]


def main():
    """Measures all variants and writes the page, or is the process that measures one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default="experiments/results/hub")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    for field in dataclasses.fields(Scale):
        parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
    options = parser.parse_args()
    if options.worker:
        *variant, scale = json.loads(options.worker)
        print(json.dumps(measure(*variant, Scale(**scale))))
        return
    scale = Scale(**{f.name: getattr(options, f.name) for f in dataclasses.fields(Scale)})
    rows = run(scale)
    options.results.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (options.results / "rows.jsonl").write_text(text, encoding="utf-8")
    markdown.write(options.results / "README.md", *page(scale, rows))


if __name__ == "__main__":
    main()

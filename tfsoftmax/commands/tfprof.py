"""What a training step of a model asks of memory and arithmetic, part by part, before you train.

    tfsoftmax tfprof --head=full --vocab_size=44370 --hidden_units=512
    tfsoftmax tfprof --head=sampled --head_options='{"num_samples": 2560}' --vocab_size=200606
    tfsoftmax tfprof --run=runs/first --out=first.json --plot=first.png
    tfsoftmax tfprof --head=adaptive --compare=full.json,sampled.json --plot=heads.png

One step of the very model that tfsoftmax train would train, with its loss and optimiser, runs
under TensorFlow's own profiler; labels are drawn by the words' frequencies. In MiB:

variables  weights, recurrent states and seeds of a part; of the optimizer, its slots
requested  all that the part's operations allocated, however briefly
peak       the most that these allocations held at one time
at peak    what they held when the whole step held most; with the variables, what a step needs
residual   what each operation still held as it ended, added up
output     of all outputs of operations, whether allocated or passed on

GFLOP counts matrix products, sums and elementwise arithmetic, but no exp, tanh or square root;
ms is of this one traced step, without fused operations, one after the other. In training a head
computes what the loss asks of it: that is counted as loss, and much of the gradient with it,
where a head forms it in the same pass; what loss and gradients share is computed once and may
be counted as either. --out writes bytes and all digits as JSON.
"""

import dataclasses
import gc
import importlib.metadata
import json
import types

import numpy as np
from absl import flags

from tfsoftmax.commands import dataclass_flags
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.lm.config import OPTIMIZERS, ModelConfig, TrainingConfig, option

MIB = 2**20
COLOURS = {  # Okabe and Ito's, for colour-blind readers
    "embedding": "0.8", "recurrent": "0.5", "dropout": "#56B4E9", "head": "#0072B2",
    "loss": "#D55E00", "gradients": "#CC79A7", "optimizer": "#E69F00", "other": "#000000",
}


@dataclasses.dataclass(frozen=True)
class ProfileConfig:
    """What to profile, and where to put it."""

    run: str = option("", "directory of a training run, whose model and words to take")
    vocab_size: int = option(44370, "without --run: so many words, frequent by Zipf's law")
    streams: int = option(128, "without --run: sentences read side by side")
    time_steps: int = option(20, "without --run: words of each stream in a training step")
    optimizer: str = option("adagrad", "without --run: optimiser", OPTIMIZERS)
    out: str = option("", "JSON file to write")
    plot: str = option("", "PNG to draw parameters and memory to; needs matplotlib")
    compare: tuple = option((), "JSON files of other profiles to draw beside this one")


def define_flags():
    dataclass_flags.define(ProfileConfig, ModelConfig)


def main():
    config, model_config = dataclass_flags.parse(ProfileConfig), dataclass_flags.parse(ModelConfig)
    for name in ("streams", "time_steps"):
        if getattr(config, name) < 1:
            raise ValueError(
                f"`{name}` must be at least 1. Received: {name}={getattr(config, name)}"
            )
    if config.vocab_size < 3:
        raise ValueError(
            f"`vocab_size` must be at least 3. Received: vocab_size={config.vocab_size}"
        )
    if config.compare and not config.plot:
        raise ValueError(f"`compare` needs --plot. Received: compare={','.join(config.compare)}")
    if config.run:
        _refuse_flags_beside_run()
    others = [_load(path) for path in config.compare]
    if config.plot:
        _load_matplotlib()
    load_tensorflow()
    result = measured(config, model_config)
    print(table(result))
    if config.out:
        with open(config.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(result, indent=1) + "\n")
    if config.plot:
        plot([*others, result], config.plot)


def measured(config, model_config):
    """The profile with a description of what was profiled, as JSON values."""
    from tfsoftmax.profiling.profile import profile
    from tfsoftmax.profiling.traced_step import Step
    from tfsoftmax.hardware import hardware
    from tfsoftmax.lm.training import compiled_model

    described = _of_run(config) if config.run else _of_flags(config, model_config)
    model_config, training, corpus = described
    model = compiled_model(model_config, training, corpus)
    counts = np.maximum(corpus.vocabulary.counts, 1)
    drawn = np.random.default_rng(0).choice(
        len(counts), (2, corpus.streams, corpus.time_steps), p=counts / counts.sum()
    ).astype(np.int32)
    step = Step(model, *drawn, np.ones(drawn.shape[1:], np.float32))
    del model  # the step gets variables of its own
    gc.collect()
    return {
        "model": dataclasses.asdict(model_config), "optimizer": training.optimizer,
        "vocab_size": len(counts), "streams": corpus.streams, "time_steps": corpus.time_steps,
        "hardware": hardware(), "tensorflow": importlib.metadata.version("tensorflow"),
        **profile(step),
    }


def _of_flags(config, model_config):
    from tfsoftmax.partitions.cost_model import zipf
    from tfsoftmax.vocabulary import Vocabulary

    words = ["<unk>", "<eos>", *(f"word{i}" for i in range(2, config.vocab_size))]
    counts = np.ceil(1e9 * zipf(config.vocab_size, 1.0)).astype(np.int64)
    corpus = types.SimpleNamespace(
        vocabulary=Vocabulary(words, counts), streams=config.streams, time_steps=config.time_steps
    )
    return model_config, TrainingConfig(optimizer=config.optimizer), corpus


def _of_run(config):
    from tfsoftmax.lm.runs import Run

    run = Run(config.run)
    kept = run.config()
    corpus = types.SimpleNamespace(
        vocabulary=run.vocabulary(), streams=kept["corpus"]["streams"],
        time_steps=kept["corpus"]["time_steps"],
    )
    return ModelConfig(**kept["model"]), TrainingConfig(**kept["training"]), corpus


def _refuse_flags_beside_run():
    names = [field.name for field in dataclasses.fields(ModelConfig)]
    for name in (*names, "vocab_size", "streams", "time_steps", "optimizer"):
        if flags.FLAGS[name].present:
            raise ValueError(
                f"`{name}` must not be given beside --run, which has its own. "
                f"Received: {name}={flags.FLAGS[name].value}"
            )


def table(result):
    """The profile as text, in MiB, GFLOP and milliseconds."""
    columns = ("variable", "requested", "peak", "at_peak", "residual", "output")
    names = ("variables", "requested", "peak", "at peak", "residual", "output")
    rows = {**result["parts"], "total": result["total"]}
    lines = [f"{label(result)}: {result['streams']} x {result['time_steps']} words a step, "
             f"{result['optimizer']}, {result['hardware']}", "",
             f"{'part':<10}{'parameters':>12}" + "".join(f"{name:>11}" for name in names)
             + f"{'GFLOP':>11}{'ms':>10}"]
    for part, values in rows.items():
        if part != "other" or values["requested_bytes"] > MIB or values["variable_bytes"]:
            sizes = (values[f"{column}_bytes"] / MIB for column in columns)
            lines.append(
                f"{part:<10}{values['parameters']:>12,}" + "".join(f"{s:>11,.1f}" for s in sizes)
                + f"{values['float_ops'] / 1e9:>11,.3f}{1000 * values['seconds']:>10,.1f}"
            )
    needed = result["total"]["variable_bytes"] + result["total"]["peak_bytes"]
    lines += ["", f"variables and peak: {needed / MIB:,.1f} MiB; the largest at the peak, in MiB:"]
    lines += [f"{size / MIB:>11,.1f}  {name}" for name, size in result["largest"]]
    return "\n".join(lines)


def label(result):
    """What was profiled, in a few words."""
    model = result["model"]
    return f"{model['head']}, V = {result['vocab_size']:,}, D = {model['hidden_units']:,}"


def plot(results, path):
    """Draws the parameters, and the memory at the peak of a step, of each part of each profile.

    Source: Müller 2017, figures 5.13 and 5.14.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.6 + 0.45 * len(results)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    rows = range(len(results))
    for axes, unit, title, values in (
        (panels[0], 1e6, "Trainable parameters, millions", lambda part: part["parameters"]),
        (panels[1], MIB, "Memory at the peak of a training step, MiB",
         lambda part: part["variable_bytes"] + part["at_peak_bytes"]),
    ):
        totals = np.zeros(len(results))
        for part, colour in COLOURS.items():
            widths = np.array([values(result["parts"][part]) for result in results]) / unit
            drawn = axes.barh(rows, widths, left=totals, label=part, color=colour, height=0.7)
            totals += widths
        axes.bar_label(drawn, [f"{total:,.0f}" for total in totals], padding=4)
        axes.set_xlim(0, 1.12 * totals.max())
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
        axes.xaxis.set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    panels[0].set_yticks(rows, [label(result) for result in results])
    panels[0].invert_yaxis()
    handles = [bars for bars in panels[1].containers  # less than a hundredth cannot be seen
               if max(bar.get_width() for bar in bars) > 0.01 * totals.max()]
    figure.legend(handles, [bars.get_label() for bars in handles], frameon=False,
                  loc="outside lower center", ncols=len(handles))
    figure.savefig(path, dpi=110)


def _load(path):
    with open(path, encoding="utf-8") as file:
        try:
            result = json.load(file)
            label(result), result["parts"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"`compare` must name files that --out wrote. Received: {path}") from None
    return result


def _load_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise RuntimeError("`plot` needs matplotlib: pip install matplotlib") from None

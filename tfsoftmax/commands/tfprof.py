"""Profiles the memory and arithmetic of a training step, part by part.

    tfsoftmax tfprof --head=full --vocab_size=44370 --hidden_units=512
    tfsoftmax tfprof --head=sampled --head_options='{"num_samples": 2560}'
    tfsoftmax tfprof --run=runs/first --out=first.json --plot=first.png
    tfsoftmax tfprof --head=adaptive --compare=full.json --plot=heads.png

The command builds the model that tfsoftmax train would train, with its loss and optimiser, and runs
one step under TensorFlow's own profiler. Labels are drawn according to the frequencies of the
words. The columns in MiB are:

variables  the weights, recurrent states and seeds of a part; the slots of the optimizer
requested  all memory that the operations of a part allocated, however briefly
peak       the most memory that these allocations held at one time
at peak    the memory that they held when the whole step held most; a step needs this memory and
           that of the variables
residual   the sum of what each operation still held when it ended
output     all outputs of operations, whether allocated or passed on

GFLOP counts matrix products, sums and elementwise arithmetic, but no exp, tanh or square root. ms
is the time of this one traced step, whose operations are not fused and run one after another. In
training, a head computes what the loss asks for. This counts as loss, and so does the part of the
gradient that a head computes in the same pass; what the loss and the gradients share is computed
once and may count as either. --out writes the values in bytes, unrounded, as JSON.
"""

import dataclasses
import gc
import importlib.metadata
import json
import types

from tfsoftmax.commands.options import given
from tfsoftmax.commands.program import check_out, check_plot, load_tensorflow, save_plot
from tfsoftmax.lm.config import OPTIMIZERS, ModelConfig, TrainingConfig
from tfsoftmax.support.arguments import check_at_least, refusal, refusing
from tfsoftmax.support.conditions import excludes, needs
from tfsoftmax.support.textio import read_json
from tfsoftmax.support.whole_files import writing

MIB = 2**20
COLOURS = {  # Okabe and Ito's, for colour-blind readers
    "embedding": "0.8", "recurrent": "0.5", "dropout": "#56B4E9", "head": "#0072B2",
    "loss": "#D55E00", "gradients": "#CC79A7", "optimizer": "#E69F00", "other": "#000000",
}


@dataclasses.dataclass(frozen=True)
class ProfileOptions:
    """Step and result.

    Attributes:
        run: Directory of a training run, whose model and vocabulary are profiled.
        vocab_size: Number of words, whose frequencies follow Zipf's law.
        streams: Sentences that are read side by side.
        time_steps: Words of each stream in a training step.
        optimizer: Optimiser.
        out: JSON file to write.
        plot: PNG file to draw parameters and memory to. Needs matplotlib.
        compare: JSON files of other profiles to draw next to this one.
        overwrite: Replace files that exist.
    """

    CHOICES = {"optimizer": OPTIMIZERS}
    NEEDS = {
        **dict.fromkeys(("vocab_size", "streams", "time_steps", "optimizer"), excludes("run")),
        "compare": needs("plot"),
    }

    run: str = ""
    vocab_size: int = 44370
    streams: int = 128
    time_steps: int = 20
    optimizer: str = "adagrad"
    out: str = ""
    plot: str = ""
    compare: tuple = ()
    overwrite: bool = False

    def __post_init__(self):
        check_at_least(1, streams=self.streams, time_steps=self.time_steps)
        check_at_least(3, vocab_size=self.vocab_size)


def main(config: ProfileOptions, model_config: ModelConfig):
    fields = [field.name for field in dataclasses.fields(ModelConfig)]
    if config.run and (own := [name for name in fields if given(name)]):
        raise refusal(own[0], "not be given with --run, which has its own",
                      getattr(model_config, own[0]))
    others = [_load(path) for path in config.compare]
    if config.plot:
        check_plot(config.plot)
    if config.out:
        check_out(config.out)
    load_tensorflow()
    result = measured(config, model_config)
    print(table(result))
    if config.out:
        with writing(config.out) as file:
            file.write(json.dumps(result, indent=1) + "\n")
    if config.plot:
        plot([*others, result], config.plot)


def measured(config, model_config):
    """Profiles a step; returns the profile and what was profiled, as JSON values."""
    import numpy as np

    from tfsoftmax.lm.compiled import compiled_model
    from tfsoftmax.profiling.profile import profile
    from tfsoftmax.profiling.traced_step import TracedStep
    from tfsoftmax.support.hardware import hardware

    described = of_run(config.run) if config.run else _of_flags(config, model_config)
    model_config, training, corpus = described
    model = compiled_model(model_config, training, corpus)
    counts = np.maximum(corpus.vocabulary.counts, 1)
    drawn = np.random.default_rng(0).choice(
        len(counts), (2, corpus.streams, corpus.time_steps), p=counts / counts.sum()
    ).astype(np.int32)
    step = TracedStep(model, *drawn, np.ones(drawn.shape[1:], np.float32))
    del model  # the step makes its own variables
    gc.collect()
    return {
        "model": dataclasses.asdict(model_config), "optimizer": training.optimizer,
        "vocab_size": len(counts), "streams": corpus.streams, "time_steps": corpus.time_steps,
        "hardware": hardware(), "tensorflow": importlib.metadata.version("tensorflow"),
        **profile(step),
    }


def _of_flags(config, model_config):
    import numpy as np

    from tfsoftmax.partitions.cost_model import zipf
    from tfsoftmax.support.vocabulary import Vocabulary

    words = ["<unk>", "<eos>", *(f"word{i}" for i in range(2, config.vocab_size))]
    counts = np.ceil(1e9 * zipf(config.vocab_size, 1.0)).astype(np.int64)
    corpus = _corpus(Vocabulary(words, counts), config.streams, config.time_steps)
    return model_config, TrainingConfig(optimizer=config.optimizer), corpus


def of_run(directory: str) -> tuple:
    """What the model of a run is compiled of: two configurations, and a stand-in for its corpus."""
    from tfsoftmax.runs.runs import Run

    run = Run(directory)
    run.check_task()
    kept = run.config()
    shape = (kept["corpus"][name] for name in ("streams", "time_steps"))
    corpus = _corpus(run.vocabulary(), *shape)
    return run.model_config(), TrainingConfig(**kept["training"]), corpus


def _corpus(vocabulary, streams, time_steps):
    """What `compiled_model` reads of a corpus."""
    shape = {"streams": streams, "time_steps": time_steps}
    return types.SimpleNamespace(vocabulary=vocabulary, shape=shape, **shape)


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
    lines += [
        "", f"Variables and peak need {needed / MIB:,.1f} MiB. The largest allocations at the "
        "peak, in MiB:",
    ]
    lines += [f"{size / MIB:>11,.1f}  {name}" for name, size in result["largest"]]
    return "\n".join(lines)


def label(result):
    """Names what was profiled: the head, V and D."""
    model = result["model"]
    return f"{model['head']}, V = {result['vocab_size']:,}, D = {model['hidden_units']:,}"


def plot(results, path):
    """Draws the parameters of each part and its memory at the peak of a step, for each profile.

    Source: Müller 2017, figures 5.13 and 5.14.
    """
    import numpy as np
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
    save_plot(figure, path, dpi=110)


def _load(path):
    result = read_json(path)
    wrong = (ValueError, KeyError, TypeError, AttributeError)
    with refusing(wrong, "compare", "name files that --out wrote", received=f"{path}"):
        label(result)
        parts = [result["parts"][part] for part in COLOURS]
        for name in ("parameters", "variable_bytes", "at_peak_bytes"):
            sum(part[name] for part in parts)
    return result

"""The report of an experiment: a page with a table of its runs and a picture of their results."""

import json
import statistics

from experiments.framework import kept, markdown, panels, pictures, seeds
from experiments.measurements import cluster_curves

PICTURE, CURVES, PANELS = "perplexity.png", "curves.png", "panels.png"
RESULTS = "results.json"
RESULTS_HEADING = "## Results"
LEAST_RUNS = 3  # of a picture of perplexities: of fewer, the table tells as much
MOST_MEDIANS = 2.5  # a perplexity of more than so many medians is drawn at the edge of the picture
HEADINGS = {
    "perplexity": "validation perplexity",
    "test_perplexity": "test perplexity",
    "peak_memory_gib": "peak GiB",
}
FORMATS = {"perplexity": ",.2f", "test_perplexity": ",.2f", "peak_memory_gib": ".2f"}
NOTE = """\
Perplexities are exact: every token of a split counts once, and language models carry the recurrent
state over the whole split. The validation perplexity is the best of the run. Peak memory is that of
the whole process. How fast heads train stands on the pages of speed: these runs shared their
machines with others."""
MEANS_NOTE = """\
Means over the seeds that have finished, with half of the range between the lowest and the highest
seed."""
RATIOS_NOTE = " The ratios are to full softmax, ours and the paper's."


def write(name, docstring, outcomes, folder, of_parameters=(), corpus=""):
    """Writes the report of an experiment.

    Args:
        name: name of the experiment.
        docstring: docstring of its module.
        outcomes: list of (`Run`, `Outcome`) in the order of the table.
        folder: `Path` to write into, which is made if it is missing.
        of_parameters: `Panel`s, which are drawn instead of the learning curves and the results.
        corpus: name of the folder of the corpus, if it has one.

    Returns:
        The text of README.md.

    Raises:
        ValueError: if no run was started, and there is no page of earlier ones.
    """
    if all(outcome.config is None for _, outcome in outcomes):
        if (folder / "README.md").exists():
            return _write_without_runs(name, docstring, folder / "README.md")
        raise ValueError(
            f"`runs` must hold runs of {name}: {', '.join(run.name for run, _ in outcomes)}. "
            "Received: a directory without any"
        )
    rows = [kept.row(run, outcome) for run, outcome in outcomes]
    corpora = {_corpus(o.config) for _, o in outcomes if o.config and not o.foreign}
    results, note = seeds.perplexities(rows), note_of(outcomes)
    compared = results if len(corpora) == 1 and not of_parameters else {}
    lines = ",\n".join(json.dumps(row) for row in rows)
    markdown.write(folder / RESULTS, f"[\n{lines}\n]")
    return markdown.write(
        folder / "README.md", f"# {name}" + f", {corpus}" * bool(corpus), docstring.strip(),
        RESULTS_HEADING, facts(outcomes),
        *_means(name, outcomes, results, note, folder, of_parameters),
        table([(run, o) for run, o in outcomes if o.config]), _still_to_run(outcomes), NOTE,
        picture(name, compared, note, folder / PICTURE),
        *cluster_curves.blocks(outcomes, note, folder),
        f"Written by `python -m experiments.run {name}{f' --corpus={corpus}' * bool(corpus)} "
        "--report`.",
    )


def _write_without_runs(name, docstring, page):
    """Says on a page that its runs are not kept. Its results stay as they are."""
    _, heading, results = page.read_text(encoding="utf-8").partition(RESULTS_HEADING)
    return markdown.write(
        page, f"# {name}", not_kept(name), docstring.strip(), (heading + results).strip()
    )


def not_kept(name):
    """What a page says first if no runs are kept from which it could be written again."""
    return (
        "The runs behind this page are not kept, and\n"
        f"`python -m experiments.run {name} --data=DIR` would make them anew."
    )


def _means(name, outcomes, results, note, folder, of_parameters):
    """What an experiment whose runs have seeds shows before its single runs."""
    means = seeds.table(outcomes)
    if not means:
        return []
    if of_parameters:
        drawn = panels.block(of_parameters, results, "full", note, folder / PANELS)
    else:
        drawn = seeds.curves(outcomes, f"{name}: learning curves", note, folder / CURVES)
    return [means, MEANS_NOTE + RATIOS_NOTE * ("to full" in means), drawn]


def _still_to_run(outcomes):
    names = [run.name for run, outcome in outcomes if outcome.config is None]
    return f"Still to be run: {', '.join(names)}." if names else ""


def table(outcomes):
    """A Markdown table with one row for each run and the paper's values beside ours."""
    columns = []
    for measure in HEADINGS:
        columns.append((HEADINGS[measure], measure, False))
        if any(measure in run.paper for run, _ in outcomes):
            columns.append(("paper", measure, True))
    rows = [["run", "scale", "state", "steps", "epochs", *(c[0] for c in columns)]]
    for run, outcome in outcomes:
        ours = outcome.measures()
        rows.append([
            run.name, run.scale, outcome.state, _cell(ours.get("step"), ",d"),
            _cell(ours.get("epoch"), ".2f"),
            *(_cell((run.paper if paper else ours).get(m), FORMATS[m]) for _, m, paper in columns),
        ])
    scaled = any(run.scale for run, _ in outcomes)
    if not scaled:
        rows = [[*row[:1], *row[2:]] for row in rows]
    return markdown.table(rows, text_columns=2 + scaled)


def facts(outcomes):
    """Corpus, hardware and versions, in a line each, or one for each group of runs that differ."""
    started = [(run.name, o.config) for run, o in outcomes if o.config and not o.foreign]
    lines = []
    for heading, state in (
        ("Corpus", _corpus),
        ("Hardware", lambda config: config["hardware"]),
        ("Versions", lambda config: _listed(config["versions"])),
    ):
        names = {}
        for name, config in started:
            names.setdefault(state(config), []).append(name)
        *few, most = sorted(names, key=lambda text: len(names[text])) or [None]
        lines += [f"- {heading} of {', '.join(names[text])}: {text}" for text in few]
        lines += [f"- {heading}{' of the others' if few else ''}: {most}"] if most else []
    return "\n".join(lines)


def note_of(outcomes):
    """Corpus, hardware and scale in one line, without what the runs do not share."""
    described = [
        (f"{o.config['corpus']['name']}, V = {o.config['corpus']['vocab_size']:,}",
         o.config["hardware"], run.scale)
        for run, o in outcomes if o.config and not o.foreign
    ]
    shared = (values.pop() for values in map(set, zip(*described)) if len(values) == 1)
    return "; ".join(filter(None, shared))


def picture(name, results, note, path):
    """Draws perplexities; returns the Markdown that shows them, empty for few runs.

    Args:
        name: name of the experiment.
        results: {run without its seed: list of validation perplexities}.
        note: corpus, hardware and scale.
        path: `Path` of the PNG.
    """
    if len(results) < LEAST_RUNS:
        return ""
    means = {run: statistics.mean(perplexities) for run, perplexities in results.items()}
    limit = MOST_MEDIANS * statistics.median(means.values())
    high = max(mean for mean in means.values() if mean <= limit)
    beyond = [run for run, mean in means.items() if mean > high]
    caption = (
        f"Exact validation perplexity of the finished runs of {name}, the best on top. A dot is a "
        "seed, and the number is the mean." + f" ({note}.)" * bool(note)
    )
    if beyond:
        caption += f" The perplexity of {' and '.join(beyond)} lies far beyond the axis."

    def draw():
        title = f"{name}: which run learns best"
        figure = pictures.new(9, 1.5 + 0.33 * len(results), title, note)
        pictures.dots(figure.subplots(), results, min(map(min, results.values())), high,
                      "exact validation perplexity, lower is better")
        return figure

    return pictures.shown(draw, path, caption)


def _corpus(config):
    corpus = config["corpus"]
    splits = ", ".join(
        f"{split['tokens']:,} tokens in {name} ({split['oov'] / split['words']:.1%} OOV)"
        for name, split in corpus["splits"].items()
    )
    order = {"text": "in the order of the text", "shuffled": "shuffled sentences"}
    if corpus.get("task") == "pairs":
        return (
            f"{corpus['name']}, vocabulary {corpus['vocab_size']:,}; {splits}, of the targets; "
            f"batches of {corpus['batch_size']} pairs, sources of at most {corpus['max_source']} "
            f"words, targets of at most {corpus['max_target']}"
        )
    return (
        f"{corpus['name']}, {order[corpus.get('order', 'shuffled')]}, "
        f"vocabulary {corpus['vocab_size']:,}; {splits}; "
        f"{corpus['streams']} streams of {corpus['time_steps']} steps"
    )


def _listed(versions):
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _cell(value, form):
    return "–" if value is None else format(value, form)

"""The five curves of a self-organised softmax (Shen et al. 2017, figure 1), from metrics.jsonl."""

from experiments.framework import pictures, seeds

PERPLEXITIES = {
    "perplexity": "perplexity", "cluster_perplexity": "cluster perplexity",
    "in_cluster_perplexity": "in-cluster perplexity",
}
SHARES = {"changed_words": "of the words", "changed_tokens": "of the tokens"}


def blocks(outcomes, note, folder):
    """Markdown with a picture for each run whose words chose their clusters more than once.

    Args:
        outcomes: list of (`Run`, `Outcome`). Of runs that differ only in their seed, the first
            that was started is drawn.
        note: corpus, hardware and scale.
        folder: `Path` of the pictures.
    """
    found = {}
    for run, outcome in outcomes:
        validations = [e for e in outcome.validations if e.get("cluster_perplexity")]
        changes = [e for e in outcome.training if e["event"] == "reassigned"]
        if validations and len(changes) > 1 and not outcome.foreign:
            found.setdefault(seeds.group(run.name), (run.name, validations, changes))
    return [
        pictures.shown(
            lambda drawn=drawn: draw(*drawn, note), folder / f"clusters_{name}.png",
            f"{drawn[0]}: perplexity, cluster perplexity and in-cluster perplexity on the "
            "validation split, and the share of the words, and of the tokens, whose cluster each "
            "reassignment changed.",
        ) for name, drawn in found.items()
    ]


def draw(run, validations, changes, note):
    """The picture of a run: perplexities above the shares that each reassignment changed.

    Args:
        run: name of the run.
        validations: list of dicts, the lines `valid` of metrics.jsonl.
        changes: list of dicts, its lines `reassigned`.
        note: corpus, hardware and scale.
    """
    figure = pictures.new(9, 6, f"{run}: words choose their clusters while the model trains", note)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for name, colour in zip(PERPLEXITIES, pictures.COLOURS):
        above.plot([e["epoch"] for e in validations], [e[name] for e in validations],
                   marker="o", markersize=3, color=colour)
    pictures.frame(above, "y", "on the validation split")
    pictures.label_ends(above, [
        (validations[-1][name], label, colour)
        for (name, label), colour in zip(PERPLEXITIES.items(), pictures.COLOURS)
    ])
    for (name, label), colour in zip(SHARES.items(), pictures.COLOURS[3:]):
        below.plot([e["epoch"] for e in changes], [100 * e[name] for e in changes], label=label,
                   marker="o", markersize=3, color=colour)
    below.set_ylim(bottom=0)
    below.set_xlabel("epochs")
    pictures.frame(below, title="% that changed cluster", legend=True)
    return figure

"""Prints the clusters of words that a self-organised head has learned.

    tfsoftmax show_clusters --run=runs/self_organised --words_of=london
    tfsoftmax show_clusters --run=runs/self_organised --out=clusters.txt
    tfsoftmax train --data=data/text8 --run=runs/fixed --head=self_organised \\
        --head_options='{"clusters": "clusters.txt"}'
    tfsoftmax train --data=data/text8 --run=runs/class --head=class \\
        --head_options='{"classes": "clusters.txt"}'

Each line shows a cluster: its number, its share of the training tokens, and its most frequent
words. The cluster with the most tokens comes first. The file of --out fixes the clusters of another
model: a self-organised model still has its two projections, and a class-based model has none. For a
run on pairs, use tfsoftmax show_clusters_pairs.
"""

import dataclasses

from tfsoftmax.commands.program import check_out, load_tensorflow, printable
from tfsoftmax.commands.shared import checked_word_of
from tfsoftmax.support.arguments import check_at_least, expect


@dataclasses.dataclass(frozen=True)
class ShowOptions:
    """Run and result.

    Attributes:
        run: Directory of a training run.
        out: File to write, with lines of cluster<TAB>word<TAB>count.
        overwrite: Replace a file that exists.
        words: Number of words to print of each cluster.
        words_of: Print only the cluster of this word.
    """

    run: str
    out: str | None = None
    overwrite: bool = False
    words: int = 20
    words_of: str | None = None


def main(options: ShowOptions):
    from tfsoftmax.lm.tasks import LANGUAGE_MODEL

    show(options, LANGUAGE_MODEL)


def show(options: ShowOptions, task) -> None:
    """Prints the clusters of a run's head, and writes them into the file of --out.

    Args:
        options: the run and the result.
        task: the `Task` of the run.
    """
    check_at_least(1, words=options.words)
    if options.out:
        check_out(options.out)
    load_tensorflow()
    import numpy as np

    from tfsoftmax.lm.word_groups import grouping_of
    from tfsoftmax.runs import runs

    model, vocabulary, _ = runs.load(options.run, 1, time_steps=1, task=task)
    word = checked_word_of(options.words_of, vocabulary)
    head = model.get_layer("head")
    expect(hasattr(head, "save_clusters"), "run",
           "be one that was trained with --head=self_organised", options.run)
    if options.out:
        head.save_clusters(options.out, vocabulary.words)
    grouping, counts = grouping_of(head), vocabulary.counts
    shares = grouping.sums(counts) / max(counts.sum(), 1)
    shown = np.argsort(-shares, kind="stable") if word is None else [grouping.of_word[word]]
    for cluster in shown:
        if len(members := grouping.members(cluster, counts)):
            words = vocabulary.decode(members[: options.words])
            print(line(cluster, shares[cluster], words))


def line(cluster, share, words):
    """One cluster as text."""
    return f"{cluster:>5}  {share:7.3%}  {printable(' '.join(words))}"

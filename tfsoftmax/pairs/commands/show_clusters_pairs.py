"""Prints the clusters of words that a run on pairs has learned.

    tfsoftmax show_clusters_pairs --run=runs/pairs --words_of=london
    tfsoftmax show_clusters_pairs --run=runs/pairs --out=clusters.txt

The head of the run must be self_organised. The help of tfsoftmax show_clusters explains the lines
and the file of --out.
"""

from tfsoftmax.commands.show_clusters import ShowOptions, show


def main(options: ShowOptions):
    from tfsoftmax.pairs.task import PAIRS

    show(options, PAIRS)

"""The clusters of words that a run with --head=self_organised has learnt.

    tfsoftmax show_clusters --run=runs/self_organised
    tfsoftmax show_clusters --run=runs/self_organised --words_of=london
    tfsoftmax show_clusters --run=runs/self_organised --out=clusters.txt
    tfsoftmax train --data=data/text8 --run=runs/class --head=class \\
        --head_options='{"classes": "clusters.txt"}'

Each line is a cluster, that of most tokens first: its number, its share of the tokens, its most
frequent words.
"""

import numpy as np
from absl import flags

from tfsoftmax.commands.program import load_tensorflow


def define_flags():
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("out", None, "file to write, of lines cluster<TAB>word<TAB>count")
    flags.DEFINE_integer("words", 20, "print at most so many words of a cluster")
    flags.DEFINE_string("words_of", None, "print the cluster of this word only")


def main():
    options = flags.FLAGS
    load_tensorflow()
    from tfsoftmax.lm import runs
    from tfsoftmax.heads.reassign import heads_of

    model, vocabulary, _ = runs.load(options.run, streams=1, time_steps=1)
    if options.words_of is not None and options.words_of not in vocabulary:
        raise ValueError(
            f"`words_of` must be a word of the vocabulary. Received: {options.words_of!r}"
        )
    (head,) = heads_of(model)
    clusters = head.clusters
    if options.out:
        head.save_clusters(options.out, vocabulary.words)
    tokens = np.bincount(clusters, weights=vocabulary.counts)
    shown = [c for c in np.argsort(-tokens, kind="stable") if np.any(clusters == c)]
    if options.words_of is not None:
        shown = clusters[vocabulary.encode([options.words_of])]
    for cluster in shown:
        print(line(cluster, np.flatnonzero(clusters == cluster), vocabulary, options.words))


def line(cluster, members, vocabulary, count):
    """One cluster as text."""
    counts = vocabulary.counts[members]
    first = members[np.argsort(-counts, kind="stable")][:count]
    share = counts.sum() / max(vocabulary.counts.sum(), 1)
    return f"{cluster:>5}  {share:7.3%}  {' '.join(vocabulary.decode(first))}"

#!/usr/bin/env python3
"""The clusters of words that a run with --head=self_organised has learnt.

    python tools/clusters.py --run=runs/self_organised
    python tools/clusters.py --run=runs/self_organised --words_of=london
    python tools/clusters.py --run=runs/self_organised --out=clusters.txt
    python tools/train.py --data=data/text8 --run=runs/class --head=class \\
        --head_options='{"classes": "clusters.txt"}'

Each line is a cluster, that of most tokens first: its number, its share of the tokens, its most
frequent words.
"""

import dataclass_flags
import numpy as np
from absl import flags


def main():
    options = flags.FLAGS
    dataclass_flags.load_tensorflow()
    from tfsoftmax import runs
    from tfsoftmax.clusters import heads_of

    model, vocabulary, _ = runs.load(options.run, streams=1, steps=1)
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


if __name__ == "__main__":
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("out", None, "file to write, of lines cluster<TAB>word<TAB>count")
    flags.DEFINE_integer("words", 20, "print at most so many words of a cluster")
    flags.DEFINE_string("words_of", None, "print the cluster of this word only")
    dataclass_flags.run(main)

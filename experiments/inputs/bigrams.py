"""Writes a bigram model of a corpus as an ARPA file, for proposals that depend on the context.

    python -m experiments.inputs.bigrams --data=data/million

writes DATA/bigrams.arpa: absolute discounting of the counts of the training split, interpolated
with the unigram distribution.
"""

import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.inputs.corrupted_nbest import bigram_model, neighbours
from tfsoftmax.commands import program


def main():
    from tfsoftmax.corpora.records import Corpus

    corpus = Corpus.load(flags.FLAGS.data)
    path = Path(corpus.directory) / "bigrams.arpa"
    bigram_model(neighbours(corpus), corpus.vocabulary).write_arpa(path, corpus.vocabulary.words)
    print(path)


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of the prepared corpus.", required=True)
    program.run(main, __doc__, sys.argv)

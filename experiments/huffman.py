"""Huffman trees with other ties and without biases, to see why ours gains so little.

Reproduces: no table. It looks for the reason why p-tHSM with a Huffman tree is hardly better than
with a random tree here (test perplexity 1.142 and 1.141 of full softmax's, experiment `jiang`),
while Jiang et al. 2017 have it as good as with Brown clusters (1.034, random 1.514). Most words of
a corpus of a million words share their count with many others, and the counts leave open which of
them become neighbours. In ours, words of one count are in alphabetical order; here they are also in
random order, as in the authors' published code, which ranks words by Python 2's `sorted` of a
dictionary, and in the order in which they first occur in the text. The published code has a variant
without biases, too. All of these are trained with Adam, which evens out the step sizes of rare and
frequent nodes. The experiment `small_batches` has the authors' batches and epochs.

None of this moves the test perplexity by more than 0.2 % of that of our Huffman tree, so that
neither ties nor biases are the reason. The page's run of full softmax is that of `jiang`, which has
the same settings.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    python -m experiments.huffman_files --data=data/million
    python -m experiments.run huffman --data=data/million

Hardware and hours: each run has one core, which it shares with other work and on which it was
stopped at times, so that its minutes and words/s say nothing of the method.
"""

from experiments import jiang
from experiments.seeds import seeded

RUNS = seeded([
    jiang.run("huffman", "tree", tree="huffman"),
    jiang.run("huffman-ties-random", "tree", tree="{data}/huffman-random.paths"),
    jiang.run("huffman-ties-text", "tree", tree="{data}/huffman-text.paths"),
    jiang.run("huffman-no-biases", "tree", tree="huffman", use_bias=False),
    jiang.run("brown-by-row", "tree", tree="{data}/brown-by-row.paths"),
    jiang.run("random-no-biases", "tree", tree="random", use_bias=False),
    jiang.run("full", "full"),
], (1,))

"""Why our Huffman tree is no better than a random one, and the poster's as good as Brown's.

Reproduces: no table. With p-tHSM, Jiang et al. 2017 have a Huffman tree as good as one of Brown
clusters (test perplexity 1.034 and 1.029 of full softmax's) and a random one far worse (1.514).
Ours are 1.142, 1.027 and 1.141 (experiment `jiang`). These runs look for the reason.

It is not in the Huffman tree. Most words of a corpus of a million words share their count with
many others, and the counts leave open which of them become neighbours. In ours, words of one count
are in alphabetical order. In other runs they are in random order, as in the authors' published code
(lmkit), which ranks words by Python 2's `sorted` of a dictionary, and in the order in which they
first occur in the text. The published code has a variant without biases, too. None of this moves
the test perplexity by more than 0.2 %. All runs have Adam, which evens out the step sizes of rare
and frequent nodes. The authors' batches and epochs do not matter either (`small_batches`).

It is in what the tree is compared with:

- The poster's Brown tree. In two versions of the published code (p-tHSM/utils.py,
  load_brown_prefix) the row of the file of Brown clusters, and not the word in it, decides whose
  code it is. As ids are ranks by frequency, a tree of Brown's shape gets its words in the order of
  their counts, much as a Huffman tree does. `brown-by-row` is this tree: Huffman's perplexity is
  1.02 of its, and 1.11 of that of Brown's own (poster: 1.004).
- The poster's full softmax. Its published program (original/main.py) trains for one epoch, that of
  the trees for six. With their small batches, our full softmax has a validation perplexity of 161
  after one epoch and of 146 after two, and the Huffman tree, at its best in six, 158: 0.98 and 1.09
  of it (poster: 1.02).

What the poster did for its table is not known, only what this code does. The code has no random
tree, so its 1.514 stays unexplained. The page's run of full softmax is that of `jiang`, which has
the same settings.

Commands:

    tfsoftmax prepare --corpus=text --order=text --max_vocab=10000 --train=train.txt.gz \\
        --valid=valid.txt.gz --test=test.txt.gz --out=data/million
    tfsoftmax cluster --data=data/million --classes=1000 --out=data/million/brown.paths
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

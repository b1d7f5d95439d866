"""The tables and figures of the five papers, our counterpart of each, and what came of it.

What came of it is a mark, whose verdict follows from results.json, or words. They begin with
"same", "in part", "differs", "order differs" or "open", which `papers.scoreboard` counts.
"""

from experiments.framework.seeds import ALIKE, MORE
from experiments.framework.verdicts import Claims, Table

FDT = "open: the FDT corpus is not public"
CLUSTERINGS = ("full", "tree-random", "tree-alphabetical", "tree-huffman", "tree-brown")
PERPLEXITIES = ("full", "nce", "blackout", "class", "tree-huffman", "tree-brown")
GPU = "open: needs a GPU, which the machine of these results did not have"

# paper: (number, what it shows, our counterpart, verdict)
ROWS = {
    "Jiang et al. 2017, exploration of tree-based hierarchical softmax (poster)": [
        ("table of corpora", "size and OOV of PTB, WikiText-2 and WikiText-103",
         "`tfsoftmax prepare --corpus=ptb` prints ours",
         "in part: PTB has the poster's 42,068, 3,370 and 3,761 sentences and 10,000 words, and "
         "its 4.8 % of OOV, counted in training with the ends of sentences (without them 5.1 %). "
         "WikiText needs a network, which the machine of these results did not have"),
        ("figure, three modules", "time of embedding, recurrence and softmax by cell",
         "[poster](poster/README.md), V = 10,000 and 267,735",
         "same: softmax takes more than 99 % of the time at V = 267,735 with RNN, LSTM and GRU "
         "alike, "
         "and 88 to 93 % at V = 10,000, on two cores that were shared with other work"),
        ("figure, scalability", "cHSM, tHSM and p-tHSM by size of the vocabulary",
         "[every head by vocabulary](benchmarks/README.md)",
         "in part: p-tHSM takes 0.39 to 0.57 of tHSM's gradients and 0.33 to 0.48 of its step on "
         "two "
         "machines; with 79 times the words its step takes 1.6 and 2.1 times as long, where the "
         "poster's hardly depends on V; on the CPU cHSM grows faster with V than either"),
        ("table of speed", "memory, total and forward ms of softmax, cHSM, tHSM and p-tHSM",
         "[poster](poster/README.md), V = 10,000 and 267,735",
         "in part: forward: same order; total, on CPUs at V = 267,735: order differs in tHSM, "
         "the slowest "
         "of the poster: p-tHSM, cHSM and tHSM take 0.004, 0.034 and 0.010 of softmax (poster "
         "0.75, 0.99 and 1.97, with a batch and an optimiser that it does not name). The memory "
         "of a position is "
         "0.48 (p-tHSM), 0.21 (cHSM) and 68 times (tHSM) what the poster's formula gives. "
         "The GPU columns need a GPU, which the machine of these results did not have"),
        ("table of clusterings", "p-tHSM with random, alphabetical, Huffman and Brown clusters",
         "[jiang](jiang/README.md), million words, to convergence",
         Table("jiang", CLUSTERINGS)),
        ("", "the same on Penn Treebank itself", "[ptb/jiang](ptb/jiang/README.md), to convergence",
         Table("ptb/jiang", CLUSTERINGS)),
        ("", "why our Huffman tree gains so little", "[huffman](huffman/README.md), one seed",
         "neither ties, nor biases, nor small batches, nor 64 units instead of 256: its perplexity "
         "stays that of a random tree. Nor is it the corpus: on Penn Treebank a random tree has "
         "1.01 of its test perplexity, with one seed. By plain gradient descent it is worse, "
         "by 3 % after twelve epochs. The authors' published code gives the words to the leaves of "
         "Brown's tree by frequency. If the poster's Brown tree is this one, Huffman's may well be "
         "as good: the perplexity of such a tree is 0.98 of Huffman's here (Brown's own 0.90). Why "
         "the poster's Huffman tree is so near to full softmax, and its random one so far, stays "
         "unexplained"),
        ("", "the same with batches and epochs as in the authors' code",
         "[small_batches](small_batches/README.md)", Table("small_batches")),
        ("", "the same by plain gradient descent, as the authors' model trains whatever its "
         "options say", "[sgd_trees](sgd_trees/README.md), twelve epochs", Table("sgd_trees")),
        ("table of perplexities", "softmax, NCE, BlackOut, cHSM and p-tHSM with a GRU",
         "[jiang](jiang/README.md), million words, to convergence; one stream of 128 raises the "
         "test perplexity of NCE's first seed from 133.65 to 146.71, so that it counts as like "
         "others; on the validation split it has 0.965 of full softmax's (poster 1.062). The "
         "classes are of words of one frequency; those of Brown clusters have 0.99 "
         "of full softmax's perplexity",
         Table("jiang", PERPLEXITIES)),
        ("", "the same on Penn Treebank itself", "[ptb/jiang](ptb/jiang/README.md), to convergence",
         Table("ptb/jiang", PERPLEXITIES)),
        ("", "WikiText-2 and WikiText-103 in the same table", "`tfsoftmax prepare "
         "--corpus=wikitext103`, then `experiments.run jiang`",
         "open: no network where we measured"),
    ],
    "Müller 2017, alternatives to softmax for large vocabularies (thesis)": [
        ("chapter 2", "the survey of methods, by method",
         "[field](field/README.md) and the map of the field", "no values in the thesis"),
        ("table 3.1", "samplers of TensorFlow", "`tfsoftmax.samplers`",
         "same: all of them, with expected counts that are tested"),
        ("tables 4.1 to 4.4", "Text8 and FDT", "`tfsoftmax prepare --corpus=text8`",
         "open: Text8 needs a network, and the FDT corpus is not public"),
        ("table 4.5", "hyperparameters", "presets text8 and fdt of `tfsoftmax train`", "the same"),
        ("figure 5.1", "speed by shortlist and number of tails",
         "[shortlists](benchmarks/README.md#shortlists-and-cutoffs-figure-51)",
         "same: the fastest shortlists with one tail have 2 to 5 % of the words at V = 44,370 and "
         "2 to 4 % at 200,606 (thesis 5 % and 3 %), and each further tail gains less"),
        ("figure 5.2", "expected cost by shortlist", "[cutoff_costs](cutoff_costs/README.md)",
         "the same curves, by Zipf's law and a model of costs on a CPU; those of Text8 and FDT "
         "are not drawn"),
        ("figure 5.3", "speed by projection factor",
         "[projection factor](benchmarks/README.md#projection-factor-figure-53)", "differs: "
         "the thesis finds no gain above a factor of 4; here 8 gains 5 % on 4 at V = 44,370 and "
         "18 % at 200,606"),
        ("figure 5.4", "perplexity and speed by shortlist",
         "[shortlists](shortlists/README.md), million words",
         Claims("shortlists", (
             ("shortlist220", "shortlist900", MORE), ("shortlist900", "shortlist2000", ALIKE),
             ("shortlist900", "shortlist4000", ALIKE),
         ))),
        ("", "its speed", "[speed](shortlists/speed/README.md), V = 10,000, two cores",
         "same: shortlists of 220, 500 and 900 words are alike, 2,000 and 4,000 take 1.16 and "
         "1.48 of "
         "the step of 220 (thesis: the fastest has 1,000 of 44,370, as 220 of 10,000)"),
        ("figure 5.5", "projection factor by dropout", "[projections](projections/README.md)",
         Claims("projections", tuple(
             (f"{run}-dropout{dropout}", f"{other}-dropout{dropout}", claim)
             for dropout in (0.25, 0.4)
             for run, other, claim in (("factor1", "whole", MORE), ("factor2", "factor1", ALIKE))
         ))),
        ("table 5.1", "number of tails, FDT", "[shortlists](shortlists/README.md), million words",
         Table("shortlists")),
        ("", "its speed", "[speed](shortlists/speed/README.md), V = 10,000, two cores",
         "same order: a step with two, three and four tails takes 0.79, 0.76 and 0.72 of that with "
         "one (thesis 0.85, 0.77 and 0.70)"),
        ("figure 5.6", "NCE's Z", "[proposals](proposals/README.md)",
         Claims("proposals", (
             ("nce-Z1", "nce-Z1826", MORE), ("nce-Z1826", "nce-Z4508", MORE),
             ("nce-Z4508", "nce-Z10000", MORE), ("nce-Z10000", "nce-Z22538", MORE),
         ))),
        ("figures 5.7, 5.8", "proposal distributions",
         "[proposal_shapes](proposal_shapes/README.md), million words",
         "same: drawn from the probabilities that the samplers state, which a test compares with "
         "the "
         "equations"),
        ("figure 5.9", "distortion of the unigram", "[proposals](proposals/README.md)",
         Claims("proposals", (
             ("sampled-alpha0.0", "sampled-alpha1.0", MORE),
             ("sampled-alpha0.4", "sampled-alpha1.0", ALIKE),
             ("sampled-alpha0.75", "sampled-alpha1.0", ALIKE),
             *((f"nce-Z{z}-alpha{alpha}", f"nce-Z{z}", claim) for z in (10000, 1826)
               for alpha, claim in ((0.0, MORE), (0.4, ALIKE), (0.75, ALIKE))),
             ("nce-Z1-alpha0.0", "nce-Z1", MORE), ("nce-Z1", "nce-Z1-alpha0.4", MORE),
         ))),
        ("figure 5.10", "interpolation with uniform", "[proposals](proposals/README.md)",
         Claims("proposals", (
             ("sampled-alpha1.0", "sampled-interpolated0.95", MORE),
             ("sampled-interpolated0.95", "sampled-schedule", MORE),
         ))),
        ("figure 5.11", "number of samples, Text8",
         "[speed](benchmarks/README.md#number-of-samples-figure-511), "
         "[perplexity](proposals/README.md)",
         Claims("proposals", (
             ("sampled-samples80", "sampled-samples320", MORE),
             ("sampled-samples320", "sampled-alpha1.0", MORE),
             ("sampled-alpha1.0", "sampled-samples2560", ALIKE),
             ("nce-samples320", "nce-Z10000", MORE), ("nce-samples2560", "nce-Z10000", MORE),
         ))),
        ("figure 5.12", "number of samples, FDT", "", FDT),
        ("figures 5.13, 5.14", "parameters and memory", "[step_memory](step_memory/README.md)",
         "same order: adaptive softmax has the fewest parameters, and needs less memory than "
         "sampling in all (0.81 at V = 44,370, 0.73 at 200,606; the thesis: half), though a step "
         "itself needs more (142 and 94 MiB at V = 44,370, 351 and 100 MiB at 200,606)"),
        ("figure 5.15", "speed by vocabulary, FDT",
         "[every head by vocabulary](benchmarks/README.md), labels by Zipf's law, on a CPU",
         "same finding: the time of sampling does not grow with V (25 to 42 ms from V = 10,000 to "
         "793,471), that of adaptive softmax does (41 to 938 ms, the projection factor being 4). "
         f"FDT itself {FDT}"),
        ("figure 5.16, table 5.2a", "full, adaptive, importance sampling, NCE on Text8",
         "[methods](methods/README.md), million words, to convergence", Table("methods")),
        ("", "its speed", "[speed](methods/speed/README.md), V = 10,000, a quarter of the units, "
         "two cores",
         "order differs: a step takes 0.26 of full softmax's with importance sampling, 0.29 with "
         "NCE, 0.32 and 0.34 with adaptive softmax with and without projections (thesis, on a GPU "
         "with 44,370 words: 0.31, 0.35, 0.28 and 0.29)"),
        ("", "dropout of 40 % against 25 %, and the methods at 25 %",
         "[methods](methods/README.md), million words, a quarter of the units",
         Claims("methods", (
             *((f"{head}-dropout0.25", f"{head}-dropout0.4", MORE)
               for head in ("full", "adaptive", "sampled", "nce")),
             ("nce-dropout0.25", "full-dropout0.25", ALIKE),
         ))),
        ("", "the fast methods on fourteen million words", "[novels](novels/README.md), two epochs",
         Table("novels", ("adaptive", "adaptive-whole", "sampled", "nce"))),
        ("figures 5.17, 5.18, table 5.2b", "the same on FDT", "", FDT),
        ("table 5.3", "word errors after rescoring", "[rescoring](rescoring/README.md)",
         "same finding: adaptive softmax and importance sampling do not differ. Both are better "
         "than the first hypotheses here and worse in the thesis; these lists are not a "
         "recogniser's. Where the state is carried from one hypothesis to the next, as in the "
         "thesis, all five models are 0.03 to 0.13 points worse than where each hypothesis is "
         "scored by itself, none of them significantly"),
        ("figure 5.19", "BasicLSTM and cuDNN converge alike", "`tests/test_recurrent.py`", GPU),
        ("table 5.4", "BasicLSTM and cuDNN, Adagrad and SGD",
         "[backends](benchmarks/README.md#recurrent-layers-by-backend-table-54)",
         f"{GPU}"),
    ],
    "Mao 2019, hierarchical softmax (blog)": [
        ("figures good and bad tree", "the tree decides the quality",
         "[jiang](jiang/README.md), million words, to convergence",
         Claims("jiang", (("tree-random", "tree-brown", MORE),))),
        ("", "expected: depth and balance matter less than the order",
         "[tree_shapes](tree_shapes/README.md), "
         "million words, to convergence; [shapes](tree_shapes/shapes.md). Two streams of 128 raise "
         "the test perplexity of random-skewed from 159 to 1,814",
         Claims("tree_shapes", (
             ("random-balanced", "brown-balanced", MORE), ("random-skewed", "brown-skewed", MORE),
             ("random-skewed", "random-balanced", ALIKE), ("brown-skewed", "brown-balanced", ALIKE),
             ("brown", "brown-balanced", ALIKE),
         ))),
    ],
    "Shen et al. 2017, self-organised hierarchical softmax": [
        ("table 1", "perplexity on Text8 after 5 epochs",
         "[shen](shen/README.md), million words; [hierarchical](hierarchical/README.md) after a "
         "quarter of an epoch of the novels", Table("shen", at_the_end=True)),
        ("table 2", "training time", "[shen speed](shen/speed/README.md), 10,000 words, half the "
         "units; [hierarchical speed](hierarchical/speed/README.md)",
         "same finding: a step of self-organised takes 0.36 of full softmax's (paper 0.26, with "
         "44,370 words)"),
        ("table 3", "words of learned clusters", "`tfsoftmax show_clusters`, "
         "[clusters](hierarchical/clusters.txt)", "same: clusters of grammar and meaning, as "
         "there"),
        ("figure 1", "perplexity, cluster and in-cluster perplexity, words that change",
         "[shen](shen/README.md), whose report draws all five",
         "same finding of the falling cluster perplexity, and fewer and fewer words change their "
         "cluster; that in-cluster perplexity rises at first is not seen, as the first validation "
         "comes after the words have chosen their clusters once"),
        ("tables 4, 5, figure 2", "summarisation: ROUGE, examples",
         "[ROUGE](summaries/rouge.md), [perplexity](summaries/README.md) on 20,953 pairs from "
         "docstrings, one seed",
         "open: not comparable, because with so few pairs no model reaches the first nine words "
         "of the source. "
         "Self-organised and full softmax do not differ in ROUGE-1 (14.8 and 14.7, each within "
         "0.8; paper 34.1 and 33.5), though its perplexity is 1.19 of full's. Recall at 75 bytes "
         "is that of summaries of at most thirty words, where the paper forces thirty"),
        ("table 6", "summarisation: training time",
         "[speed](summaries/speed/README.md), 69,000 words, a quarter of the units, two cores",
         "same order: a step of self-organised takes 0.12 of full softmax's (paper 0.30)"),
    ],
    "Shmuma 2017, two-level softmax (readme)": [
        ("speed, 5 times", "sampled softmax", "[shmuma speed](shmuma/speed/README.md), 65,000 "
         "words; [other vocabularies](benchmarks/README.md)",
         "same order: 12 times as fast as full softmax on two cores"),
        ("speed, 3 and 11 times", "two-level softmax", "[shmuma](shmuma/speed/README.md); "
         "[other vocabularies](benchmarks/README.md)",
         "same order: 4.8 times as fast as full softmax; batches that are 30 times as large, for "
         "which the paper says 11 and gives seconds whose ratio is 5.7, were not measured"),
        ("no speed-up", "balanced binary tree",
         "[tHSM](benchmarks/README.md), `TreeSoftmax(mode=\"sequential\")`; "
         "[shmuma](shmuma/speed/README.md)",
         "differs: 16 times as fast as full softmax with 65,000 words"),
    ],
}

"""Makes n-best lists by corrupting sentences at known rates, in place of a speech recogniser.

    python -m experiments.inputs.corrupted_nbest --data=data/novels --valid=valid.txt.gz \\
        --test=test.txt.gz --out=data/nbest

No sound is involved, and no figure obtained with these lists is one of speech recognition. The
lists are made in three steps:

 1. One to three other words compete with the true word at a share --substitutions of the words.
    Three times in four a competitor is a word of similar spelling (one letter more, less, other or
    swapped) if there is one; else it is drawn from the unigram distribution. At a share --deletions
    of the words, the absence of the word competes. At a share --insertions of the gaps, a word
    drawn from the unigram distribution competes. Only words of the corpus's vocabulary compete,
    so that a word outside the vocabulary is always replaced by a wrong one.
 2. The acoustic score of an alternative, relative to what was said, is drawn from a normal
    distribution of mean -m and variance 2 m (--margin), which is the distribution of the
    log-likelihood ratio of two Gaussian sources. It beats the truth with probability
    Φ(-sqrt(m / 2)). The acoustic score of a hypothesis is the sum over its errors plus a number
    that all hypotheses of an utterance share. On average it is -m times the number of errors plus
    that number, and hypotheses with the same error share its noise.
 3. A beam search ranks hypotheses by acoustic score + --lm_scale · ln P + --word_reward · words,
    where P is a bigram model of the corpus's training split. The list is the --hypotheses best
    distinct ones; the first of them is the output of the simulated recogniser. The defaults of
    scale and reward are close to what `tfsoftmax rescore --tune` finds for the bigram model alone.

The program writes valid.nbest and test.nbest (utterance acoustic lm word ...), valid.ref and
test.ref, bigram.arpa, and corruption.json with the settings. It takes the first sentences of each
file that have --min_words to --max_words words.
"""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.inputs.lattices import BEAM, Lattice, nbest
from tfsoftmax.commands import program
from tfsoftmax.ngrams.backoff import BackoffBigrams
from tfsoftmax.ngrams.counts import Bigrams

SETTINGS = ("substitutions", "deletions", "insertions", "margin", "lm_scale", "word_reward",
            "hypotheses", "min_words", "max_words", "utterances", "seed")


class Corruption:
    """Draws what competes with the words of a sentence, and the scores of the competitors.

    Args:
        vocabulary: `Vocabulary` of the competitors.
        substitutions, deletions, insertions: shares of words, words and gaps with competitors.
        margin: mean acoustic loss m of an error, in nats.
        seed: seed of all draws.
    """

    def __init__(self, vocabulary, substitutions, deletions, insertions, margin, seed):
        self._vocabulary, self._margin = vocabulary, margin
        self._shares = substitutions, deletions, insertions
        self._rng = np.random.default_rng(seed)
        mass = vocabulary.counts.astype(float)
        mass[[vocabulary.oov_id, vocabulary.eos_id]] = 0
        self._cumulative = np.cumsum(mass / mass.sum())
        self._spelling = _by_variant(vocabulary)

    def slots(self, words):
        """What the recogniser may hear: a list of slots, which are gaps and words in turn.

        Each slot is a list of alternatives (word or None, relative acoustic score). What was said
        comes first, unless the vocabulary lacks it.
        """
        substitutions, deletions, insertions = self._shares
        rng, slots = self._rng, []
        for word in [*words, None]:
            if rng.random() < insertions:
                slots.append([(None, 0.0), (self._unigram(), self._loss())])
            if word is None:
                return slots
            known = word in self._vocabulary
            slot = [(word, 0.0)] if known else []
            if rng.random() < substitutions or not known:
                rivals = dict.fromkeys(self._rival(word) for _ in range(rng.integers(1, 4)))
                slot += [(rival, self._loss()) for rival in rivals if rival != word]
            if rng.random() < deletions:
                slot.append((None, self._loss()))
            slots.append(slot)

    def offset(self, words):
        """The part of the acoustic score that all hypotheses of an utterance share."""
        return float(self._rng.normal(-30 * len(words), 10))

    def _loss(self):
        return float(self._rng.normal(-self._margin, math.sqrt(2 * self._margin)))

    def _unigram(self):
        place = np.searchsorted(self._cumulative, self._rng.random(), side="right")
        return self._vocabulary.words[min(place, len(self._cumulative) - 1)]

    def _rival(self, word):
        if self._rng.random() < 0.75:
            similar = {w for v in variants(word) for w in self._spelling.get(v, ())} - {word}
            if similar:
                return sorted(similar)[self._rng.integers(len(similar))]
        return self._unigram()


def variants(word):
    """The word itself and the word without each of its letters; similar words share a variant."""
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def _by_variant(vocabulary):
    spelling = {}
    for word in vocabulary.words:
        if not word.startswith("<"):
            for variant in variants(word):
                spelling.setdefault(variant, []).append(word)
    return spelling


def neighbour_scores(bigram, vocabulary, words):
    """A function of two of these words that gives ln P(the second | the first); None is `<eos>`."""
    heard = [*({*words} - {None}), None]
    ids = np.concatenate([vocabulary.encode(heard[:-1]), [vocabulary.eos_id]]).astype(np.int64)
    log_p = bigram.log_prob(ids[:, None], ids).tolist()
    place = {word: i for i, word in enumerate(heard)}
    return lambda before, word: log_p[place[before]][place[word]]


def main():
    """Writes the lists of both splits, the bigram model and the settings."""
    from tfsoftmax.corpora.records import Corpus

    options = flags.FLAGS
    if not 1 <= options.hypotheses <= BEAM:
        raise ValueError(f"`hypotheses` must lie in [1, {BEAM}]. Received: {options.hypotheses}")
    corpus, out = Corpus.load(options.data), Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    bigram = bigram_model(neighbours(corpus), corpus.vocabulary)
    bigram.write_arpa(out / "bigram.arpa", corpus.vocabulary.words)
    settings = {name: options[name].value for name in SETTINGS}
    corruption = Corruption(
        corpus.vocabulary, *(settings[name] for name in SETTINGS[:4]), options.seed
    )
    for split in ("valid", "test"):
        lists = []
        for words in sentences(options[split].value, options):
            offset = corruption.offset(words)
            lattice = Lattice.of_slots(corruption.slots(words))
            log_p = neighbour_scores(bigram, corpus.vocabulary, lattice.words())
            hypotheses = nbest(
                lattice, log_p, options.hypotheses, options.lm_scale, options.word_reward)
            lists.append((words, [(said, a + offset, lm) for said, a, lm in hypotheses]))
        write(out, split, lists)
    (out / "corruption.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def sentences(path, options):
    """The first --utterances sentences of a file that have --min_words to --max_words words."""
    from tfsoftmax.corpora.text import TextFiles

    split = (line.split() for line in itertools.chain.from_iterable(TextFiles([path])))
    fitting = (s for s in split if options.min_words <= len(s) <= options.max_words)
    return itertools.islice(fitting, options.utterances)


def write(out, split, lists):
    """Writes SPLIT.ref and SPLIT.nbest of [(what was said, [(words, acoustic, lm)])]."""
    with open(out / f"{split}.nbest", "w", encoding="utf-8") as nbest_file, \
            open(out / f"{split}.ref", "w", encoding="utf-8") as references:
        for number, (said, hypotheses) in enumerate(lists):
            utterance = f"{split}-{number:05d}"
            references.write(f"{utterance} {' '.join(said)}\n")
            for words, acoustic, lm in hypotheses:
                scores = f"{acoustic:.4f} {lm:.4f}"
                nbest_file.write(" ".join([utterance, scores, *words]) + "\n")


def bigram_model(batches, vocabulary):
    """The model of a text, of which `batches` yields words and the words after them, as ids.

    The discount is n₁ / (n₁ + 2 n₂), with n₁ and n₂ bigrams that were seen once and twice (Ney et
    al. 1994).
    """
    bigrams = Bigrams.count(batches, len(vocabulary))
    once, twice = (np.count_nonzero(bigrams.successors[2] == times) for times in (1, 2))
    return BackoffBigrams.from_counts(bigrams, bigrams.totals()[1], once / (once + 2 * twice))


def neighbours(corpus):
    """Yields the words of the training split and the words that follow them, as pairs of ids."""
    program.load_tensorflow()
    from tfsoftmax.corpora.pipeline import batches

    for words, following, weights in batches(corpus, "train").as_numpy_iterator():
        yield words[weights > 0], following[weights > 0]


def define_flags(utterances, hypotheses):
    """Defines the flags of programs that make lists, with defaults of two of them."""
    flags.DEFINE_string("data", None, "Directory that `tfsoftmax prepare` made.", required=True)
    flags.DEFINE_string("valid", None, "File of sentences for lists to tune on.", required=True)
    flags.DEFINE_string("test", None, "File of sentences for lists to test on.", required=True)
    flags.DEFINE_string("out", None, "Directory to write to.", required=True)
    flags.DEFINE_integer("utterances", utterances, "Largest number of sentences of each file.")
    flags.DEFINE_integer("hypotheses", hypotheses, "Largest number of hypotheses of each list.")
    flags.DEFINE_integer("min_words", 4, "Fewest words of a sentence.")
    flags.DEFINE_integer("max_words", 30, "Most words of a sentence.")
    flags.DEFINE_integer("seed", 1, "Seed of all draws.")


if __name__ == "__main__":
    define_flags(utterances=2000, hypotheses=20)
    flags.DEFINE_float("substitutions", 0.8, "Share of the words that have competitors.")
    flags.DEFINE_float("deletions", 0.06, "Share of the words that may be missed.")
    flags.DEFINE_float("insertions", 0.06, "Share of the gaps where a word may be heard.")
    flags.DEFINE_float("margin", 0.8, "Mean acoustic loss of an error, in nats.")
    flags.DEFINE_float("lm_scale", 0.5, "Weight of the bigram model in the search.")
    flags.DEFINE_float("word_reward", 3.0, "Reward of each word in the search, in nats.")
    program.run(main, __doc__, sys.argv)

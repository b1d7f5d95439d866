#!/usr/bin/env python3
"""N-best lists by corrupting sentences at known rates: a stand-in for a speech recogniser.

    python -m experiments.corrupted_nbest --data=data/novels --valid=valid.txt.gz \\
        --test=test.txt.gz --out=data/nbest

No sound is involved, and no figure obtained with these lists is one of speech recognition. What
is known of each list is what was done to it:

 1. At a share of the words, --substitutions, one to three other words compete with the true one:
    words of similar spelling (one letter more, less, other or swapped), if there are any, three
    times in four, and words drawn from the unigram distribution. At a share --deletions
    of the words competes that none was said; at a share --insertions of the gaps competes a
    word drawn from the unigram distribution. Words that the corpus's vocabulary lacks are not
    among the competitors, so that what stands there is always wrong.
 2. An alternative's acoustic score, relative to what was said, is drawn from a normal
    distribution of mean -m and variance 2 m (--margin), as log-likelihood ratios are distributed
    of two Gaussian sources: it beats the truth with probability Φ(-sqrt(m / 2)). The acoustic score
    of a hypothesis is the sum over its errors, and a number that all of an utterance share; so it
    is a noisy function, -m times the number of its errors on average, and hypotheses with the
    same error share the noise.
 3. A beam search ranks hypotheses by acoustic score + --lm_scale · ln P + --word_reward · words,
    P being a bigram model of the corpus's training split, and the best --hypotheses distinct
    ones are the list. Its first is the output of the recogniser that is simulated. Scale and
    reward are about what `tfsoftmax rescore` --tune finds for the bigram model alone.

Written are valid.nbest and test.nbest (utterance acoustic lm word ...), valid.ref and test.ref,
bigram.arpa, and corruption.json with the settings. Sentences are taken from the beginning of the
files, those of --min_words to --max_words words.
"""

import itertools
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

import tfsoftmax_command  # noqa: F401  (first, so that nothing below loads TensorFlow)
from absl import flags
import numpy as np

from experiments.bigram_model import BigramModel
from tfsoftmax.commands import program

BEAM = 64
SETTINGS = ("substitutions", "deletions", "insertions", "margin", "lm_scale", "word_reward",
            "hypotheses", "min_words", "max_words", "utterances", "seed")


class Corruption:
    """Draws what competes with the words of a sentence, and how it scores.

    Args:
        vocabulary: `Vocabulary`; competitors are its words.
        substitutions, deletions, insertions: shares of words, words and gaps with competitors.
        margin: m, mean acoustic loss of an error, in nats.
        seed: of all draws.
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
        """What the recogniser may hear: a list of slots, gaps and words in turn.

        Each slot is a list of alternatives (word or None, relative acoustic score), what was
        said first unless the vocabulary lacks it.
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
        """A part of the acoustic score that all hypotheses of an utterance share."""
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
    """The word, and the word without each of its letters: what words of like spelling share."""
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def _by_variant(vocabulary):
    spelling = {}
    for word in vocabulary.words:
        if not word.startswith("<"):
            for variant in variants(word):
                spelling.setdefault(variant, []).append(word)
    return spelling


def nbest(slots, bigram, count, lm_scale=1.0, word_reward=0.0):
    """The best hypotheses by acoustic + lm_scale · lm + word_reward · words.

    Args:
        slots: as `Corruption.slots` returns them.
        bigram: `BigramModel`.
        count: number of hypotheses, at most BEAM.
        lm_scale, word_reward: weights.

    Returns:
        List of (words, acoustic, lm), best first; lm is ln P of words and `<eos>`.
    """
    vocabulary = bigram.vocabulary
    eos = vocabulary.eos_id
    ids = {w: int(i) for slot in slots for w, _ in slot if w for i in vocabulary.encode([w])}
    beam = {(): (0.0, 0.0)}

    def rank(item):
        words, (acoustic, lm) = item
        return -(acoustic + lm_scale * lm + word_reward * len(words))

    for slot in slots:
        extended = {}
        for (words, (acoustic, lm)), (word, loss) in itertools.product(beam.items(), slot):
            if word is not None:
                lm += bigram.log_prob(ids[words[-1]] if words else eos, ids[word])
                words = (*words, word)
            # The same words come about in several ways; the likeliest counts.
            if words not in extended or extended[words][0] < acoustic + loss:
                extended[words] = acoustic + loss, lm
        beam = dict(sorted(extended.items(), key=rank)[:BEAM])
    ended = {
        words: (acoustic, lm + bigram.log_prob(ids[words[-1]] if words else eos, eos))
        for words, (acoustic, lm) in beam.items()
    }
    return [(words, *scores) for words, scores in sorted(ended.items(), key=rank)[:count]]


def main():
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.corpora.text import TextFiles

    options = flags.FLAGS
    if not 1 <= options.hypotheses <= BEAM:
        raise ValueError(f"`hypotheses` must lie in [1, {BEAM}]. Received: {options.hypotheses}")
    corpus, out = Corpus.load(options.data), Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    bigram = BigramModel.count(neighbours(corpus), corpus.vocabulary)
    bigram.write_arpa(out / "bigram.arpa")
    settings = {name: options[name].value for name in SETTINGS}
    corruption = Corruption(
        corpus.vocabulary, *(settings[name] for name in SETTINGS[:4]), options.seed
    )
    for split in ("valid", "test"):
        lines = itertools.chain.from_iterable(TextFiles([options[split].value]))
        sentences = (line.split() for line in lines)
        fitting = (s for s in sentences if options.min_words <= len(s) <= options.max_words)
        with open(out / f"{split}.nbest", "w", encoding="utf-8") as lists, \
                open(out / f"{split}.ref", "w", encoding="utf-8") as references:
            for number, words in enumerate(itertools.islice(fitting, options.utterances)):
                utterance, offset = f"{split}-{number:05d}", corruption.offset(words)
                references.write(f"{utterance} {' '.join(words)}\n")
                hypotheses = nbest(
                    corruption.slots(words), bigram, options.hypotheses, options.lm_scale,
                    options.word_reward,
                )
                for said, acoustic, lm in hypotheses:
                    scores = f"{acoustic + offset:.4f} {lm:.4f}"
                    lists.write(" ".join([utterance, scores, *said]) + "\n")
    (out / "corruption.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def neighbours(corpus):
    """Pairs of words and following words of the training split."""
    program.load_tensorflow()
    from tfsoftmax.corpora.pipeline import batches

    for words, following, weights in batches(corpus, "train").as_numpy_iterator():
        yield words[weights > 0], following[weights > 0]


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "directory that `tfsoftmax prepare` made", required=True)
    flags.DEFINE_string("valid", None, "sentences to make lists of, to tune on", required=True)
    flags.DEFINE_string("test", None, "sentences to make lists of, to report on", required=True)
    flags.DEFINE_string("out", None, "directory to write to", required=True)
    flags.DEFINE_integer("utterances", 2000, "at most so many of each file")
    flags.DEFINE_integer("hypotheses", 20, "length of a list")
    flags.DEFINE_integer("min_words", 4, "shorter sentences are left out")
    flags.DEFINE_integer("max_words", 30, "longer sentences are left out")
    flags.DEFINE_float("substitutions", 0.8, "share of words with competitors")
    flags.DEFINE_float("deletions", 0.06, "share of words that may be missed")
    flags.DEFINE_float("insertions", 0.06, "share of gaps where a word may be heard")
    flags.DEFINE_float("margin", 0.8, "mean acoustic loss of an error, in nats")
    flags.DEFINE_float("lm_scale", 0.5, "weight of the bigram model in the search")
    flags.DEFINE_float("word_reward", 3.0, "nats for each word in the search")
    flags.DEFINE_integer("seed", 1, "of all draws")
    program.run(main, __doc__, sys.argv)

"""Lattices of what may have been said, and their best hypotheses."""

import heapq
from typing import NamedTuple

BEAM = 64  # beginnings of hypotheses that a node keeps


class Lattice(NamedTuple):
    """What may have been said.

    Attributes:
        links: {node: [(a later node, the word that leads there, its acoustic score)]} of all nodes
            in the order of time. None stands for a pause, a noise, a word that was not said, and
            the begin and end of the sentence.
        start, end: the nodes where all hypotheses begin and end.
    """

    links: dict
    start: object
    end: object

    @classmethod
    def read(cls, lines, lm_scale):
        """Reads the lines of a lattice in HTK's format, as PocketSphinx writes it.

        Nodes are lines `I=3 t=0.35 W=word`, where words with `!` are no words, and links are lines
        `J=7 S=3 E=5 a=-12.5`.

        Args:
            lines: list of str.
            lm_scale: what the scores are divided by.
        """
        header, words, times, links = {}, {}, {}, []
        for line in lines:
            if line.startswith("#"):
                continue
            fields = dict(field.split("=", 1) for field in line.split())
            if "I" in fields:
                times[fields["I"]] = float(fields["t"])
                words[fields["I"]] = None if fields["W"].startswith("!") else fields["W"]
            elif "J" in fields:
                links.append((fields["S"], fields["E"], float(fields["a"]) / lm_scale))
            else:
                header |= fields
        ordered = {node: [] for node in sorted(words, key=times.get)}
        for node, to, score in links:
            ordered[node].append((to, words[to], score))
        return cls(ordered, header["start"], header["end"])

    @classmethod
    def of_slots(cls, slots):
        """A lattice of slots that follow one another: lists of (word or None, acoustic score)."""
        links = {i: [(i + 1, *each) for each in slot] for i, slot in enumerate(slots)}
        return cls({**links, len(slots): []}, 0, len(slots))

    def words(self):
        """All words that may have been said, with None among them."""
        return {word for links in self.links.values() for _, word, _ in links}


def nbest(lattice, log_p, count, lm_scale=1.0, word_reward=0.0):
    """The best hypotheses of a lattice by acoustic + lm_scale · lm + word_reward · words.

    Args:
        lattice: `Lattice`.
        log_p: function of two words that gives ln P of the second; None is `<eos>`.
        count: number of hypotheses, at most BEAM.
        lm_scale, word_reward: weights of the language model and of the number of words.

    Returns:
        List of (words, acoustic, lm), best first, of different words, where lm is ln P of the words
        and `<eos>`. Where the lattice has the same words several times, the likeliest counts. A
        lattice without a way from its start to its end has one hypothesis, without words.
    """

    def rank(item):
        words, (acoustic, lm) = item
        return acoustic + lm_scale * lm + word_reward * len(words)

    begun, kept = {lattice.start: {(): (0.0, 0.0)}}, []
    for node, links in lattice.links.items():
        kept = heapq.nlargest(BEAM, begun.pop(node, {}).items(), key=rank)
        if node == lattice.end:
            break
        for words, (acoustic, lm) in kept:
            for to, word, score in links:
                longer, lm_of_longer = words, lm
                if word is not None:
                    lm_of_longer += log_p(words[-1] if words else None, word)
                    longer = (*words, word)
                extended = begun.setdefault(to, {})
                if longer not in extended or extended[longer][0] < acoustic + score:
                    extended[longer] = acoustic + score, lm_of_longer
    ended = {
        words: (acoustic, lm + log_p(words[-1] if words else None, None))
        for words, (acoustic, lm) in kept or [((), (0.0, 0.0))]
    }
    return [(words, *scores) for words, scores in heapq.nlargest(count, ended.items(), key=rank)]

"""Reads lattices of recognisers and finds their best hypotheses."""

import heapq
from typing import NamedTuple

BEAM = 64  # beginnings of hypotheses that a node keeps


class Lattice(NamedTuple):
    """What may have been said.

    Attributes:
        words: {node: its word; None for a pause, a noise, and the begin and end of the sentence},
            in the order of time.
        links: {node: [(a later node, score of the sound of the first)]}, in nats.
        start, end: the nodes where all hypotheses begin and end.
    """

    words: dict
    links: dict
    start: str
    end: str

    @classmethod
    def read(cls, lines):
        """Reads the lines of a lattice in HTK's format, as PocketSphinx writes it.

        Nodes are lines `I=3 t=0.35 W=word`, where words with `!` are no words, and links are lines
        `J=7 S=3 E=5 a=-12.5`.
        """
        header, words, times, links = {}, {}, {}, {}
        for line in lines:
            if line.startswith("#"):
                continue
            fields = dict(field.split("=", 1) for field in line.split())
            if "I" in fields:
                times[fields["I"]] = float(fields["t"])
                words[fields["I"]] = None if fields["W"].startswith("!") else fields["W"]
            elif "J" in fields:
                links.setdefault(fields["S"], []).append((fields["E"], float(fields["a"])))
            else:
                header |= fields
        ordered = {node: words[node] for node in sorted(words, key=times.get)}
        return cls(ordered, links, header["start"], header["end"])


def nbest(lattice, log_p, count, lm_scale, word_reward):
    """The best hypotheses of a lattice by acoustic + lm + word_reward · words.

    Args:
        lattice: `Lattice`.
        log_p: function of two words that gives ln P of the second; None is `<eos>`.
        count: number of hypotheses, at most BEAM.
        lm_scale: what the scores of the lattice are divided by.
        word_reward: reward of each word.

    Returns:
        List of (words, acoustic, lm), best first, of different words; where the lattice has the
        same words several times, the likeliest counts. A lattice without a way from its start to
        its end has one hypothesis, without words.
    """

    def rank(item):
        words, (acoustic, lm) = item
        return acoustic + lm + word_reward * len(words)

    begun, kept = {lattice.start: {(): (0.0, 0.0)}}, []
    for node in lattice.words:
        kept = heapq.nlargest(BEAM, begun.pop(node, {}).items(), key=rank)
        if node == lattice.end:
            break
        for to, score in lattice.links.get(node, ()):
            word, extended = lattice.words[to], begun.setdefault(to, {})
            for words, (acoustic, lm) in kept:
                if word is not None:
                    lm += log_p(words[-1] if words else None, word)
                    words = (*words, word)
                acoustic += score / lm_scale
                if words not in extended or extended[words][0] < acoustic:
                    extended[words] = acoustic, lm
    ended = {
        words: (acoustic, lm + log_p(words[-1] if words else None, None))
        for words, (acoustic, lm) in kept or [((), (0.0, 0.0))]
    }
    return [(words, *scores) for words, scores in heapq.nlargest(count, ended.items(), key=rank)]

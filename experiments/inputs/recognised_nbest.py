"""Makes n-best lists with a real recogniser, PocketSphinx, of speech that a synthesiser speaks.

    apt-get install flite
    pip install pocketsphinx
    python -m experiments.inputs.recognised_nbest --data=data/million --valid=valid.txt.gz \\
        --test=test.txt.gz --out=data/recognised

The recogniser is real; the speech is not, and figures obtained with these lists say how a language
model does with the confusions of an acoustic model, not how well people are understood. The lists
are made in three steps:

 1. Flite speaks each sentence, with the --voices in turn. Noise with the spectrum of the utterance
    and random phases is added, at a ratio of --snr decibels.
 2. PocketSphinx recognises it with the acoustic model en-us that comes with its package, a bigram
    model of the corpus's training split, and those words of the corpus that its dictionary
    pronounces. Each utterance is recognised on its own.
 3. The list is the --hypotheses best different word sequences of its lattice, by the recogniser's
    own weights, and the first is what it recognised. lm is the bigram model's ln P of the words and
    `<eos>`. acoustic holds all the rest except the penalty of words: the scores of sound and of
    pauses, in nats, divided by the recogniser's weight of the language model. Hence 1 is the
    recogniser's own weight of the bigram model in rescoring. Of hypotheses that differ only in
    pauses, times or pronunciations, the likeliest counts.

The program writes valid.nbest and test.nbest (utterance acoustic lm word ...), valid.ref and
test.ref, bigram.arpa, and recognition.json with the settings. It takes the first sentences of each
file that have --min_words to --max_words words. Finished utterances are kept in utterances.jsonl;
the same command goes on from there.
"""

import heapq
import itertools
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import wave
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.inputs.corrupted_nbest import (
    bigram_model,
    define_flags,
    neighbour_scores,
    neighbours,
    sentences,
    write,
)
from tfsoftmax.commands import program
from tfsoftmax.support.extras import imported
from tfsoftmax.support.progress import bar

USER = "experiments.inputs.recognised_nbest"
RATE = 16_000
BEAM = 64  # beginnings of hypotheses that a node of a lattice keeps
WEIGHTS = {"lw": 6.5, "bestpathlw": 9.5, "wip": 0.65}  # the decoder's defaults
SETTINGS = ("voices", "snr", "hypotheses", "min_words", "max_words", "utterances", "seed")


class Lattice(NamedTuple):
    """What may have been said.

    Attributes:
        words: {node: its word; None for a pause, a noise, or the begin or end of the sentence}, in
            the order of time.
        links: {node: [(a later node, score of the sound of the first)]}, in nats.
        start, end: the nodes where all hypotheses begin and end.
    """

    words: dict
    links: dict
    start: str
    end: str


def read_lattice(lines):
    """Reads a `Lattice` in HTK's format."""
    header, words, times, links = {}, {}, {}, {}
    for line in lines:
        if line.startswith("#"):
            continue
        fields = dict(field.split("=", 1) for field in line.split())
        if "I" in fields:
            times[fields["I"]] = float(fields["t"])
            words[fields["I"]] = None if fields["W"].startswith("!") else fields["W"]
        elif "J" not in fields:
            header |= fields
        else:
            links.setdefault(fields["S"], []).append((fields["E"], float(fields["a"])))
    ordered = {node: words[node] for node in sorted(words, key=times.get)}
    return Lattice(ordered, links, header["start"], header["end"])


def nbest(lattice, log_p, count):
    """The best hypotheses of a lattice by acoustic + lm + words · ln(wip) / lw.

    Args:
        lattice: `Lattice`.
        log_p: function of two words that gives ln P of the second; None is `<eos>`.
        count: number of hypotheses, at most BEAM.

    Returns:
        List of (words, acoustic, lm), best first; acoustic is divided by bestpathlw.
    """
    reward = math.log(WEIGHTS["wip"]) / WEIGHTS["lw"]

    def rank(item):
        words, (acoustic, lm) = item
        return acoustic + lm + reward * len(words)

    begun = {lattice.start: {(): (0.0, 0.0)}}
    for node, links in ((node, lattice.links.get(node, ())) for node in lattice.words):
        kept = heapq.nlargest(BEAM, begun.get(node, {}).items(), key=rank)
        if node == lattice.end:
            break
        for to, score in links:
            word, extended = lattice.words[to], begun.setdefault(to, {})
            for words, (acoustic, lm) in kept:
                if word is not None:
                    lm += log_p(words[-1] if words else None, word)
                    words = (*words, word)
                acoustic += score / WEIGHTS["bestpathlw"]
                # The same words may arise in several ways, of which the likeliest counts.
                if words not in extended or extended[words][0] < acoustic:
                    extended[words] = acoustic, lm
    ended = {
        words: (acoustic, lm + log_p(words[-1] if words else None, None))
        for words, (acoustic, lm) in kept or [((), (0.0, 0.0))]  # it may have recognised nothing
    }
    return [(words, *scores) for words, scores in heapq.nlargest(count, ended.items(), key=rank)]


def noisy(samples, snr, rng):
    """int16 samples with stationary noise of their own spectrum, `snr` decibels below them."""
    spectrum = np.fft.rfft(samples.astype(float))
    noise = np.fft.irfft(
        np.abs(spectrum) * np.exp(2j * np.pi * rng.random(len(spectrum))), len(samples)
    )
    noise *= np.sqrt(np.mean(samples.astype(float) ** 2) / np.mean(noise**2) / 10 ** (snr / 10))
    return np.clip(np.round(samples + noise), -(2**15), 2**15 - 1).astype(np.int16)


def spoken(words, voice, folder):
    """int16 samples of a sentence in one of Flite's voices."""
    path = folder / "speech.wav"
    subprocess.run(["flite", "-voice", voice, "-t", " ".join(words), "-o", path], check=True)
    with wave.open(str(path)) as file:
        if file.getframerate() != RATE:
            raise ValueError(f"`voices` must have {RATE} samples a second. Received: {voice}")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def pronunciations(lines, words):
    """The lines of a dictionary, such as `read(2) R IY D`, that pronounce one of the words."""
    return [line for line in lines if re.sub(r"\(\d+\)$", "", line.split()[0]) in words]


class Recogniser:
    """PocketSphinx with its own acoustic model.

    Args:
        words: str, the words that it may recognise.
        arpa: path of its language model.
        folder: where its temporary files are written.
    """

    def __init__(self, words, arpa, folder):
        sphinx = imported("pocketsphinx", USER)
        sphinx.set_loglevel("FATAL")
        with open(sphinx.get_model_path("en-us/cmudict-en-us.dict"), encoding="utf-8") as lines:
            known = pronunciations(lines, set(words))
        (folder / "words.dict").write_text("".join(known), encoding="utf-8")
        self._lattice = folder / "lattice.slf"
        self._decoder = sphinx.Decoder(
            hmm=sphinx.get_model_path("en-us/en-us"), dict=str(folder / "words.dict"),
            lm=str(arpa), samprate=RATE, **WEIGHTS,
        )

    def __call__(self, samples):
        """What it recognises in int16 samples, as words, and its `Lattice`."""
        self._decoder.start_utt()
        self._decoder.process_raw(samples.tobytes(), full_utt=True)
        self._decoder.end_utt()
        best, lattice = self._decoder.hyp(), self._decoder.get_lattice()
        if best is None or lattice is None:
            return [], Lattice({"end": None}, {}, "end", "end")
        lattice.write_htk(str(self._lattice))
        with open(self._lattice, encoding="utf-8") as lines:
            return best.hypstr.split(), read_lattice(lines)


def finished(path):
    """The lines of a file of JSON, of which it cuts off a last one that a kill left unfinished."""
    lines = path.read_text(encoding="utf-8").splitlines(True) if path.exists() else []
    if lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]), encoding="utf-8")
    return [json.loads(line) for line in lines if line.endswith("\n")]


def check_settings(path, settings):
    """Writes the settings to a file, or checks that it has them.

    Raises:
        ValueError: it has others.
    """
    if not path.exists():
        path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept != settings:
        raise ValueError(f"`out` must be empty or have the settings {settings}. Received: {kept}")


def main():
    """Writes the lists of both splits, the bigram model and the settings."""
    from tfsoftmax.corpora.records import Corpus

    options = flags.FLAGS
    if not 1 <= options.hypotheses <= BEAM:
        raise ValueError(f"`hypotheses` must lie in [1, {BEAM}]. Received: {options.hypotheses}")
    imported("pocketsphinx", USER)
    if shutil.which("flite") is None:
        raise RuntimeError(f"{USER} needs flite: apt-get install flite")
    corpus, out = Corpus.load(options.data), Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    settings = {name: options[name].value for name in SETTINGS} | WEIGHTS
    versions = {"pocketsphinx": metadata.version("pocketsphinx")}
    check_settings(out / "recognition.json", settings | versions)
    bigram = bigram_model(neighbours(corpus), corpus.vocabulary)
    bigram.write_arpa(out / "bigram.arpa", corpus.vocabulary.words)
    said = {
        split: [*sentences(options[split].value, options)] for split in ("valid", "test")
    }
    path = out / "utterances.jsonl"
    rows = finished(path)
    with tempfile.TemporaryDirectory() as folder, open(path, "a", encoding="utf-8") as file, \
            bar("recognising", sum(map(len, said.values())), "utterances", initial=len(rows)) as do:
        folder = Path(folder)
        recognise = Recogniser(corpus.vocabulary.words, out / "bigram.arpa", folder)
        for number, words in enumerate(itertools.chain(*said.values())):
            if number < len(rows):
                continue
            voice = options.voices[number % len(options.voices)]
            rng = np.random.default_rng([options.seed, number])
            samples = noisy(spoken(words, voice, folder), options.snr, rng)
            best, lattice = recognise(samples)
            log_p = neighbour_scores(bigram, corpus.vocabulary, lattice.words.values())
            rows.append({
                "best": best, "seconds": len(samples) / RATE,
                "nbest": nbest(lattice, log_p, options.hypotheses),
            })
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
            do.update()
    lists = (row["nbest"] for row in rows)
    for split, of_split in said.items():
        write(out, split, list(zip(of_split, lists)))


if __name__ == "__main__":
    define_flags(utterances=1000, hypotheses=50)
    flags.DEFINE_list("voices", ["slt", "rms", "awb", "kal16"], "Voices of Flite, in turn.")
    flags.DEFINE_float("snr", 30.0, "Signal-to-noise ratio, in decibels.")
    program.run(main, __doc__, sys.argv)

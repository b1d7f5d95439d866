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
    own weights. The first is what it recognised; recognition.json says how seldom it is not. lm is
    the bigram model's ln P of the words and `<eos>`. acoustic holds all the rest but the penalty of
    words: the scores of sound and of pauses, in nats, divided by the recogniser's weight of the
    language model. Hence 1 is the recogniser's own weight of the bigram model in rescoring. Of
    hypotheses that differ only in pauses, times or pronunciations, the likeliest counts.

The program writes valid.nbest and test.nbest (utterance acoustic lm word ...), valid.ref and
test.ref, bigram.arpa, and recognition.json with the settings. It takes the first sentences of each
file that have --min_words to --max_words words. Finished utterances are kept in utterances.jsonl;
the same command goes on from there.
"""

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
from experiments.inputs.lattices import BEAM, Lattice, nbest
from tfsoftmax.commands import program
from tfsoftmax.support.extras import imported
from tfsoftmax.support.progress import bar
from tfsoftmax.support.textio import records_of
from tfsoftmax.support.whole_files import append_line

USER = "experiments.inputs.recognised_nbest"
RATE = 16_000
WEIGHTS = {"lw": 6.5, "bestpathlw": 9.5, "wip": 0.65}  # the decoder's defaults
SETTINGS = ("voices", "snr", "hypotheses", "min_words", "max_words", "utterances", "seed")


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
    return [line for line in lines if _spelling(line) in words]


def _spelling(line):
    return re.sub(r"\(\d+\)$", "", line.split()[0])


class Recogniser:
    """PocketSphinx with its own acoustic model.

    Args:
        words: str, the words that it may recognise.
        arpa: path of its language model.
        folder: where its temporary files are written.

    Attributes:
        words: set of those of them that its dictionary pronounces.
    """

    def __init__(self, words, arpa, folder):
        sphinx = imported("pocketsphinx", USER)
        sphinx.set_loglevel("FATAL")
        with open(sphinx.get_model_path("en-us/cmudict-en-us.dict"), encoding="utf-8") as lines:
            known = pronunciations(lines, set(words))
        self.words = {_spelling(line) for line in known}
        (folder / "words.dict").write_text("".join(known), encoding="utf-8")
        self._lattice = folder / "lattice.slf"
        self._decoder = sphinx.Decoder(
            hmm=sphinx.get_model_path("en-us/en-us"), dict=str(folder / "words.dict"),
            lm=str(arpa), samprate=RATE, **WEIGHTS,
        )

    def __call__(self, samples):
        """What it recognises in int16 samples, as words, and its `Lattice`."""
        self._decoder.reinit_feat()  # else its filter would keep the noise of utterances before
        self._decoder.start_utt()
        self._decoder.process_raw(samples.tobytes(), full_utt=True)
        self._decoder.end_utt()
        best, lattice = self._decoder.hyp(), self._decoder.get_lattice()
        if best is None or lattice is None:
            return [], Lattice.of_slots([])
        lattice.write_htk(str(self._lattice))
        with open(self._lattice, encoding="utf-8") as lines:
            return best.hypstr.split(), Lattice.read(lines, WEIGHTS["bestpathlw"])


def resumed(path, said, recognise):
    """The rows of a file of JSON, which has one for each sentence in the end.

    Args:
        path: the file, which may have the rows of the first sentences.
        said: list of sentences.
        recognise: function of a number and a sentence that gives its row.
    """
    done = len(records_of(path))
    with bar("recognising", len(said), "utterances", initial=done) as shown:
        for number in range(done, len(said)):
            append_line(path, json.dumps(recognise(number, said[number])))
            shown.update()
    return records_of(path)


def check_settings(path, settings):
    """Writes the settings to a file, or checks that it has them, among others.

    Raises:
        ValueError: it has others.
    """
    if not path.exists():
        write_json(path, settings)
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept | settings != kept:
        raise ValueError(f"`out` must be empty or have the settings {settings}. Received: {kept}")


def write_json(path, values):
    """Writes {name: value}."""
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def facts(said, rows, known):
    """What the lists of sentences came to, as {name: text}; `known` are the recogniser's words."""
    alike = [row["nbest"][0][0] == row["best"] for row in rows]
    words = [word in known for words in said for word in words]
    hours = sum(row["seconds"] for row in rows) / 3600
    version = subprocess.run(["flite", "--version"], capture_output=True, text=True).stdout
    return {
        "flite": "".join(re.findall(r"flite-([\d.]+)", version)), "hours of speech": f"{hours:.2f}",
        "words that the recogniser lacks": f"{100 * (1 - np.mean(words)):.1f} %",
        "first hypotheses that are its own best": f"{100 * np.mean(alike):.1f} %",
    }


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
    settings |= {"pocketsphinx": metadata.version("pocketsphinx")}
    check_settings(out / "recognition.json", settings)
    bigram = bigram_model(neighbours(corpus), corpus.vocabulary)
    bigram.write_arpa(out / "bigram.arpa", corpus.vocabulary.words)
    said = {split: [*sentences(options[split].value, options)] for split in ("valid", "test")}
    reward = math.log(WEIGHTS["wip"]) / WEIGHTS["lw"]
    with tempfile.TemporaryDirectory() as folder:
        recogniser = Recogniser(corpus.vocabulary.words, out / "bigram.arpa", Path(folder))

        def row(number, words):
            samples = spoken(words, options.voices[number % len(options.voices)], Path(folder))
            rng = np.random.default_rng([options.seed, number])
            best, lattice = recogniser(noisy(samples, options.snr, rng))
            log_p = neighbour_scores(bigram, corpus.vocabulary, lattice.words())
            lists = nbest(lattice, log_p, options.hypotheses, word_reward=reward)
            return {"best": best, "seconds": len(samples) / RATE, "nbest": lists}

        together = [*itertools.chain(*said.values())]
        rows = resumed(out / "utterances.jsonl", together, row)
    found = facts(together, rows, recogniser.words)
    write_json(out / "recognition.json", settings | found)
    lists = (row["nbest"] for row in rows)
    for split, of_split in said.items():
        write(out, split, list(zip(of_split, lists)))


if __name__ == "__main__":
    define_flags(utterances=1000, hypotheses=50)
    flags.DEFINE_list("voices", ["slt", "rms", "awb", "kal16"], "Voices of Flite, in turn.")
    flags.DEFINE_float("snr", 30.0, "Signal-to-noise ratio, in decibels.")
    program.run(main, __doc__, sys.argv)

"""Reads and writes what belongs to n-best lists: transcripts, words of ids, and speakers."""

import os
import re
from collections.abc import Iterable, Sequence

from tfsoftmax.nbest.alternatives import has_alternatives, lowered, parsed, written
from tfsoftmax.nbest.rows import read_fields
from tfsoftmax.nbest.spelling import Spelling
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect, refusal


def read_symbols(path: str | os.PathLike) -> dict[str, str]:
    """Reads Kaldi's `words.txt`, with lines `word id`.

    Returns:
        Dictionary from an id, as it is written, to its word.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line does not have this format, or an id occurs twice.
    """
    symbols = {}
    for where, fields in read_fields(path):
        if len(fields) != 2 or not (fields[1].isascii() and fields[1].isdigit()):
            raise refusal(f"{where}:", "be `word id`", ' '.join(fields))
        expect(fields[1] not in symbols, f"{where}: ids", "differ", received=f"{fields[1]!r} again")
        symbols[fields[1]] = fields[0]
    return symbols


def read_speakers(path: str | os.PathLike) -> dict[str, str]:
    """Reads Kaldi's `utt2spk`, with lines `utterance speaker`.

    Returns:
        Dictionary from an utterance to its speaker.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line does not have this format, or an utterance occurs twice.
    """
    speakers = {}
    for where, fields in read_fields(path):
        expect(len(fields) == 2, f"{where}:", "be `utterance speaker`", ' '.join(fields))
        expect(fields[0] not in speakers, f"{where}: each utterance", "have one line", fields[0])
        speakers[fields[0]] = fields[1]
    return speakers


def speaker_of(utterance: str) -> str:
    """The speaker whom the id of an utterance begins with, which ends at the first - or _.

    Raises:
        ValueError: the id has neither.
    """
    speaker = re.match(r"([^-_]+)[-_]", utterance)
    expect(speaker is not None, "utt2spk",
           "be given where utterances do not begin with `SPEAKER-` or `SPEAKER_`",
           received=f"none, with the utterance {utterance!r}")
    return speaker[1]


def read_transcripts(
    path: str | os.PathLike, lowercase: bool = False, spelling: Spelling | None = None,
    several: bool = True,
) -> dict[str, tuple]:
    """Reads lines `utterance word ...`, or `word ... (utterance)` if the file is named *.trn.

    Args:
        path: a file. A file *.trn may have alternatives, which sclite reads.
        lowercase: whether to turn the words into lower case.
        spelling: how words are read; None refuses pieces of words.
        several: whether alternatives are allowed.

    Returns:
        Dictionary from an utterance to its words, a transcript of `alternatives`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an utterance has two lines, a line has no utterance, or alternatives that are
            not allowed or do not end.
    """
    spelling = spelling or Spelling()
    transcripts, trn = {}, textio.plain_name(path).endswith(".trn")
    for where, fields in read_fields(path):
        if trn:
            utterance, fields = fields[-1], fields[:-1]
            if len(utterance) < 3 or utterance[0] + utterance[-1] != "()":
                raise refusal(f"{where}:", "end in `(utterance)`", utterance)
            utterance, fields = utterance[1:-1], parsed(" ".join(fields), where)
            expect(not has_alternatives(fields) or several, f"{where}:",
                   "have no alternatives, which only references may have",
                   ' '.join(written(fields)))
        else:
            utterance, fields = fields[0], fields[1:]
        expect(utterance not in transcripts, f"{where}: each utterance", "have one line", utterance)
        said = spelling.words(fields, where)
        transcripts[utterance] = lowered(said) if lowercase else said
    return transcripts


def trn(utterances: Iterable[str], sentences: Iterable[Sequence]) -> str:
    """Lines `word ... (utterance)`, which sclite reads, with the alternatives of transcripts."""
    rows = zip(utterances, sentences, strict=True)
    return "".join(f"{' '.join([*written(words), f'({name})'])}\n" for name, words in rows)


def text(utterances: Iterable[str], sentences: Iterable[Iterable[str]]) -> str:
    """Lines `utterance word ...`, which Kaldi reads."""
    rows = zip(utterances, sentences, strict=True)
    return "".join(f"{' '.join([name, *words])}\n" for name, words in rows)

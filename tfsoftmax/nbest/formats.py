"""Finds the format of n-best lists."""

import itertools
import os
import re
from collections.abc import Collection, Iterator

from tfsoftmax.nbest import columns, espnet, json_lists, kaldi, moses, nemo, srilm
from tfsoftmax.nbest.rows import Row
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect, refusal

MOST_SILENT = 1000  # hypotheses without a word at the start of a file, in search of one with


def rows(
    path: str, ids: bool, ignore_keys: Collection[str], beam_size: int | None
) -> tuple[str, Iterator[Row]]:
    """The kind of the lists at a path, one of `writing.WRITERS`, and an iterator of their rows.

    The arguments are those of `lists.read`.
    """
    if path == textio.STANDARD_INPUT or not os.path.isdir(path):
        return _rows_of_file(path, ids, ignore_keys, beam_size)
    expect(beam_size is None, "beam_size", "be given for a file of NeMo only",
           received=f"the folder {path}")
    if kaldi.has_words(path):
        return "kaldi", kaldi.rows(path, ids)
    if espnet.has_ranks(path):
        return "json", espnet.rows(path)
    jobs = _jobs(path)
    if not jobs:
        return "srilm", srilm.folder_rows(path)
    parts = [(job, *rows(job, ids, ignore_keys, beam_size)) for job in jobs]
    kinds = sorted({kind for _, kind, _ in parts})
    expect(len(kinds) <= 1, f"{path}:", "have jobs of one format", received=f"{', '.join(kinds)}")
    return kinds[0], _joined(parts)


def _rows_of_file(path, ids, ignore_keys, beam_size):
    lines = textio.lines(path, json_lists.LINE_BYTES)
    if beam_size is not None:
        return "json", nemo.rows(lines, beam_size)
    if kaldi.is_archive(path):
        return "kaldi", kaldi.rows(os.path.dirname(path), ids, path)
    if _is_document(path) and not json_lists.begins(path):
        return "json", json_lists.document_rows(path, ignore_keys)
    read = _with_a_word(lines)
    lines, telling = itertools.chain(read, lines), read[-1][1] if read else ""
    if telling.lstrip().startswith("{"):
        return "json", json_lists.rows(lines, ignore_keys)
    if moses.begins(telling):
        return "json", moses.rows(lines)
    for where, line in (pair for pair in read if nemo.has(pair[1])):
        raise ValueError(
            f"{where}: lines `text<TAB>score` are those of NeMo, which need `beam_size`, the "
            f"number of lines of each utterance. Received: {line[:80]!r}"
        )
    if telling and srilm.begins(telling.split()):
        expect(path != textio.STANDARD_INPUT, "SRILM's lists",
               "be in files, which are named after their utterances",
               received=f"standard input, which begins with {read[0][1][:80]!r}")
        return "srilm", srilm.rows(lines, srilm.utterance_of(textio.name_of(path)))
    return "columns", columns.rows(lines)


def _with_a_word(lines):
    """The first lines of a file, up to one that has a word, or tells its format otherwise.

    Hypotheses of silence may come first, of which `1 -5.0 0` has numbers only in any format.
    """
    read = []
    for where, line in lines:
        if fields := line.split():
            read.append((where, line))
            words = set(fields[3:]) - srilm.NO_WORDS
            if words or len(fields) < 3 or fields[0].startswith("{") or len(read) == MOST_SILENT:
                break
    return read


def _is_document(path):
    return textio.plain_name(path).endswith(".json")


def _jobs(folder):
    """The paths of the jobs in a folder, in the order of their numbers."""
    jobs = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        is_folder = os.path.isdir(path) and (kaldi.has_words(path) or espnet.has_ranks(path))
        if found := re.fullmatch(r"(.+)\.(\d+)" if is_folder else r"(nbest)\.(\d+)(\.\w+)*", name):
            jobs.setdefault(found[1], []).append((int(found[2]), path))
    # SRILM's files may have such names, which are those of utterances.
    if jobs.keys() == {"nbest"} and _all_of_srilm([path for _, path in jobs["nbest"]]):
        return []
    expect(len(jobs) <= 1, f"{folder}:", "have one kind of jobs", received=f"{', '.join(jobs)}")
    for kind, of_kind in jobs.items():
        numbers = sorted(number for number, _ in of_kind)
        wrong = [n for n, m in enumerate(numbers, start=1) if n != m]
        if wrong:
            raise refusal(f"{folder}:", f"have {kind}.1 to {kind}.{numbers[-1]} once each",
                          received=f"none or several of {kind}.{wrong[0]}")
        return [path for _, path in sorted(of_kind)]
    return []


def _all_of_srilm(paths):
    """Whether all files that are not empty begin as SRILM's do, and not all are empty."""
    if any(os.path.isdir(path) or _is_document(path) for path in paths):
        return False
    files = (textio.lines(path, json_lists.LINE_BYTES) for path in paths)
    first = [next((line.split() for _, line in of if line.strip()), None) for of in files]
    return any(first) and all(srilm.begins(fields) for fields in first if fields)


def _joined(parts):
    """Yields the rows of jobs, none of which has an utterance of another."""
    job_of = {}
    for job, _, of_job in parts:
        for row in of_job:
            expect(job_of.setdefault(row.utterance, job) == job, f"{job}: each utterance",
                   "be in one job",
                   received=f"{row.utterance!r}, which {job_of[row.utterance]} has too")
            yield row

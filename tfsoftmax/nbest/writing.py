"""Writes n-best lists in the format in which they were read."""

import os

from tfsoftmax.nbest import columns, json_lists, kaldi, srilm
from tfsoftmax.nbest.lists import NBest
from tfsoftmax.support import whole_files
from tfsoftmax.support.arguments import refusal

# What writes lists of a kind, and the name that `write` gives it.
WRITERS = {
    "columns": (columns, "nbest"), "json": (json_lists, "nbest.jsonl"), "kaldi": (kaldi, "nbest"),
    "srilm": (srilm, "nbest"),
}


def name_of_lists(nbest: NBest) -> str:
    """The name that `write` gives the file or the folder of the lists."""
    return WRITERS[nbest.kind][1]


def check_writable(folder: str, nbest: NBest) -> None:
    """Raises an error if `write` could not begin, or other files are where it writes a folder.

    Raises:
        ValueError: the folder within `folder` holds other files.
        OSError: the place cannot be written to.
    """
    writer, name = WRITERS[nbest.kind]
    path = os.path.join(folder, name)
    if nbest.kind not in ("kaldi", "srilm"):
        whole_files.check_writable(path)
        return
    with whole_files.errors_name(path):
        others = set(os.listdir(path)) if os.path.lexists(path) else set()
    # Lists that are read from there later would have parts of both.
    others -= writer.names(nbest.rows())
    if others:
        raise refusal(f"{path}:", "hold nothing but the lists to be written", min(others))


def write(folder: str, nbest: NBest) -> None:
    """Writes n-best lists into a folder, in the format they were read in, as `nbest`.

    Lists of JSON and of ESPnet become nbest.jsonl, and all of SRILM's formats the one that
    `ngram -rescore` writes.
    """
    writer, name = WRITERS[nbest.kind]
    writer.write(os.path.join(folder, name), nbest.rows())

"""Reads n-gram models of any order with KenLM, an optional dependency."""

import os
from typing import Any

from tfsoftmax.support.extras import imported


def read(path: str | os.PathLike, name: str = "arpa") -> Any:
    """The `kenlm.Model` of a file.

    Args:
        path: an ARPA file, or a file in KenLM's own format.
        name: the argument that gave the path, for the error.

    Raises:
        RuntimeError: kenlm is not installed.
        OSError: the file cannot be read.
    """
    kenlm = imported("kenlm", f"`{name}`")
    settings = kenlm.Config()
    settings.show_progress, settings.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    return kenlm.Model(str(path), settings)

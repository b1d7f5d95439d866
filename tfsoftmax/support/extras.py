"""Packages that few functions need, and that need not be installed."""

import importlib
import os
import types
from typing import Any


def imported(name: str, user: str) -> types.ModuleType:
    """Imports a module of a package that need not be installed.

    Args:
        name: the module, such as "pyarrow.parquet".
        user: what needs it, the subject of the error.

    Raises:
        RuntimeError: the package is not installed.
    """
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise RuntimeError(f"{user} needs {package}: pip install {package}") from error


def kenlm_model(path: str | os.PathLike, name: str) -> Any:
    """The `kenlm.Model` of a file, an n-gram model of any order.

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

"""Packages that few functions need, and that need not be installed."""

import importlib
import types


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

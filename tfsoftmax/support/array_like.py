"""`ArrayLike` as a type hint that prints in a few letters."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:

    class ArrayLike:
        """What NumPy can make an array of. Type checkers see `numpy.typing.ArrayLike`.

        That is a union of many types, which `help` would print in full in each signature.
        """

        __module__ = "numpy.typing"

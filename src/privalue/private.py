"""The base of every type that holds private values.

Private and public values are different types. A private one shows only its public shape when it
is printed, formatted or logged, and refuses to be pickled or deep-copied; its fields are read by
name, and leave as a whole only through a method whose name says ``private``.
"""

from typing import Any, NoReturn

from privalue.errors import PrivateValueError


class Private:
    """Masks ``repr``, ``str`` and ``format``; refuses pickling, copying and JSON."""

    __slots__ = ()

    def _public_shape(self) -> str:
        """What may be printed of it: public numbers only."""
        return ""

    def __repr__(self) -> str:
        shape = self._public_shape()
        return f"{type(self).__name__}(private{', ' if shape else ''}{shape})"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return repr(self)

    def __reduce_ex__(self, _: Any) -> NoReturn:
        raise PrivateValueError(
            f"{type(self).__name__} holds private values and is not pickled or copied; "
            "use its method whose name says private, and keep the result with the curator"
        )

"""Mask private values: the base of every type that holds them.

Private and public values are different types. A private value shows only its public shape when it
is printed, formatted or logged, and refuses to be pickled, copied or serialised. Its fields can be
read by name; all together are returned only by a method whose name says ``private``.
"""

from typing import Any, NoReturn, TypeVar

from privalue.errors import PrivateValueError

_Class = TypeVar("_Class", bound=type)


class Private:
    """The base class: it masks ``repr``, ``str`` and ``format``; it refuses pickling and copying.

    A traceback, a log line or a debugger's display then shows no private value by accident.
    """

    __slots__ = ()

    def _public_shape(self) -> str:
        """Return the public part of its ``repr``: public numbers only."""
        return ""

    def __repr__(self) -> str:
        shape = self._public_shape()
        return f"{type(self).__name__}(private{', ' if shape else ''}{shape})"

    __str__ = _repr_html_ = __repr__  # _repr_html_ is for notebooks; a shape holds no markup

    def _refuse(self, *_: Any) -> NoReturn:
        """Raise for every function that would copy all fields without naming them."""
        raise PrivateValueError(
            f"{type(self).__name__} holds private values and is not pickled, copied or serialised; "
            "use its method whose name says private, and keep the result with the curator"
        )

    # ``pickle`` and ``copy`` ask for these two.
    __reduce_ex__ = _refuse
    __getstate__ = _refuse


def sealed(cls: _Class) -> _Class:
    """Make ``asdict``, ``astuple`` and ``replace`` fail on a private dataclass; return the class.

    Those functions recognise a dataclass by its ``__dataclass_fields__``. Without that attribute
    they raise, where they would have copied private values. Apply this decorator above
    ``@dataclass(..., slots=True)``: without a ``__dict__``, ``vars`` fails too.
    """
    del cls.__dataclass_fields__  # type: ignore[attr-defined]
    setattr(cls, "__getstate__", Private._refuse)  # noqa: B010 - slots bring their own
    return cls

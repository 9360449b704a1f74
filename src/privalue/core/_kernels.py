"""Mark the functions that are compiled; each is when it is first called, and not before.

To import Numba takes longer than most commands do, and most commands compile nothing. So this
module knows nothing of it: ``_compiler`` does, and is imported with the first call of a kernel.
"""

from collections.abc import Callable
from functools import update_wrapper
from threading import RLock
from types import FunctionType
from typing import Any, cast

_ONE_AT_A_TIME = RLock()  # two threads that meet here would compile the same kernel twice


class Kernel:
    """A function that becomes compiled code with its first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func = cast(FunctionType, function)
        self._options = options
        self._compiled: Any = None
        update_wrapper(self, function)

    @property
    def compiled(self) -> Any:
        """Return Numba's dispatcher, whose own calls of kernels go to dispatchers too."""
        with _ONE_AT_A_TIME:
            if self._compiled is None:
                from privalue.core._compiler import compiled  # noqa: PLC0415 - see above

                self._compiled = compiled(_linked(self.py_func), self._options)
        return self._compiled

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compiled)(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever copies or inspects it does not ask for a compiler
            raise AttributeError(name)
        return getattr(self.compiled, name)


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that compiles a function; ``options`` are those of ``numba.njit``."""
    return lambda function: Kernel(function, options)


def _linked(function: FunctionType) -> FunctionType:
    """Return the function with the kernels that it calls in place of their wrappers."""
    known = function.__globals__
    called = {name: known[name] for name in function.__code__.co_names if name in known}
    called = {name: of.compiled for name, of in called.items() if isinstance(of, Kernel)}
    return FunctionType(function.__code__, known | called, function.__name__, function.__defaults__)

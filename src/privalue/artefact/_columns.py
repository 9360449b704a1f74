"""Give values by state as read-only arrays and as tables, with their flags.

A table has the columns of values.csv: the state, the arm where there are arms, the value, every
interval that was released, noisy visits, and what to be careful about as a text, empty where there
is nothing. A value that says little is never a bare number there.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from privalue.errors import MissingComponentError, NotReleasedError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]


def read_only(column: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers as an array that cannot be written to."""
    fixed = np.asarray(column).view()
    fixed.flags.writeable = False
    return fixed


class Tabular:
    """A table of values by state, with their flags, for whatever reads tables."""

    @abstractmethod
    def to_arrow(self) -> "pa.Table":
        """Return a table of all states, with their flags, as an Arrow table."""

    def to_pandas(self) -> "pd.DataFrame":
        """Return a table of all states, with their flags, as a pandas DataFrame.

        ``attrs`` of the frame holds the sentence that says what is promised.
        """
        _required("pandas", "to_pandas()")
        table = self.to_arrow()
        frame: pd.DataFrame = table.to_pandas()
        told = table.schema.metadata or {}
        frame.attrs.update({key.decode(): value.decode() for key, value in told.items()})
        return frame

    def to_polars(self) -> "pl.DataFrame":
        """Return a table of all states, with their flags, as a Polars DataFrame."""
        polars = _required("polars", "to_polars()")
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow())
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow stream: pyarrow, Polars and DuckDB read it directly."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Arrays(Tabular):
    """One array for each field of the values, in the order of the states, arm after arm."""

    @abstractmethod
    def column(self, name: str) -> NDArray[Any] | None:
        """Return one field of all states, or None where it was not released."""

    def _released(self, name: str, why: str) -> NDArray[Any]:
        """Return a field, or raise where it was not released, and say why that may be."""
        found = self.column(name)
        if found is None:
            raise NotReleasedError(f"there is no {name} in this release: {why}")
        return found

    @property
    def value(self) -> Floats:
        """Return the released values."""
        return self._released("value", "it has no values by state")

    @property
    def low(self) -> Floats:
        """Return the lower ends of the privacy intervals: they cover the noise alone."""
        return self._released("low", _NO_INTERVALS)

    @property
    def high(self) -> Floats:
        """Return the upper ends of the privacy intervals."""
        return self._released("high", _NO_INTERVALS)

    @property
    def total_low(self) -> Floats:
        """Return the lower ends of the total intervals: they cover noise and choice of people."""
        return self._released("total_low", _NO_TOTALS)

    @property
    def total_high(self) -> Floats:
        """Return the upper ends of the total intervals."""
        return self._released("total_high", _NO_TOTALS)

    @property
    def total_band_low(self) -> Floats:
        """Return the lower ends of the total band, which holds in all states at once."""
        return self._released("total_band_low", _NO_TOTALS)

    @property
    def total_band_high(self) -> Floats:
        """Return the upper ends of the total band."""
        return self._released("total_band_high", _NO_TOTALS)

    @property
    def supported(self) -> Truths:
        """Return for each state whether its own numbers say something about it."""
        return self._released("supported", "only dp-ssp releases noisy counts; see flags")


def arrow_table(
    states: Any,
    columns: Mapping[str, NDArray[Any] | None],
    flags: "Flags",
    told: Mapping[str, str],
) -> "pa.Table":
    """Return values by state as an Arrow table.

    Args:
        states: their labels, or a range in their place.
        columns: by name, in order; one that was not released is left out.
        flags: what to be careful about.
        told: what the table's metadata says.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy, and most uses of a release need none of it

    labels = pa.array(states, pa.int64()).cast(pa.string()) if _counted(states) else None
    named: dict[str, Any] = {
        "state": pa.array(states, pa.string()) if labels is None else labels,
        **{name: pa.array(column) for name, column in columns.items() if column is not None},
        # There are few different texts, and perhaps very many states.
        "flags": pa.DictionaryArray.from_arrays(flags.bits, pa.array(flags.texts)).cast(
            pa.string()
        ),
    }
    return pa.table(named).replace_schema_metadata(dict(told))


def _counted(states: Any) -> bool:
    """Return whether states are numbers, which a range stands for."""
    return isinstance(states, range)


class Flags(Sequence[tuple[str, ...]]):
    """What to be careful about in each state: a tuple of texts, empty where there is nothing.

    Flag number k of ``names`` is bit k of a state's ``bits``: there may be very many states. What
    ``every`` holds, each state has, and it comes first: that a seeded experiment is not private.

    >>> flags = Flags(("too few visits", "weight 0"), np.array([0, 1, 3], dtype=np.uint8))
    >>> flags[1], flags[2]
    (('too few visits',), ('too few visits', 'weight 0'))
    """

    def __init__(
        self, names: tuple[str, ...], bits: NDArray[np.uint8], every: tuple[str, ...] = ()
    ) -> None:
        self.names, self.bits, self.every = names, read_only(bits), every
        self._by_bits = [
            (*every, *(name for at, name in enumerate(names) if number >> at & 1))
            for number in range(1 << len(names))
        ]

    @property
    def texts(self) -> list[str]:
        """Return the text of every number, as tables have it."""
        return ["; ".join(named) for named in self._by_bits]

    def __len__(self) -> int:
        return len(self.bits)

    @overload
    def __getitem__(self, at: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, at: slice) -> "Flags": ...
    def __getitem__(self, at: int | slice) -> "tuple[str, ...] | Flags":
        return self.of(self.bits[at]) if isinstance(at, slice) else self._by_bits[self.bits[at]]

    def __repr__(self) -> str:
        return f"Flags({len(self)} states, {np.count_nonzero(self.bits)} with one)"

    def of(self, bits: NDArray[np.uint8]) -> "Flags":
        """Return the flags of other states."""
        return Flags(self.names, bits, self.every)


NO_FLAGS = Flags((), np.zeros(0, dtype=np.uint8))

_NO_INTERVALS = (
    "dp-lsw and dp-lsl keep the scale of their noise to themselves; dp-ssp releases intervals"
)
_NO_TOTALS = "only dp-ssp releases intervals that hold the choice of people, too"


def _required(package: str, use: str) -> Any:
    """Return a package that is no dependency, or say how to get it."""
    try:
        return import_module(package)
    except ImportError:
        raise MissingComponentError(
            f"{use} needs {package}: pip install {package}; to_arrow() needs nothing else"
        ) from None

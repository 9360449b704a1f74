"""Compare releases of the same states with each other, and with the truth where it is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privalue._notebook import comparison_html
from privalue._plots import plot_releases
from privalue.artefact import NOT_PRIVATE, Release, StateValue, Tabular
from privalue.errors import NotReleasedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Tabular):
    """Releases of the same states, side by side, from ``compare``."""

    names: tuple[str, ...]
    releases: tuple[Release, ...]
    truth: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        known = "" if self.truth is None else ", with the truth"
        told = ", ".join(
            name if release.private else f"{name} ({NOT_PRIVATE})"
            for name, release in zip(self.names, self.releases, strict=True)
        )
        return f"Comparison({told}{known})"

    @property
    def rmse(self) -> dict[str, float]:
        """Return the root mean square error of each release, over all of its values."""
        truth = self._known()
        return {
            name: float(np.sqrt(np.mean((release.value - truth) ** 2)))
            for name, release in zip(self.names, self.releases, strict=True)
        }

    @property
    def covered(self) -> dict[str, float]:
        """Return for each release with total intervals the share of them that hold the truth."""
        truth, found = self._known(), {}
        for name, release in zip(self.names, self.releases, strict=True):
            low, high = release.column("total_low"), release.column("total_high")
            if low is not None and high is not None:
                found[name] = float(np.mean((low <= truth) & (truth <= high)))
        return found

    def _known(self) -> NDArray[np.float64]:
        if self.truth is None:
            raise NotReleasedError(
                "errors need the true values: compare(releases, truth=...), which a made-up world "
                "has and data does not"
            )
        return self.truth

    def to_arrow(self) -> "pa.Table":
        """Return one table: a row for each value of each release, with flags and the truth."""
        import pyarrow as pa  # noqa: PLC0415 - heavy

        tables = []
        for name, release in zip(self.names, self.releases, strict=True):
            table = release.to_arrow().replace_schema_metadata(None)
            table = table.add_column(0, "release", pa.array([name] * len(table), pa.string()))
            if self.truth is not None:
                table = table.add_column(table.num_columns - 1, "truth", pa.array(self.truth))
            tables.append(table)
        return pa.concat_tables(tables, promote_options="default")

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the releases side by side with their intervals, and the truth where it is known.

        Args:
            ax: Matplotlib axes to draw into; new ones, if left out.

        Returns:
            The axes.

        Raises:
            MissingComponentError: Matplotlib is not installed.
        """
        return plot_releases(self.releases, self.names, self.truth, ax)

    def _repr_html_(self) -> str:
        known = self.truth is not None
        return comparison_html(
            self.names,
            self.releases,
            self.rmse if known else None,
            self.covered if known else None,
        )


def compare(
    releases: "Sequence[Release] | Mapping[str, Release]",
    truth: Any = None,
) -> Comparison:
    """Compare releases of the same states; nothing is spent.

    Args:
        releases: two or more, or one with the truth; as a dictionary, by name. Without names each
            is called by its mechanism, and by its epsilon where that is not enough.
        truth: the true values, where they are known, as of a made-up world: a dictionary or Series
            by label, or numbers in the order of ``release.value``. None where nobody knows.

    Returns:
        What has ``plot()``, ``to_pandas()`` and, with the truth, ``rmse`` by name.

    Raises:
        UsageError: the releases are not of the same states, or the truth is not of them.

    >>> import privalue as pv
    >>> study = pv.Study(
    ...     states=["ill", "well"], discount=0.9, returns=(0, 1),
    ...     epsilon=1.0, delta=1e-5, unit="trajectory",
    ... )
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> both = {"one": pv.release(study, people), "two": pv.release(study, people)}
    >>> compared = pv.compare(both, truth={"ill": 0.9, "well": 1.0})
    >>> compared, max(compared.rmse.values()) < 0.2
    (Comparison(one, two, with the truth), True)
    """
    if isinstance(truth, Release):
        raise UsageError("truth is a Release; give releases as one list, compare([release, other])")
    if isinstance(releases, Release):
        releases = [releases]
    named = isinstance(releases, Mapping)
    found = list(releases.values() if isinstance(releases, Mapping) else releases)
    for each in found:
        if not isinstance(each, Release):
            raise UsageError(
                f"releases holds a {type(each).__name__}; give releases, as "
                "compare([release, other]), or a dictionary of them by name"
            )
    if not found:
        raise UsageError("releases is empty; give some, as compare([release, other])")
    first = found[0]
    for each in found[1:]:
        if (each.value_names, each.arms) != (first.value_names, first.arms):
            raise UsageError(
                "the releases are not of the same states and arms, or actions; compare those of "
                "one study, or of studies that list the same states in the same order"
            )
    names = [str(name) for name in releases] if named else _names(found)
    return Comparison(
        names=tuple(names),
        releases=tuple(found),
        truth=None if truth is None else _truth(truth, first),
    )


def _names(releases: Sequence[Release]) -> list[str]:
    """Return a name for each release: by mechanism, then epsilon, then a number."""
    names: list[str] = [release.mechanism for release in releases]
    if len(set(names)) < len(names):
        names = [
            f"{name}, epsilon {release.privacy.epsilon:g}"
            for name, release in zip(names, releases, strict=True)
        ]
    counts = [names[:at].count(name) for at, name in enumerate(names)]
    return [f"{name} ({n + 1})" if n else name for name, n in zip(names, counts, strict=True)]


def _label(entry: StateValue) -> str | tuple[str, str]:
    """Return what a value is found by: the state, with its arm or its action."""
    if entry.action is not None:
        return entry.state, entry.action
    return entry.state if entry.arm is None else (entry.arm, entry.state)


def _truth(truth: Any, release: Release) -> NDArray[np.float64]:
    """Return the true values in the order of the release's."""
    if hasattr(truth, "keys"):
        told = {key: truth[key] for key in truth.keys()}  # noqa: SIM118 - a Series iterates values
        if list(told) == list(range(len(release))):
            truth = list(told.values())
        else:
            wanted = [_label(entry) for entry in release]
            told = {key if isinstance(key, tuple) else str(key): v for key, v in told.items()}
            missing = [key for key in wanted if key not in told]
            if missing:
                raise UsageError(f"truth has no value for {missing[0]!r}; give one for every state")
            truth = [told[key] for key in wanted]
    try:
        numbers = np.array(truth, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(
            f"truth is a {type(truth).__name__} that holds no numbers; give values by label, or "
            "numbers in the order of release.value"
        ) from None
    if numbers.shape != release.value.shape or not np.isfinite(numbers).all():
        raise UsageError(
            f"truth has the shape {numbers.shape}; give {len(release)} finite numbers, in the "
            "order of release.value, or a dictionary by label"
        )
    return numbers

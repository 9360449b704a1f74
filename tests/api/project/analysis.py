"""What a user would write: type checkers find nothing in it, and know what everything is."""

from typing import TYPE_CHECKING, assert_type

import numpy as np
from numpy.typing import NDArray

import privalue as pv

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

people = [[("ill", 0.0), ("better", 0.0), ("well", 1.0)], [("ill", 0.0), ("well", 1.0)]] * 1500
study = pv.Study(
    epsilon=1.0,
    delta=1e-6,
    unit="trajectory",
    discount=0.9,
    rewards=(0.0, 1.0),
    returns=(0.0, 1.0),
    states=["ill", "better", "well"],
)


def released() -> pv.Release:
    """Release, and look at what came out."""
    release = pv.release(study, people)
    assert_type(release.value, NDArray[np.float64])
    assert_type(release.supported, NDArray[np.bool_])
    assert_type(release["ill"].value, float)
    assert_type(release["ill"].total_low, float)
    assert_type(release["ill"].flags, str)
    assert_type([record.state for record in release], list[str])
    assert_type(release.sentence(), str)
    doubled = release.value * 2
    assert doubled.shape == (3,)
    return release


def shown(release: pv.Release) -> "tuple[pd.DataFrame, Axes]":
    """Return a table and a plot."""
    return release.to_pandas(), release.plot()


def inspected() -> None:
    """Catch what may go wrong."""
    try:
        pv.inspect(study, people)
    except pv.DataError as problem:
        assert_type(problem, pv.DataError)


if __name__ == "__main__":
    shown(released())
    inspected()

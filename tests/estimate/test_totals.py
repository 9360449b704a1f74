"""Total intervals as a user meets them: in releases, refits, files, on pages and screens."""

import numpy as np
import pytest

import privalue as pv
from oracles import differences as literal
from oracles.studies import PROMISE
from privalue.estimate.intervals import Interval, count_distinct_values

# Returns that a stage restricted


LONG = ["ward", "home"]


def stays(count, rng):
    """1.5% stay for 90 days, the others up to 5: the return from the first visit is the days."""
    long = rng.random(count) < 0.015
    days = np.where(long, 90, rng.integers(1, 6, count))
    return [
        [("ward", 1.0)] * int(stay) if at % 2 else [("home", 0.0), *[("ward", 1.0)] * int(stay)]
        for at, stay in enumerate(days)
    ]


def test_a_restricted_mean_is_covered_where_few_have_a_very_long_stay():
    """40 releases, each with people of its own; the bound is chosen in each of them."""
    rng = np.random.default_rng(20261118)
    study = pv.Study(
        states=LONG,
        discount=0.99,
        rewards=(0, 1),
        **PROMISE,
    )
    hits, unrestricted, share_hits = np.zeros(2), np.zeros(2), 0
    for at in range(40):
        noise = pv.SeededForExperimentsOnly(at)
        release = pv.release(study, stays(3000, rng), entropy=noise, accept_useless=True)
        restriction = release.restriction
        assert ("restricted means" in repr(release)) == (restriction is not None)
        sums = (1 - 0.99 ** np.arange(1, 91)) / 0.01
        shares = np.zeros(90)
        shares[:5], shares[89] = 0.985 / 5, 0.015
        for state, discount in enumerate((1.0, 0.99)):
            record, cut = release[LONG[state]], 1e9 if restriction is None else restriction.high
            truth = shares @ np.minimum(discount * sums, cut)
            hits[state] += record.total_low <= truth <= record.total_high
            whole = shares @ (discount * sums)
            unrestricted[state] += record.total_low <= whole <= record.total_high
        share = release.stages[0].chosen.beyond
        share_hits += restriction is None or share.low <= 0.015 <= share.high
    assert (hits >= 37).all()
    assert share_hits >= 37
    assert (unrestricted <= 20).all()  # of the other number it is no interval, and says so


# Two numbers, many numbers


def some_intervals(rng, count, bounds=(0.0, 1.0)):
    low = np.where(rng.random(count) < 0.2, bounds[0], rng.uniform(0, 0.6, count))
    high = np.where(rng.random(count) < 0.2, bounds[1], low + rng.uniform(0, 0.4, count))
    unknown = np.where(rng.random(count) < 0.5, 0.0, rng.uniform(0, 0.3, count))
    return rng.uniform(-0.2, 1.2, count), low, np.maximum(high, low), unknown


@pytest.mark.parametrize("independent", [True, False])
def test_an_interval_of_a_difference_is_that_of_the_literal_twin(independent):
    rng = np.random.default_rng(8)
    both = [some_intervals(rng, 500) for _ in range(2)]
    more, less = (Interval(*parts) for parts in both)
    low, high = more.subtract(less, (0.0, 1.0), independent=independent)
    for at in range(500):
        pair = ([column[at] for column in parts] for parts in both)
        ends = literal.difference_ends(*pair, (0.0, 1.0), independent=independent)
        assert (low[at], high[at]) == pytest.approx(ends, abs=1e-12)
    assert (low <= high).all()


def test_squares_at_a_bound_would_not_cover():
    """The planted mistake: an end at a bound is no quantile, and squares take it for one."""
    rng, hits, planted = np.random.default_rng(9), 0, 0
    truth, sd = np.array([0.97, 0.5]), np.array([0.05, 0.15])
    for _ in range(4000):
        own = truth + sd * rng.standard_normal(2)
        ends = np.clip([own - 1.96 * sd, own + 1.96 * sd], 0.0, 1.0)
        more, less = (
            Interval(own[[at]], ends[0, [at]], ends[1, [at]], np.zeros(1)) for at in (0, 1)
        )
        # No bound is near: the same ends, taken for quantiles.
        for kind, bounds in (("held", (0.0, 1.0)), ("planted", (-9.0, 9.0))):
            low, high = more.subtract(less, bounds)
            inside = low[0] <= truth[0] - truth[1] <= high[0]
            hits += kind == "held" and inside
            planted += kind == "planted" and inside
    assert hits / 4000 >= 0.95
    assert planted < hits


def test_as_many_values_differ_as_points_are_needed():
    rng = np.random.default_rng(10)
    counts = set()
    for _ in range(300):
        low = rng.uniform(0, 1, 6)
        high = low + rng.uniform(0, 0.5, 6)
        count = count_distinct_values(low, high)
        assert count == literal.distinct_values(list(zip(low, high, strict=True)))
        assert (count > 1) == (low.max() > high.min())
        counts.add(count)
    assert counts >= {1, 2, 3}

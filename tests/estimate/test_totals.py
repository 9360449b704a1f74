"""Total intervals as a user meets them: in releases, refits, files, on pages and screens."""

import csv
import dataclasses
import io
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from oracles.studies import in_sections
from privalue._written import written
from privalue.cli import _app as cli
from privalue.core._design import Design
from privalue.estimate._ratios import normal_quantile, ratio_intervals
from privalue.estimate._statistics import NoisyStatistics, estimate
from privalue.estimate._totals import Clamped, clamping_bias, total_intervals
from privalue.report._public_page import public_page
from privalue.report._states import CLAMPED, state_table
from privalue.study._features import aggregation

LABELS = ["ill", "better", "well"]
PEOPLE = [
    [("ill", 0.0), ("better", 0.0), ("well", 1.0)],
    [("ill", 0.0), ("ill", 0.0), ("better", 0.0), ("well", 0.0)],
] * 3000
START = {"ill": 0.7, "well": 0.3}
TOTALS = ("total_low", "total_high", "total_band_low", "total_band_high")


def described(start=None, mechanism=None, **privacy):
    return in_sections(
        privacy={"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory", **privacy},
        values={
            "discount": 0.9,
            "rewards": (0.0, 1.0),
            "returns": (0.0, 1.0),
            "start": start or START,
        },
        states={"labels": LABELS},
        mechanism=mechanism or {"name": "dp-ssp"},
    )


def seeded(study, data=PEOPLE):
    return pv.release(study, data, entropy=pv.SeededForExperimentsOnly(3))


def by_person(count=1500, each=4):
    rows = [
        (who, trajectory, step, state, reward)
        for who in range(count)
        for trajectory in range(each)
        for step, (state, reward) in enumerate(PEOPLE[who % 2])
    ]
    return pd.DataFrame(rows, columns=["person", "trajectory", "step", "state", "reward"])


def literally(release, alike):
    """The intervals again, from what the release holds."""
    kept = release.statistics
    noisy = NoisyStatistics(
        return_bounds=(0.0, 1.0),
        **{name: np.array(getattr(kept, name)) for name in type(kept).model_fields},
    )
    z = normal_quantile(release.level)
    return total_intervals(noisy.ratios, z, ratio_intervals(noisy.ratios, z), alike=alike)


def test_a_release_has_them_first_and_they_hold_the_others():
    release = seeded(described())
    for entry, told in zip(release.values, release.values.fields(), strict=True):
        assert list(told)[:4] == ["state", "value", "total_low", "total_high"]
        assert entry.total_band_low <= entry.total_low < entry.low <= entry.value
        assert entry.value <= entry.high < entry.total_high <= entry.total_band_high
    within = release.policy_interval
    assert within.total_low < within.low <= release.policy_value
    assert release.policy_value <= within.high < within.total_high
    low, high = literally(release, 1)
    assert [entry.total_low for entry in release.values] == pytest.approx(low)
    assert [entry.total_high for entry in release.values] == pytest.approx(high)


def test_a_start_in_one_state_has_the_interval_of_that_state():
    release = seeded(described(start={"better": 1.0}))
    assert release.policy_interval.total_low == release.values[1].total_low
    assert release.policy_interval.total_high == release.values[1].total_high


def test_persons_may_have_trajectories_that_are_alike():
    """The same noise would have narrower intervals if four trajectories were four strangers."""
    release = seeded(described(unit="person", max_trajectories_per_person=4), by_person())
    low, high = literally(release, 4)
    assert [entry.total_low for entry in release.values] == pytest.approx(low)
    assert [entry.total_high for entry in release.values] == pytest.approx(high)
    strangers = literally(release, 1)
    assert (low < strangers[0]).all()
    assert (high[:2] > strangers[1][:2]).all()
    refitted = pv.refit(release, shrinkage=False)
    assert [entry.total_low for entry in refitted.values] == pytest.approx(low)


def test_a_refit_with_features_keeps_intervals_for_the_values_themselves():
    fresh = seeded(described())
    coarse = pv.refit(fresh, size=3)
    for entry, own in zip(coarse.values, fresh.values, strict=True):
        assert entry.total_low <= min(entry.low, own.total_low + 1e-9)
        assert entry.total_high >= max(entry.high, own.total_high - 1e-9)


def test_files_pages_and_screens_show_them_first(tmp_path, capsys):
    release = seeded(described())
    files = pv.publish(release, tmp_path / "released")
    rows = list(csv.reader(io.StringIO(files.values.read_text())))
    assert rows[0][:6] == ["state", "value", "total_low", "total_high", "low", "high"]
    assert [float(row[2]) for row in rows[1:]] == [entry.total_low for entry in release.values]
    page = files.page.read_text()
    places = [page.index(word) for word in ("total interval", "privacy interval", "band for all")]
    assert all(a < b for a, b in pairwise(places))
    assert "A total interval covers the noise of privacy and the choice of people" in page
    assert "total interval, median over the states" in page
    assert cli.run(["refit", str(tmp_path / "released"), "--out", str(tmp_path / "again")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.index("95% interval") < shown.index("privacy alone")
    entry = release.values[0]
    assert written(entry.value, entry.total_low, entry.total_high).within in shown
    assert "they hold the noise of privacy" in shown


# Returns that a stage clamped


def statistics(counts, *, clamped):
    """Means of 0.5 with next to no noise, clamped to [0, 1]."""
    counts = np.array(counts, dtype=float)
    tiny = np.full(len(counts), 1e-6)
    return NoisyStatistics(
        return_bounds=(0.0, 1.0),
        sums=np.zeros(len(counts)),
        counts=counts,
        sum_noise=tiny,
        count_noise=tiny,
        clamped=clamped,
    )


def made(noisy, **options):
    design = Design(phi=aggregation(noisy.states, 1), weights=np.ones(noisy.states))
    return estimate(noisy, design, unvisited=0.0, **options)


def test_what_clamping_may_hide_is_the_most_that_so_many_trajectories_can_add():
    """Ten of 1,000 visits, each moved by up to 3 from above and 2 from below."""
    clamped = Clamped(bounds=(-2.0, 4.0), trajectories=6.0, noise=2.0)
    below, above = clamping_bias(clamped, statistics([1000, 10, 1], clamped=clamped).ratios, 2.0)
    assert below == pytest.approx([0.02, 2.0, 2.0], rel=1e-5)
    assert above == pytest.approx([0.03, 3.0, 3.0], rel=1e-5)
    nobody = Clamped(bounds=(-2.0, 4.0), trajectories=-9.0, noise=2.0)
    ends = clamping_bias(nobody, statistics([1000], clamped=nobody).ratios, 2.0)
    assert [float(end[0]) for end in ends] == [0.0, 0.0]


def test_a_histogram_says_how_many_are_beyond():
    found = Clamped.beyond(np.array([5.0, 7.0, 3.0, -1.0]), 2.0, 1, (0.0, 8.0))
    assert (found.trajectories, found.noise) == (2.0, pytest.approx(2.0 * 2**0.5))


def test_it_is_added_where_it_is_small_and_flagged_where_it_is_not():
    clamped = Clamped(bounds=(0.0, 2.0), trajectories=5.0, noise=1e-9)
    noisy = statistics([1000, 20], clamped=clamped)
    plain, found = made(statistics([1000, 20], clamped=None)), made(noisy)
    assert plain.clamped is None
    assert found.clamped.tolist() == [False, True]
    assert found.total_low == pytest.approx(plain.total_low)  # nothing is below the lower bound
    assert found.total_high - plain.total_high == pytest.approx([0.005, 0.0], rel=1e-3, abs=1e-9)
    assert found.total_band_high[0] - plain.total_band_high[0] == pytest.approx(0.005, rel=1e-3)
    assert (found.high == plain.high).all()


def test_totals_may_leave_the_bounds_that_were_chosen_but_not_the_studys():
    clamped = Clamped(bounds=(0.0, 1.4), trajectories=0.8, noise=1e-9)
    counts = np.array([4.0])
    noisy = NoisyStatistics(
        return_bounds=(0.0, 1.0),
        sums=0.5 * counts,
        counts=counts,
        sum_noise=np.array([1e-6]),
        count_noise=np.array([1e-6]),
        clamped=clamped,
    )
    found = made(noisy)
    assert 1.0 < found.total_high[0] < 1.4
    assert found.high[0] <= 1.0
    assert not found.clamped[0]


def test_the_policys_number_is_widened_or_flagged_too():
    clamped = Clamped(bounds=(0.0, 2.0), trajectories=5.0, noise=1e-9)
    for start, flagged in (([1.0, 0.0], False), ([0.0, 1.0], True)):
        found = made(statistics([1000, 20], clamped=clamped), start=np.array(start))
        assert found.policy_clamped is flagged
        at = start.index(1.0)
        assert found.policy_total[1] == pytest.approx(found.total_high[at])


def test_few_that_were_clamped_are_covered():
    """Returns of 0 or 1, and 1% of 3: means of what was clamped to 1 leave 0.02 out."""
    generator = np.random.default_rng(5)
    hits = plain_hits = 0
    for _ in range(300):
        visits, noise = 20_000, 10.0
        beyond = generator.binomial(visits, 0.01)
        ones = generator.binomial(visits - beyond, 0.5) + beyond
        s_n = 150.0
        noisy = NoisyStatistics(
            return_bounds=(0.0, 1.0),
            sums=np.array([ones - visits / 2 + 0.87 * s_n * generator.standard_normal()]),
            counts=np.array([visits + s_n * generator.standard_normal()]),
            sum_noise=np.array([0.87 * s_n]),
            count_noise=np.array([s_n]),
        )
        told = Clamped(
            bounds=(0.0, 3.0),
            trajectories=beyond + noise * generator.standard_normal(),
            noise=noise,
        )
        truth = 0.99 * 0.5 + 0.03
        found = made(dataclasses.replace(noisy, clamped=told))
        without = made(noisy)
        hits += found.clamped[0] or found.total_low[0] <= truth <= found.total_high[0]
        plain_hits += without.total_low[0] <= truth <= without.total_high[0]
    assert hits >= 0.95 * 300
    assert plain_hits < 0.5 * 300


def test_a_release_with_a_bound_of_its_own_says_so():
    study = pv.Study(
        epsilon=1.0,
        delta=1e-5,
        unit="trajectory",
        discount=0.9,
        rewards=(0.0, 1.0),
        start=START,
        states=LABELS,
        mechanism="dp-ssp",
        stages=["bounds"],
    )
    release = seeded(study)
    stage = release.stages[0]
    assert (stage.name, stage.chosen.high < 10.0) == ("bounds", True)
    assert release.values.column("clamped") is not None
    # No trajectory is clearly beyond, so that no state is flagged; the page says it once.
    assert stage.chosen.beyond.low == 0
    assert state_table(release).with_flag(CLAMPED).tolist() == []
    assert release.policy_interval.clamped is not None
    for entry in release.values:
        assert 0.0 <= entry.total_low <= entry.low
        assert entry.high <= entry.total_high <= 10.0
    again = pv.refit(release, start=START)
    assert again.values == release.values
    assert again.policy_interval == release.policy_interval
    assert CLAMPED not in public_page(release)
    told = "whose total intervals are for returns as clamped" in public_page(release)
    assert told is bool(release.values.column("clamped").any())

"""What limits cost, published: shares of trajectories and persons, and their intervals."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from oracles.studies import release_anyway, study
from privalue.core import SeededForExperimentsOnly, Stage
from privalue.curator import prepare
from privalue.estimate._stages import published_stages
from privalue.study._stages import limit_tallies

SSP = {"name": "dp-ssp", "calibration": "exact", "stage_shares": {"limits": 0.5}}
PERSONS = {"unit": "person", "max_trajectories_per_person": 2}


def episodes(count):
    """Of five trajectories one has a reward of 9, and one visits three states."""
    return [
        [(0, 9.0 if t % 5 == 0 else 0.5), (1, 0.5), *([(2, 0.5)] if t % 5 == 1 else [])]
        for t in range(count)
    ]


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, "trajectories_with_clamped_rewards"),
        (
            {"privacy": {"max_states_per_trajectory": 2}},
            "trajectories_beyond trajectories_with_clamped_rewards",
        ),
        (
            {"returns": (0.0, 2.0)},
            "trajectories_with_clamped_rewards trajectories_with_clamped_returns",
        ),
        ({"returns": (-1.0, 11.0)}, "trajectories_with_clamped_rewards"),
        (
            {"privacy": {"neighbours": "add-remove"}},
            "trajectories_with_clamped_rewards trajectories",
        ),
        (
            {"privacy": PERSONS},
            "trajectories_with_clamped_rewards trajectories persons_with_surplus",
        ),
        (
            {"privacy": PERSONS, "data": {"invalid": "drop-unit"}},
            "trajectories_with_clamped_rewards trajectories persons_with_surplus persons",
        ),
        (
            {"privacy": {"unit": "person"}, "data": {"person": "who"}},
            "trajectories_with_clamped_rewards trajectories",
        ),
    ],
    ids=str,
)
def test_only_what_can_happen_is_counted(sections, expected):
    assert limit_tallies(study(3, mechanism=SSP, **sections)) == tuple(expected.split())


def test_a_release_says_what_limits_changed():
    described = study(
        3, privacy={"max_states_per_trajectory": 2}, mechanism={**SSP, "stages": "one"}
    )
    release = release_anyway(described, episodes(5000), entropy=SeededForExperimentsOnly(3))
    limits = release.limits
    assert limits.returns_clamped is None  # they follow from rewards, which are clamped
    for share in (limits.beyond_h, limits.rewards_clamped):
        assert share.low <= 0.2 <= share.high
        assert share.value == pytest.approx(0.2, abs=0.02)
    assert [stage.name for stage in release.stages] == ["limits", "values"]


def test_where_the_size_is_private_it_is_counted_with_noise():
    described = study(3, privacy={"neighbours": "add-remove"}, mechanism={**SSP, "stages": "one"})
    release = release_anyway(described, episodes(5000), entropy=SeededForExperimentsOnly(4))
    assert len(release.stages[0].numbers) == 2
    share = release.limits.rewards_clamped
    assert share.low <= 0.2 <= share.high
    assert share.value == pytest.approx(0.2, abs=0.02)


def test_a_sliver_may_be_left_out():
    described = study(3, mechanism={**SSP, "stage_shares": {"limits": 0}})
    release = release_anyway(described, episodes(50), entropy=SeededForExperimentsOnly(4))
    assert release.limits is None
    assert [stage.name for stage in release.stages] == ["values"]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_intervals_cover_shares_as_often_as_they_say(neighbours, share):
    """10,000 seeded draws around the true numbers: 0.95 to within five standard errors, or more."""
    described = study(3, privacy={"neighbours": neighbours}, mechanism=SSP)
    prepared = prepare(described)
    m, draws = 1000, 10_000
    known = dataclasses.replace(prepared.mechanism.terms.size, units=m)
    mechanism = prepared.mechanism_for(
        known if neighbours == "replace-one" else prepared.mechanism.terms.size
    )
    noise = mechanism.stage_noise["limits"]
    truth = np.array([share * m] if neighbours == "replace-one" else [share * m, m])
    generator = np.random.default_rng(6)
    hits = 0
    for error in generator.standard_normal((draws, len(truth))):
        stage = Stage(name="limits", alpha=1.0, numbers=truth + noise * error, noise=noise)
        found = published_stages(mechanism, [stage], mechanism.unchosen, 0.95)["limits"]
        hits += found.rewards_clamped.low <= share <= found.rewards_clamped.high
    assert hits / draws >= 0.95 - 5 * (0.95 * 0.05 / draws) ** 0.5
    if share == 0.3:
        assert hits / draws <= 0.95 + 5 * (0.95 * 0.05 / draws) ** 0.5


def test_persons_with_more_trajectories_than_count():
    rows = {
        "person": [p for p in range(400) for _ in range(3 if p % 4 == 0 else 1)],
        "trajectory": list(range(600)),
        "step": [0] * 600,
        "state": [0] * 600,
        "reward": [0.5] * 600,
    }
    described = study(3, privacy={**PERSONS, "epsilon": 20.0}, mechanism=SSP)
    release = release_anyway(described, pa.table(rows), entropy=SeededForExperimentsOnly(4))
    share = release.limits.surplus_trajectories
    assert share.low <= 0.25 <= share.high
    assert share.value == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("number", [-500.0, 1500.0])
def test_no_interval_vanishes_where_noise_leads_outside(number):
    """A noisy number far below 0, or above all trajectories, says little; it is not certain."""
    prepared = prepare(study(3, mechanism=SSP))
    mechanism = prepared.mechanism_for(
        dataclasses.replace(prepared.mechanism.terms.size, units=1000)
    )
    noise = mechanism.stage_noise["limits"]
    stage = Stage(name="limits", alpha=1.0, numbers=np.array([number]), noise=noise)
    share = published_stages(mechanism, [stage], mechanism.unchosen, 0.95)["limits"].rewards_clamped
    assert share.low < share.high
    assert share.value in (0.0, 1.0)
    assert share.low <= share.value <= share.high

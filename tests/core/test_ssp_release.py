"""DP-SSP, persons, add-remove and intervals as a user meets them: release, refit, files."""

import json

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from oracles.refusals import refused
from oracles.studies import in_sections, release_anyway
from privalue.core.calibration import divergence
from privalue.releases import json_schema
from privalue.report import describe_diagnostics

PEOPLE = [
    [("ill", 0.0), ("better", 0.0), ("well", 1.0)],
    [("ill", 0.0), ("ill", 0.0), ("better", 0.0), ("well", 1.0)],
] * 3000
LABELS = ["ill", "better", "well"]


def make_study(mechanism=None, privacy=None, **sections):
    sections.setdefault("states", {"labels": LABELS})
    return in_sections(
        privacy={"epsilon": 1.0, "delta": 1e-5, "unit": "trajectory", **(privacy or {})},
        values={
            "discount": 0.9,
            "rewards": (0.0, 1.0),
            "returns": (0.0, 1.0),
            "start": {"ill": 1.0},
        },
        mechanism=mechanism or {"name": "dp-ssp"},
        **sections,
    )


def release_seeded(study, data=PEOPLE, seed=3):
    return pv.release(study, data, entropy=pv.SeededForExperimentsOnly(seed))


def by_person():
    rows = [
        (person, trajectory, step, state, reward)
        for person in range(1500)
        for trajectory in range(4)
        for step, (state, reward) in enumerate(PEOPLE[trajectory % 2])
    ]
    return pd.DataFrame(rows, columns=["person", "trajectory", "step", "state", "reward"])


def test_a_release_holds_the_statistics_intervals_and_flags():
    release = release_seeded(make_study())
    assert release.noise.shape == "statistics"
    assert release.noise.beta == 0
    assert release.level == 0.95
    assert len(release.statistics.sums) == len(release.statistics.counts) == 3
    for entry in release.values:
        assert entry.total_low <= entry.low <= entry.value <= entry.high <= entry.total_high
        assert entry.total_band_low <= entry.total_low
        assert entry.total_high <= entry.total_band_high
        assert entry.supported
    assert release.policy.low[0] <= release.policy_value <= release.policy.high[0]
    assert release.trajectories == 6000
    truth = {"ill": (0.9**2 + 0.9**3) / 2, "better": 0.9, "well": 1.0}
    for entry in release:
        assert entry.value == pytest.approx(truth[entry.state], abs=0.02)
    import jsonschema

    jsonschema.validate(json.loads(release.to_json()), json_schema())
    assert pv.Release.parse(release.to_json()) == release


def test_the_noise_is_what_the_release_says():
    """Many releases: the spread of sums and counts is the published one, and not 0.9 of it."""
    study, source = make_study(), pv.SeededForExperimentsOnly(1)
    data = PEOPLE[:40]
    exact = pv.inspect(study, data)
    samples = [
        release_anyway(study, data, entropy=source, accept_large_delta=True).statistics
        for _ in range(150)
    ]
    counts = exact.statistics.counts
    middle = np.array([sample.counts for sample in samples]) - counts
    z = (middle / samples[0].count_noise).ravel()
    sums = exact.statistics.return_sums - 0.5 * counts
    z = np.concatenate(
        [z, ((np.array([sample.sums for sample in samples]) - sums) / samples[0].sum_noise).ravel()]
    )
    spread = 6 * np.sqrt(2 / len(z))
    assert abs(np.mean(z**2) - 1) < spread
    assert abs(np.mean((z / 0.8) ** 2) - 1) > spread


def test_sigma_is_the_analytic_gaussian_of_the_sensitivity():
    """All of N states in reach of one trajectory: Delta = R sqrt(N), and delta is met exactly."""
    diagnostics = pv.inspect(make_study(), PEOPLE[:10])
    alpha = diagnostics.mechanism.calibration.alpha
    assert diagnostics.private_columns()["psi"] == pytest.approx(3.0)
    assert diagnostics.mechanism.noise.sigma == pytest.approx(alpha * np.sqrt(3.0))
    assert diagnostics.mechanism.stages["values"] == alpha
    true = divergence(1.0, 6, 1.0, 1 / alpha)
    assert true.upper <= 1e-5
    assert true.lower > 0.999e-5


def test_refit_spends_nothing_and_keeps_the_guarantee(tmp_path):
    release = release_seeded(make_study())
    coarse = pv.refit(release, size=3, level=0.5)
    assert len(set(coarse.value)) == 1
    assert len(coarse.theta) == 1
    assert (coarse.privacy, coarse.noise) == (release.privacy, release.noise)
    assert coarse.statistics == release.statistics
    assert coarse.level == 0.5
    assert coarse.refit_of is not None
    same = pv.refit(release)
    assert same.values == release.values
    assert same.low[0] == release.low[0]
    ridged = pv.refit(release, ridge=50.0)
    assert ridged.ridge == 50.0
    assert (ridged.value != release.value).any()
    plain = pv.refit(release, shrinkage=False, start={"well": 1.0})
    assert plain.policy_value == plain["well"].value


def test_the_number_of_persons_is_released_and_that_of_trajectories_is_not():
    limits = {"unit": "person", "max_trajectories_per_person": 2}
    release = release_seeded(make_study(privacy=limits), by_person())
    assert (release.persons, release.trajectories) == (1500, None)
    assert (release.privacy.unit, release.privacy.neighbours) == ("person", "replace-one")
    twice = pv.inspect(make_study(privacy=limits), by_person())
    assert twice.statistics.trajectories == 3000
    codes = [notice.code for notice in describe_diagnostics(twice).notices]
    assert "private-surplus-trajectories" in codes


def test_rules_that_need_m_ask_for_it_where_it_is_not_public():
    limits = {"unit": "person", "max_trajectories_per_person": 2}
    with refused("trajectories-missing"):
        pv.release(make_study({"name": "dp-lsw"}, limits), by_person())
    declared = make_study({"name": "dp-lsw"}, limits, study={"trajectories": 2800})
    assert pv.release(declared, by_person()).trajectories is None  # and not compared
    with refused("trajectories-missing"):
        pv.release(make_study({"name": "dp-ssp", "ridge": "sqrt"}, limits), by_person())


def test_with_add_remove_no_size_is_released():
    study = make_study(privacy={"neighbours": "add-remove"})
    for data in ([], PEOPLE[:1], PEOPLE):
        release = release_seeded(study, data)
        assert not {"trajectories", "persons"} & set(json.loads(release.to_json()))
        assert release.noise == release_seeded(study, []).noise
    assert not any(entry.supported for entry in release_seeded(study, []).values)
    assert (release.privacy.unit, release.privacy.neighbours) == ("trajectory", "add-remove")

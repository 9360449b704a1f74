"""``[arms]``, and truncated trajectories, in a study: what is allowed, and what follows."""

import numpy as np
import pytest

import privalue as pv
from oracles.refusals import refused
from oracles.sources import minari_dataset
from oracles.studies import make_study, mechanism_for
from privalue.study import declared_size, design, public_size

SSP = {"name": "dp-ssp", "calibration": "exact"}
ARMS = {"labels": ["control", "treated"]}


def arms_study(**sections):
    return make_study(3, **{"mechanism": SSP, "arms": ARMS, **sections})


def test_keys_are_states_of_every_arm():
    study = arms_study(privacy={"max_states_per_trajectory": 7})
    assert (study.arm_count, study.names.count, study.key_count) == (2, 3, 6)
    limits = study.limits
    assert (limits.keys, limits.arms, limits.max_states_per_trajectory) == (6, 2, 3)
    assert [*map(study.key_label, (0, 2, 3))] == ["control: 0", "control: 2", "treated: 0"]
    assert study.arms.column == "arm"
    assert arms_study(arms={"labels": [0, 1]}).arms.names == ("0", "1")


def test_the_constants_are_those_of_the_proof():
    """c_w = 1/2 and Delta = sqrt(H'), whatever the relation and the number of arms."""
    for labels in (["a", "b"], ["a", "b", "c"]):
        study = arms_study(arms={"labels": labels})
        mechanism = mechanism_for(study, design(study), declared_size(study))
        assert mechanism.terms.count_weight == 0.5
        assert mechanism.noise.squared_sensitivity == pytest.approx(3, rel=1e-12)


def test_features_weights_and_priors_apply_to_each_arm():
    phi = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    study = arms_study(
        features={"kind": "matrix", "matrix": phi},
        weights={"values": [1.0, 2.0, 3.0]},
        states={"count": 3, "visits": {"0": 1.0, "1": 0.5, "2": 0.1}},
    )
    built = design(study)
    nothing = np.zeros_like(phi)
    assert np.array_equal(np.asarray(built.phi), np.block([[phi, nothing], [nothing, phi]]))
    assert built.weights.tolist() == [1.0, 2.0, 3.0] * 2
    assert study.key_visits.tolist() == [0.5, 0.25, 0.05] * 2
    tied = design(arms_study(features={"kind": "aggregate", "size": 2}))
    assert tied.dimension == 4  # two groups of each arm: no group has states of both
    assert tied.values(np.arange(4.0)).tolist() == [0.0, 0.0, 1.0, 2.0, 2.0, 3.0]


# Truncated trajectories


def test_dropping_units_makes_sizes_private():
    keeping = make_study(3, mechanism=SSP, data={"truncated": "cut", "truncated_rows": "keep"})
    dropping = make_study(3, mechanism=SSP, data={"truncated_rows": "drop-unit"})
    assert (keeping.limits.size_is_public, keeping.limits.drop_truncated) == (True, False)
    assert (dropping.limits.size_is_public, dropping.limits.drop_truncated) == (False, True)
    assert not dropping.limits.drop_invalid
    release = pv.release(
        dropping.replace(trajectories=90),
        [[(0, 1.0, step == 0)] for step in range(100)],
        accept_useless=True,
    )
    assert release.trajectories is None
    assert release.terms["drop_truncated"] is True
    statistics = pv.inspect(dropping, [[(0, 1.0, False)]]).statistics
    assert public_size(dropping, statistics).units is None


def test_truncations_of_minari_need_a_rule(tmp_path):
    silent = make_study(4, mechanism=SSP)
    minari = minari_dataset(tmp_path, [[(0, 1.0)]])
    with refused("truncated-rows-missing"):
        pv.inspect(silent, minari)
    statistics = pv.inspect(silent.replace(truncated_rows="keep"), minari).statistics
    assert (statistics.trajectories, statistics.units_dropped) == (1, 0)

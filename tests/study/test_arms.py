"""``[arms]``, and trajectories that were cut off, in a study: what is allowed, and what follows."""

import numpy as np
import pytest

import privalue as pv
from oracles.studies import mechanism_for, study
from privalue._described import described as described_terms
from privalue.study import declared_size, design, public_size, study_template

SSP = {"name": "dp-ssp", "calibration": "exact"}
ARMS = {"labels": ["control", "treated"]}


def described(**sections):
    mechanism = sections.pop("mechanism", SSP)
    return study(3, mechanism=mechanism, arms=sections.pop("arms", ARMS), **sections)


def test_keys_are_states_of_every_arm():
    chosen = described(privacy={"max_states_per_trajectory": 7})
    assert (chosen.arm_count, chosen.state_count, chosen.key_count) == (2, 3, 6)
    limits = chosen.limits
    assert (limits.keys, limits.arms, limits.max_states_per_trajectory) == (6, 2, 3)
    assert chosen.key_names[:4] == ("control: 0", "control: 1", "control: 2", "treated: 0")
    assert chosen.arms.column == "arm"


def test_without_arms_nothing_is_said_of_them():
    """Hashes of studies, and the terms of releases, stay what they were."""
    plain = study(3, mechanism=SSP)
    assert "arms" not in plain.public_description()
    terms = mechanism_for(plain, design(plain), declared_size(plain)).terms
    assert not {"arms", "drop_truncated"} & described_terms(terms).keys()
    assert "truncated" not in plain.public_description()["values"]
    assert plain.key_names == range(3)


def test_the_constants_are_those_of_the_proof():
    """c_w = 1/2 and Delta = sqrt(H'), whatever the relation and the number of arms."""
    for labels in (["a", "b"], ["a", "b", "c"]):
        chosen = described(arms={"labels": labels})
        mechanism = mechanism_for(chosen, design(chosen), declared_size(chosen))
        assert mechanism.terms.constants.count_weight == 0.5
        assert mechanism.noise.squared_sensitivity == pytest.approx(3, rel=1e-12)


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ({"labels": ["one"]}, "at least two arms are needed"),
        ({"labels": []}, "at least two arms are needed"),
        ({"column": "arm"}, "at least two arms are needed"),
        ({"labels": ["a", ""]}, "none empty"),
        ({"labels": ["a", " a "]}, "each with a label of its own"),
        ({"labels": ["a\0", "b"]}, "each with a label of its own"),
        ({"labels": "ab"}, "it must be a list of two or more texts"),
        ({"labels": ["a", "b"], "column": ""}, "it must be a text"),
        ({"labels": ["a", "b"], "column": "reward"}, 'both name the column "reward"'),
        ({"labels": ["a", "b"], "groups": 2}, "groups is not a key of a study"),
    ],
)
def test_what_arms_may_not_be(arms, words):
    with pytest.raises(pv.StudyError, match=words):
        described(arms=arms)


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl"])
def test_only_dp_ssp_has_arms(name):
    with pytest.raises(pv.StudyError, match="no bound is proved for a unit that moves") as told:
        described(mechanism={"name": name})
    assert 'use "dp-ssp"' in str(told.value)


def test_very_many_arms_of_very_many_states_are_refused():
    with pytest.raises(pv.StudyError, match="are 3000000000 values"):
        described(states={"count": 1_000_000}, arms={"labels": list(range(3000))})


def test_features_weights_and_priors_apply_to_each_arm():
    phi = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    chosen = described(
        features={"kind": "matrix", "matrix": phi},
        weights={"values": [1.0, 2.0, 3.0]},
        states={"count": 3, "visits": {"0": 1.0, "1": 0.5, "2": 0.1}},
    )
    built = design(chosen)
    nothing = np.zeros_like(phi)
    assert np.array_equal(np.asarray(built.phi), np.block([[phi, nothing], [nothing, phi]]))
    assert built.weights.tolist() == [1.0, 2.0, 3.0] * 2
    assert chosen.key_visits.tolist() == [0.5, 0.25, 0.05] * 2
    tied = design(described(features={"kind": "aggregate", "size": 2}))
    assert tied.dimension == 4  # two groups of each arm: no group has states of both
    assert tied.values(np.arange(4.0)).tolist() == [0.0, 0.0, 1.0, 2.0, 2.0, 3.0]


def test_a_description_gives_the_study_back():
    chosen = described(
        states={"labels": ["a", "b", "c"]},
        data={"truncated": "cut"},
        values={"truncated": "drop-unit"},
    )
    again = pv.Study.from_description(chosen.public_description())
    assert again == chosen
    assert (again.arm_labels, again.drops_cut) == (("control", "treated"), True)


def test_labels_may_be_numbers():
    assert described(arms={"labels": [0, 1]}).arm_labels == ("0", "1")


# Trajectories that were cut off


def test_a_rule_for_cuts_needs_the_column():
    with pytest.raises(pv.StudyError, match=r"needs the column .* \[data\] truncated"):
        study(3, values={"truncated": "keep"})
    with pytest.raises(pv.StudyError, match='it must be "keep"'):
        study(3, values={"truncated": "drop"}, data={"truncated": "cut"})
    with pytest.raises(pv.StudyError, match='both name the column "reward"'):
        study(3, data={"truncated": "reward"})


def test_what_is_dropped_makes_sizes_private():
    kept = study(3, mechanism=SSP, data={"truncated": "cut"})
    dropped = study(3, mechanism=SSP, data={"truncated": "cut"}, values={"truncated": "drop-unit"})
    assert (kept.limits.size_is_public, kept.limits.drop_truncated) == (True, False)
    assert (dropped.limits.size_is_public, dropped.limits.drop_truncated) == (False, True)
    assert not dropped.limits.drop_invalid
    release = pv.release(
        dropped.replace(trajectories=90),
        [[(0, 1.0, step == 0)] for step in range(100)],
        accept_useless=True,
    )
    assert release.trajectories is None
    assert release.terms["drop_truncated"] is True
    statistics = pv.inspect(dropped, [[(0, 1.0, False)]]).statistics
    assert public_size(dropped, statistics).units is None


def test_the_template_shows_arms_and_is_a_study():
    text = study_template()
    assert '# labels = ["control", "treated"]' in text
    assert '# truncated = "drop-unit"' in text
    assert pv.Study.parse(text).arm_labels == ()
    wanted = study_template({("arms", "labels"): '["a", "b"]'})
    assert pv.Study.parse(wanted).arm_labels == ("a", "b")

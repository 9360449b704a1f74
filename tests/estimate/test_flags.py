"""Flags of values are those of the literal twin."""

import numpy as np
import pytest

import privalue as pv
from oracles import studies
from oracles.states import agree, literal_flags
from oracles.studies import release_anyway
from privalue.estimate import flags

LABELS = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]


def people(count=400):
    """Everybody visits all states but the last three, which few do."""
    whole = [[(label, 0.1) for label in LABELS[:-3]]] * count
    return [*whole, *([[(label, 1.0) for label in LABELS]] * 5)]


def make_study(mechanism="dp-ssp", **sections):
    return studies.make_study(
        len(LABELS),
        returns=(0.0, 1.0),
        privacy={"delta": 1e-5},
        mechanism={"name": mechanism, "calibration": "exact"},
        **{"states": {"labels": LABELS}, **sections},
    )


def prior():
    return {"labels": LABELS, "visits": {label: at / 200 for at, label in enumerate(LABELS)}}


STUDIES = {
    "noisy counts": make_study,
    "features": lambda: make_study(features={"kind": "matrix", "matrix": 2 * np.eye(9)[:, :6]}),
    "a prior of visits": lambda: make_study("dp-lsw", states=prior()),
    "a prior that counts overrule": lambda: make_study(states=prior()),
    "weights": lambda: make_study("dp-lsl", weights={"values": [1.0, 0.0, 2.0] * 3}),
    "nothing but values": lambda: make_study("dp-lsw"),
}


def disagreements(study, seed):
    release = release_anyway(study, people(), entropy=pv.SeededForExperimentsOnly(seed))
    twin = literal_flags(release, study)
    return [row.state for row, own in zip(release, twin, strict=True) if not agree(row.flags, own)]


@pytest.mark.parametrize("which", STUDIES)
def test_flags_are_those_of_the_twin(which):
    for seed in range(3):
        assert disagreements(STUDIES[which](), seed) == []


def test_a_prior_that_is_taken_for_a_larger_one_is_found(monkeypatch):
    monkeypatch.setattr(flags, "FEW_VISITS", 11)
    assert disagreements(STUDIES["a prior of visits"](), 0)


def test_a_value_that_is_mostly_borrowed_from_other_states_is_flagged():
    """One state in eight has a tenth of the visits: its value is drawn to the others'."""
    rng = np.random.default_rng(5)
    many = [[(str(at), float(rng.random() < 0.5))] for at in range(7) for _ in range(900)]
    few = [[("7", float(rng.random() < 0.5))] for _ in range(60)]
    study = pv.Study(
        states=8, discount=0.9, returns=(0, 1), epsilon=1.0, delta=1e-5, unit="trajectory"
    )
    release = pv.release(study, [*many, *few], seed=2)
    assert flags.WORDS["flags"]["borrowed"] in release["7"].flags
    assert not release["7"].supported
    assert flags.WORDS["flags"]["unclear"] not in release["7"].flags

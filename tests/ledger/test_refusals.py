"""Refusals come before the charge: a release that is charged is released."""

import numpy as np
import pytest

import privalue as pv
from oracles.studies import in_sections, make_study, release_anyway
from privalue import curator
from privalue.curator import prepare

PEOPLE = [[(0, 1.0), (1, 0.5)], [(1, 0.2), (2, 0.9)]] * 40


def exact_study(count=3, **sections):
    mechanism = {"calibration": "exact", "noise": None, **sections.pop("mechanism", {})}
    mechanism = {key: value for key, value in mechanism.items() if value is not None}
    privacy = {"epsilon": 0.5, "delta": 1e-6, "unit": "trajectory"}
    return in_sections(
        study={"dataset": "trial", "trajectories": 80},
        privacy=privacy,
        values={"discount": 0.9, "rewards": (0.0, 1.0)},
        states={"count": count},
        mechanism=mechanism,
        **sections,
    )


@pytest.fixture
def ledger(tmp_path):
    new_ledger = pv.open_ledger(tmp_path / "ledger.db")
    new_ledger.declare("trial", epsilon=1.0, delta=1e-5, unit="trajectory")
    return new_ledger


def require_refusal(study, ledger):
    """Before data is opened, and so at no cost."""
    with pytest.raises((pv.StudyError, pv.UsageError)):
        pv.release(study, "no such file.csv", ledger=ledger)
    assert ledger.account("trial").spent.epsilon == 0


@pytest.mark.parametrize(
    "sections",
    [
        {"weights": {"values": [1.0, 1.0, 0.0]}},
        {"features": {"kind": "matrix", "matrix": np.array([[1.0, 1], [2, 2], [3, 3]])}},
    ],
    ids=["a state without weight", "the same feature twice"],
)
def test_dp_ssp_without_a_unique_fit_is_refused(ledger, sections):
    require_refusal(exact_study(mechanism={"name": "dp-ssp"}, **sections), ledger)
    prepare(exact_study(mechanism={"name": "dp-ssp", "ridge": 5.0}, **sections))


@pytest.mark.parametrize(("digits", "fits"), [(1, True), (30_000, False)])
def test_states_or_labels_that_a_ledger_cannot_store_are_refused(
    ledger, monkeypatch, tmp_path, digits, fits
):
    (tmp_path / "states.csv").write_text("\n".join(f"{at:0{digits}}" for at in range(3)))
    study = exact_study().replace(states=str(tmp_path / "states.csv"))
    monkeypatch.setattr(curator, "MAX_STORED_BYTES", 100_000)
    if fits:
        release_anyway(study, PEOPLE, ledger=ledger)
    else:
        require_refusal(study, ledger)


def test_a_study_with_a_unique_fit_is_released(ledger):
    release = release_anyway(exact_study(), PEOPLE, ledger=ledger)
    assert ledger.account("trial").spent.epsilon > 0
    assert len(release.values) == make_study(3).names.count

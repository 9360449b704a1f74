"""Every mechanism runs from check to page: with a part missing, a release is charged and lost."""

import pytest

import privalue as pv
from privalue.core import MECHANISMS

FAIR = {0: {0: 0.5, 1: 0.5}, 1: {0: 0.5, 1: 0.5}}
BY_STATE = {"delta": 1e-6, "visits": [0.9, 0.5]}
KEYS = {
    "dp-ssp": BY_STATE,
    "dp-lsw": BY_STATE,
    "dp-lsl": BY_STATE,
    "dp-ope": {"actions": 2, "policy": {"target": FAIR, "behaviour": FAIR, "clip": 2.0}},
}
PEOPLE = [[(0, 0, 1.0), (1, 1, 0.0)], [(1, 0, 1.0)]] * 2000


def test_there_is_a_study_of_each():
    assert set(KEYS) == set(MECHANISMS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_it_goes_from_check_to_page(name, tmp_path):
    study = pv.Study(
        states=2, discount=0.9, returns=(0, 1), epsilon=8.0, unit="trajectory",
        mechanism=name, dataset="clinic", trajectories=len(PEOPLE), **KEYS[name],
    )  # fmt: skip
    people = [[row if name == "dp-ope" else row[::2] for row in rows] for rows in PEOPLE]
    assert pv.check(study).as_dict()
    assert pv.plan(study).trajectories == len(PEOPLE)
    assert pv.inspect(study, people).private_columns()["mechanism"] == name
    ledger = pv.open_ledger(tmp_path / "ledger.db")
    ledger.declare("clinic", epsilon=8, delta=1e-5, unit="trajectory")
    release = pv.release(study, people, ledger=ledger)
    assert release.mechanism == name
    assert name.upper() in pv.publish(release, tmp_path / "out").page.read_text(encoding="utf-8")
    assert pv.release(study, people, ledger=ledger).reused

import sys
from importlib import metadata

import numpy as np
import pytest

from privalue.errors import MissingComponentError, StudyError, UsageError
from privalue.simulation import icu_sepsis as build
from privalue.simulation import parse_world

MODULE = sys.modules["privalue.simulation._icu_sepsis"]


@pytest.fixture(scope="module")
def world():
    try:
        metadata.distribution("icu-sepsis")
    except metadata.PackageNotFoundError:
        pytest.skip("icu-sepsis is not installed")
    return parse_world("icu-sepsis")


def test_its_size_and_its_ends(world):
    process = world.process
    assert world.text == "icu-sepsis:policy=expert,discount=0.99"
    assert process.states == 716
    process.require_end()
    # Death, survival and the empty state are final observations: no rows.
    assert process.visits.single[713:].tolist() == [0, 0, 0]
    assert process.values[713:].tolist() == [0, 0, 0]
    assert np.all(process.visits.single[:713] > 0)
    assert process.reward_bounds == (0, 1)
    assert np.all((process.values >= 0) & (process.values <= 1))


def test_the_package_itself_is_never_imported(world):
    assert world.name == "icu-sepsis"
    assert not {"icu_sepsis", "gym"} & set(sys.modules)


def test_wrong_settings_are_named():
    with pytest.raises(
        UsageError, match="policy is 'best'; it must be expert or uniform or greedy"
    ):
        parse_world("icu-sepsis:policy=best")
    with pytest.raises(UsageError, match="icu-sepsis has no parameter 'N'"):
        parse_world("icu-sepsis:N=3")


def test_without_its_data_the_message_says_what_to_install(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(MODULE.metadata, "files", missing)
    with pytest.raises(MissingComponentError, match="pip install --no-deps icu-sepsis"):
        build()
    monkeypatch.setattr(MODULE.metadata, "files", lambda name: None)
    with pytest.raises(MissingComponentError, match=r"has no file dynamics\.npz"):
        build()


def test_dynamics_of_another_shape_are_refused(monkeypatch, tmp_path):
    np.savez(tmp_path / "dynamics.npz", tx_mat=np.zeros((2, 1, 2)))
    monkeypatch.setattr(MODULE, "_dynamics_file", lambda: tmp_path / "dynamics.npz")
    with pytest.raises(StudyError, match=r"have shape \(2, 1, 2\)"):
        build()

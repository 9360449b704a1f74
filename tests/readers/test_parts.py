"""A part of the people, by a public hash of their ids."""

import pandas as pd
import pytest

import privalue as pv
from privalue.errors import StudyError


def halves(**changes):
    keywords = {
        "states": 2, "discount": 0.9, "returns": (0, 1), "epsilon": 1.0, "delta": 1e-6,
        "unit": "trajectory",
    }  # fmt: skip
    return [
        pv.Study(study=pv.About(part=part, trajectories=500), **(keywords | changes))
        for part in ("1/2", "2/2")
    ]


def test_parts_share_nobody_and_leave_nobody_out(tmp_path):
    rows = pd.DataFrame(
        [(f"p{n}", t, (n + t) % 2, 0.5) for n in range(1000) for t in range(2)],
        columns=["trajectory", "step", "state", "reward"],
    )
    mixed = tmp_path / "mixed.csv"
    rows.sample(frac=1, random_state=3).to_csv(mixed, index=False)
    found = []
    for half in halves():
        assert not half.size_is_public  # whoever is replaced may be in the other part
        fields = pv.inspect(half, rows).private_fields()
        assert fields["counts"] == pv.inspect(half, mixed).private_fields()["counts"]
        found.append(fields)
    assert sum(fields["trajectories"] for fields in found) == 1000
    assert 430 < found[0]["trajectories"] < 570
    assert found[0]["rows"] + found[1]["rows"] == 2000
    assert halves()[0].public_description()["study"]["part"] == "1/2"
    assert pv.release(halves()[0], rows, seed=1).trajectories is None


def test_a_person_is_in_one_part_with_all_trajectories():
    rows = pd.DataFrame(
        [(n // 3, n % 3, 0, 0.5) for n in range(300)], columns=["p", "trajectory", "step", "reward"]
    ).assign(state=0)
    columns = {"person": "p", "trajectory": "trajectory"}
    both = halves(unit="person", max_trajectories_per_person=3, columns=columns)
    fields = [pv.inspect(half, rows).private_fields() for half in both]
    assert sum(each["persons"] for each in fields) == 100
    assert all(each["trajectories"] == 3 * each["persons"] for each in fields)


@pytest.mark.parametrize("part", ["0/2", "3/2", "1/1", "1/101", "half", "1/2/3", "1.5/2"])
def test_parts_that_there_are_not_are_refused(part):
    with pytest.raises(StudyError, match=r'part = .* must be a text such as "1/2"'):
        pv.About(part=part)

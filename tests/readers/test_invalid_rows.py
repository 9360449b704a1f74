"""Invalid rows: refused, or their whole unit left out; what is said of it, and to whom."""

import json
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import study, study_file
from privalue.cli import run
from privalue.core import MOST_TRAJECTORIES
from privalue.study import declared_size, public_size

COLUMNS = ["person", "trajectory", "step", "state", "reward"]
GOOD = [
    (person, trajectory, step, (person + step) % 3, 0.25 * step)
    for person in range(6)
    for trajectory in range(2)
    for step in range(3)
]
PERSON = {"unit": "person", "max_trajectories_per_person": 2}
BAD = {
    "state": (2, 0, 1, 9, 0.5),
    "reward": (2, 0, 1, 1, float("inf")),
    "a missing reward": (2, 0, 1, 1, None),
    "step": (2, 0, "noon", 1, 0.5),
    "trajectory": (2, None, 1, 1, 0.5),
    "twice": (2, 1, 2, 1, 0.5),
}


def frame(rows):
    return pd.DataFrame(rows, columns=COLUMNS, dtype=object)


def with_bad(kind, shuffle=False):
    """The good rows, one of them replaced by a bad one (or a row that appears twice)."""
    rows = [*GOOD[:13], BAD[kind], *GOOD[(13 if kind == "twice" else 14) :]]
    made = frame(rows)
    return made.sample(frac=1, random_state=5) if shuffle else made


def numbers(found):
    return [*found.counts, *found.return_steps, found.trajectories, found.persons]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", BAD)
def test_a_person_with_an_invalid_row_is_nobody(kind, shuffle):
    dropping = study(3, privacy=PERSON, data={"invalid": "drop-unit"})
    found = statistics(with_bad(kind, shuffle), dropping)
    others = statistics(frame([row for row in GOOD if row[0] != 2]), dropping)
    assert numbers(found) == numbers(others)
    assert (found.units_dropped, found.rows_left_out) == (1, 0)
    with refused("cell-invalid", "cell-missing", "rows-duplicate"):
        statistics(with_bad(kind, shuffle), study(3, privacy=PERSON))


@pytest.mark.parametrize("kind", BAD)
def test_a_trajectory_with_an_invalid_row_is_left_out_and_its_person_is_not(kind):
    both = {"person": "person", "trajectory": "trajectory", "invalid": "drop-unit"}
    found = statistics(with_bad(kind), study(3, data=both))
    lost = 1 if kind == "twice" else 0
    kept = [row for row in GOOD if row[:2] != (2, lost)]
    if kind == "trajectory":  # the row belongs to nobody; the trajectory lost it before it counted
        kept = [row for row in GOOD if row != GOOD[13]]
    assert numbers(found) == numbers(statistics(frame(kept), study(3, data=both)))


def test_a_row_whose_person_cannot_be_told_belongs_to_nobody():
    dropping = study(3, privacy=PERSON, data={"invalid": "drop-unit"})
    for odd in (None, "", 1e300, "x" * 256, [7]):
        found = statistics(frame([*GOOD, (odd, 0, 0, 0, 0.5)]), dropping)
        assert numbers(found) == numbers(statistics(frame(GOOD), dropping))
        assert (found.units_dropped, found.rows_left_out) == (0, 1)


CELLS = st.one_of(
    st.none(),
    st.integers(-2, 4),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["0", "1.0", "x" * 300, b"\xff", [], True, float("nan")]),
)


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS, CELLS), max_size=6),
    unit=st.sampled_from([{"unit": "trajectory"}, PERSON]),
    neighbours=st.sampled_from(["replace-one", "add-remove"]),
)
def test_there_is_a_release_for_every_input(rows, unit, neighbours):
    """The mechanism is total: any rows at all, none included."""
    dropping = study(
        3,
        privacy={**unit, "neighbours": neighbours},
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        data={"invalid": "drop-unit"},
    )
    released = pv.release(dropping, frame(rows), entropy=pv.SeededForExperimentsOnly(1))
    assert len(released.values) == 3
    assert released.trajectories is None
    assert released.persons is None


def test_no_size_is_counted_where_units_may_vanish():
    """A unit of which nothing is left changes m between neighbours."""
    declared = {"invalid": "drop-unit"}
    described = study(3, data=declared)
    one, two = (statistics([[(0, 0.5)], [(1, reward)]], described) for reward in (0.5, None))
    assert one.trajectories != two.trajectories
    for found in (one, two):
        size = public_size(described, found)
        assert (size.units, size.most_count, size.trajectories) == (None, MOST_TRAJECTORIES, None)
    counted = study(3, data=declared, study={"trajectories": 7})
    assert public_size(counted, one).trajectories == 7
    assert declared_size(study(3)).units is None
    assert public_size(study(3), statistics([[(0, 0.5)]], study(3))).units == 1


# What is said, and to whom

TOML = study_file(
    study={"trajectories": 4000},
    privacy={"unit": "person"},
    values={"returns": [0.0, 1.0]},
    mechanism={"name": "dp-ssp"},
    data={"person": "who", "invalid": "drop-unit"},
)


def test_the_curator_sees_what_was_dropped_and_the_public_does_not(tmp_path, capsys):
    rows = [(f"p{at}", 0, at % 3, 0.5) for at in range(4000)]
    rows[7], rows[11], rows[13] = ("p7", 0, 9, 0.5), ("", 0, 1, 0.5), ("p13", "x", 1, 0.5)
    frame = pd.DataFrame(rows, columns=["who", "step", "state", "reward"])
    frame.to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "study.toml").write_text(TOML)
    study_file, data = str(tmp_path / "study.toml"), str(tmp_path / "d.csv")
    assert run(["inspect", study_file, "--data", data, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["units_dropped"], told["rows_left_out"]) == (2, 1)
    out = tmp_path / "out"
    assert run(["release", study_file, "--data", data, "--out", str(out), "--no-ledger"]) == 0
    released = json.loads((out / "release.json").read_text())
    assert released["privacy"]["invalid"] == "drop-unit"
    assert "persons" not in released or released["persons"] is None
    assert "counts as if it were not there" in (out / "report.html").read_text()
    for file in out.iterdir():
        text = file.read_bytes().decode("utf-8", "replace")
        assert not re.search(r"units_dropped|rows_left_out", text), file
        # A number by itself: noise has digits of its own, and any four of them come up some day.
        assert not re.search(r"(?<![\d.])3,?99[78](?![\d.])", text), file

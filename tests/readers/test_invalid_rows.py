"""Invalid rows: refused, or their whole unit dropped; only the curator sees how many."""

import json
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from oracles.reading import statistics
from oracles.refusals import refused
from oracles.studies import make_study, study_file
from privalue.cli import run
from privalue.core import MAX_TRAJECTORIES
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
    """Return the good rows, one of them replaced by a bad one (or one twice)."""
    rows = [*GOOD[:13], BAD[kind], *GOOD[(13 if kind == "twice" else 14) :]]
    table = frame(rows)
    return table.sample(frac=1, random_state=5) if shuffle else table


def numbers(result):
    return [*result.counts, *result.return_steps, result.trajectories, result.persons]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", BAD)
def test_a_person_with_an_invalid_row_is_dropped(kind, shuffle):
    dropping = make_study(3, privacy=PERSON, data={"invalid": "drop-unit"})
    result = statistics(with_bad(kind, shuffle), dropping)
    others = statistics(frame([row for row in GOOD if row[0] != 2]), dropping)
    assert numbers(result) == numbers(others)
    assert (result.units_dropped, result.rows_left_out) == (1, 0)
    with refused("cell-invalid", "cell-missing", "rows-duplicate"):
        statistics(with_bad(kind, shuffle), make_study(3, privacy=PERSON))


@pytest.mark.parametrize("kind", BAD)
def test_a_trajectory_with_an_invalid_row_is_dropped_and_its_person_is_not(kind):
    both = {"person": "person", "trajectory": "trajectory", "invalid": "drop-unit"}
    result = statistics(with_bad(kind), make_study(3, data=both))
    lost = 1 if kind == "twice" else 0
    remaining = [row for row in GOOD if row[:2] != (2, lost)]
    if kind == "trajectory":  # a row without an id is left out by itself
        remaining = [row for row in GOOD if row != GOOD[13]]
    assert numbers(result) == numbers(statistics(frame(remaining), make_study(3, data=both)))


def test_a_row_without_a_valid_person_is_left_out():
    dropping = make_study(3, privacy=PERSON, data={"invalid": "drop-unit"})
    for odd in (None, "", 1e300, "x" * 256, [7]):
        result = statistics(frame([*GOOD, (odd, 0, 0, 0, 0.5)]), dropping)
        assert numbers(result) == numbers(statistics(frame(GOOD), dropping))
        assert (result.units_dropped, result.rows_left_out) == (0, 1)


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
def test_every_input_has_a_release(rows, unit, neighbours):
    """The mechanism is total: it is defined for any rows, and for none."""
    dropping = make_study(
        3,
        privacy={**unit, "neighbours": neighbours},
        mechanism={"name": "dp-ssp", "calibration": "exact"},
        data={"invalid": "drop-unit"},
    )
    release = pv.release(dropping, frame(rows), entropy=pv.SeededForExperimentsOnly(1))
    assert len(release.values) == 3
    assert release.trajectories is None
    assert release.persons is None


def test_no_size_is_counted_where_units_may_be_dropped():
    """A dropped unit changes m between neighbours."""
    data = {"invalid": "drop-unit"}
    dropping = make_study(3, data=data)
    one, two = (statistics([[(0, 0.5)], [(1, reward)]], dropping) for reward in (0.5, None))
    assert one.trajectories != two.trajectories
    for result in (one, two):
        size = public_size(dropping, result)
        assert (size.units, size.most_count, size.trajectories) == (None, MAX_TRAJECTORIES, None)
    with_size = make_study(3, data=data, study={"trajectories": 7})
    assert public_size(with_size, one).trajectories == 7
    assert declared_size(make_study(3)).units is None
    assert public_size(make_study(3), statistics([[(0, 0.5)]], make_study(3))).units == 1


# What the curator sees

TOML = study_file(
    study={"trajectories": 4000},
    privacy={"unit": "person"},
    values={"returns": [0.0, 1.0]},
    mechanism={"name": "dp-ssp"},
    data={"person": "who", "invalid": "drop-unit"},
)


def test_only_the_curator_sees_how_much_was_dropped(tmp_path, capsys):
    rows = [(f"p{at}", 0, at % 3, 0.5) for at in range(4000)]
    rows[7], rows[11], rows[13] = ("p7", 0, 9, 0.5), ("", 0, 1, 0.5), ("p13", "x", 1, 0.5)
    frame = pd.DataFrame(rows, columns=["who", "step", "state", "reward"])
    frame.to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "study.toml").write_text(TOML)
    study_file, data = str(tmp_path / "study.toml"), str(tmp_path / "d.csv")
    assert run(["inspect", study_file, "--data", data, "--json"]) == 0
    diagnostics = json.loads(capsys.readouterr().out)
    assert (diagnostics["units_dropped"], diagnostics["rows_left_out"]) == (2, 1)
    out = tmp_path / "out"
    assert run(["release", study_file, "--data", data, "--out", str(out), "--no-ledger"]) == 0
    release = json.loads((out / "release.json").read_text())
    assert release["privacy"]["invalid"] == "drop-unit"
    assert "persons" not in release or release["persons"] is None
    for file in out.iterdir():
        text = file.read_bytes().decode("utf-8", "replace")
        assert not re.search(r"units_dropped|rows_left_out", text), file
        # As a number of its own: these digits may occur within a noisy number.
        assert not re.search(r"(?<![\d.])3,?99[78](?![\d.])", text), file

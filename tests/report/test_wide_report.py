"""Reports of very many states: columns that say what states say one by one, at their price."""

import csv
import hashlib
import io
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from privalue.artefact._release import Release
from privalue.artefact._values import StateValues

import privalue as pv
from oracles.states import literal_csv, literal_group, literal_rows
from oracles.studies import release_anyway, study
from privalue.cli._app import run
from privalue.cli._console import print_json
from privalue.report import _precision as precision
from privalue.report import _states as states
from privalue.report._plots import Series, plot_rows
from privalue.report._precision import achieved, planned, require_same_study, study_of
from privalue.report._private_page import private_page
from privalue.report._public_page import public_page
from privalue.report._publish import write_report

LABELS = ["a,b", 'say "c"', "line\nbreak", "é", "x y", "7", "carriage\rreturn", "-", "plain"]
MANY = 40_000


def people(count=400):
    """Everybody visits all states but the last three, which few do."""
    whole = [[(label, 0.1) for label in LABELS[:-3]]] * count
    return [*whole, *([[(label, 1.0) for label in LABELS]] * 5)]


def described(mechanism="dp-ssp", **sections):
    return study(
        len(LABELS),
        returns=(0.0, 1.0),
        privacy={"delta": 1e-5},
        mechanism={"name": mechanism, "calibration": "exact", "noise": "whitened"}
        if mechanism == "dp-lsw"
        else {"name": mechanism, "calibration": "exact"},
        **{"states": {"labels": LABELS}, **sections},
    )


def released(chosen, seed=3):
    return release_anyway(chosen, people(), entropy=pv.SeededForExperimentsOnly(seed))


def prior():
    return {"labels": LABELS, "visits": {label: at / 200 for at, label in enumerate(LABELS)}}


STUDIES = {
    "noisy counts": described,
    "a prior of visits": lambda: described("dp-lsw", states=prior()),
    "a prior that counts overrule": lambda: described(states=prior()),
    "weights": lambda: described("dp-lsl", weights={"values": [1.0, 0.0, 2.0] * 3}),
    "nothing but values": lambda: described("dp-lsw"),
}


def differences(release, chosen=None):
    """Where the table of columns does not say what the states say one by one."""
    table, literally = states.state_table(release, chosen), literal_rows(release, chosen)
    found = [] if len(table) == len(literally) else ["length"]
    for row, twin in zip(table, literally, strict=True):
        same = (row.state, row.value, row.low, row.high) == (
            *(twin.state, twin.value, twin.low, twin.high),
        )
        more = {k: x for k, x in row.columns.items() if k not in {"low", "high"}}
        if not (same and more == twin.columns and row.flags == twin.flags):
            found.append(row.state)
    text = "".join(states.values_csv(table))
    if text != literal_csv(literally):
        found.append("values.csv")
    read = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    if read != ["state", *(row.state for row in literally)]:
        found.append("labels that are read back")
    return found


@pytest.mark.parametrize("which", STUDIES)
@pytest.mark.parametrize("given_study", [False, True])
def test_columns_say_what_states_say_one_by_one(which, given_study, monkeypatch):
    monkeypatch.setattr(states, "_AT_ONCE", 4)  # several parts, the last one shorter
    chosen = STUDIES[which]()
    for seed in range(3):
        assert differences(released(chosen, seed), chosen if given_study else None) == []


def test_every_flag_is_raised_somewhere_in_these_studies():
    raised = {
        flag
        for which in STUDIES.values()
        for row in states.state_table(released(which()))
        for flag in row.flags
    }
    elsewhere = {states.WIDE, states.AT_A_BOUND, states.GUESSED}
    assert raised | elsewhere == set(states.MEANINGS)


def wild(values):
    """A release with these values, which bounds of 0 and 1 do not all hold."""
    count = len(values)
    small = release_anyway(study(2, returns=(0.0, 1.0)), [[(0, 1.0)]] * 50)
    told = dict(small.study, states={"count": count})
    columns = {"value": np.array(values), "supported": np.arange(count) % 3 > 0}
    return small.model_copy(update={"study": told, "values": StateValues(range(count), columns)})


@given(st.lists(st.floats(-1, 2) | st.sampled_from([0.0, 1.0, -1e-9, 1 + 1e-9]), min_size=1))
def test_flags_add_up_state_by_state(values):
    release = wild(values)
    assert differences(release) == []
    table = states.state_table(release)
    for flag in states.MEANINGS:
        assert table.with_flag(flag).tolist() == [
            at for at, row in enumerate(literal_rows(release)) if flag in row.flags
        ]
    assert table.flagged.tolist() == [bool(row.flags) for row in literal_rows(release)]


def test_mistakes_that_are_planted_in_columns_are_found(monkeypatch):
    chosen = STUDIES["a prior of visits"]()
    release = released(chosen)
    assert differences(release) == []
    mistakes = {
        "_bit": lambda flag: 1,
        "_prior": lambda release, study: study.visit_prior[::-1],
        "FEW_VISITS": 11,
        "_ENDS": ("high", "low"),
    }
    for name, mistake in mistakes.items():
        with monkeypatch.context() as planted:
            planted.setattr(states, name, mistake)
            both = released(described()) if name == "_ENDS" else release
            wrong = differences(both, None if name == "_ENDS" else chosen)
        assert wrong, name


@given(st.integers(1, 2000), st.integers(0, 10**6), st.sampled_from(["", "low", "both"]))
def test_groups_say_what_their_states_say(count, seed, ends):
    rng = np.random.default_rng(seed)
    columns = {"value": rng.normal(size=count)}
    if ends:
        columns["low"] = columns["value"] - rng.random(count)
    if ends == "both":
        columns["high"] = columns["value"] + rng.random(count)
    release = wild([0.5]).model_copy(update={"values": StateValues(range(count), columns)})
    rows = literal_rows(release)
    series = Series(
        names=release.values.states,
        values=columns["value"],
        outer=(columns.get("low"), columns.get("high")),
    )
    groups = plot_rows(series)
    each = -(-count // 30)
    if count <= 60:
        assert [row.value for row in groups] == columns["value"].tolist()
        return
    assert len(groups) == -(-count // each) <= 30
    for at, found in enumerate(groups):
        start, stop = at * each, min((at + 1) * each, count)
        first, last, *ends = literal_group(rows, start, stop)
        assert found.name == (first if first == last else f"{first} to {last}")
        assert [*found.span, *found.total] == ends


def test_achieved_precision_is_that_of_the_states():
    release = released(described())
    halves = sorted((row.high - row.low) / 2 for row in literal_rows(release))
    found = achieved(release, states.state_table(release))
    assert (found.median, found.largest) == (halves[len(halves) // 2], halves[-1])
    secret = released(described("dp-lsw"))
    assert achieved(secret, states.state_table(secret)) is None


# Text, a part at a time


@pytest.mark.parametrize("mechanism", ["dp-ssp", "dp-lsw"])
def test_the_text_is_the_same_in_parts_and_its_hash_is_kept(mechanism, tmp_path, monkeypatch):
    monkeypatch.setattr("privalue.artefact._values._AT_ONCE", 4)
    release = released(described(mechanism))
    file = release.save(tmp_path)
    assert release.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert file.read_text() == release.to_json()
    told = release.model_dump_json(indent=2, exclude_none=True)
    assert json.loads(file.read_text()) == json.loads(told)
    # All but the values, of which each is on a line, is as the model writes it.
    apart = [text.split('"values": [\n    {') for text in (told + "\n", file.read_text())]
    assert apart[0][0] == apart[1][0]
    assert apart[0][1].split("\n  ],")[-1] == apart[1][1].split("\n  ],")[-1]
    assert Release.load(file) == release
    assert Release.load(file).sha256 == release.sha256
    assert np.array_equal(Release.load(file).theta, release.theta)
    other = Release.load(file).model_copy(update={"created": "2026-01-01"})
    assert other.sha256 != release.sha256
    assert '"created": "2026-01-01"' in other.to_json()


def test_what_is_no_number_is_not_released():
    release = released(described())
    told = json.loads(release.to_json())
    for wrong in (["x"], [None], [float("nan")]):
        with pytest.raises(pv.DataError, match="theta"):
            Release.parse(json.dumps({**told, "theta": wrong}))
    from privalue.artefact._values import as_numbers

    with pytest.raises(ValueError, match="finite"):
        as_numbers(np.array([0.0, np.nan]))


def test_arrays_are_printed_as_lists(capsys, monkeypatch):
    monkeypatch.setattr("privalue.cli._console._AT_ONCE", 2)
    for array in (np.arange(5) / 7, np.arange(4), np.array([1.5]), np.zeros(0)):
        print_json({"a": 1.5, "b": array, "c": {"d": ["e"]}})
        expected = json.dumps({"a": 1.5, "b": array.tolist(), "c": {"d": ["e"]}}) + "\n"
        assert capsys.readouterr().out == expected


# What is not predicted


def test_the_error_of_very_many_states_is_not_predicted_and_the_page_says_so(monkeypatch):
    chosen = described("dp-lsw")
    release = released(chosen)
    assert planned(release).prediction is not None
    monkeypatch.setattr("privalue.planning._model.MOST_STATES", 8)
    reason = planned(release).reason
    assert "predicted for at most 8 states, and this study has 9" in reason
    assert "predicted for at most 8 states, and this study has 9" in public_page(release)


def test_a_plan_of_very_many_states_is_refused_at_once(tmp_path, capsys):
    (tmp_path / "study.toml").write_text(
        '[privacy]\nepsilon = 1.0\ndelta = 1e-6\nunit = "trajectory"\n[values]\ndiscount = 0.9\n'
        "rewards = [0.0, 1.0]\n[states]\ncount = 10000000\n"
    )
    assert run(["plan", str(tmp_path / "study.toml"), "--trajectories", "1000"]) == 2
    assert "this study has 10,000,000" in capsys.readouterr().err


def test_a_study_that_counts_its_states_is_read_back_without_labels():
    chosen = study(4, returns=(0.0, 1.0))
    release = release_anyway(chosen, [[(0, 1.0), (1, 0.0)]] * 60)
    assert study_of(release).states.count == 4
    again = Release.parse(release.to_json())
    assert planned(again).prediction.chosen.rmse == planned(release, chosen).prediction.chosen.rmse
    require_same_study(again, chosen)
    with pytest.raises(pv.UsageError, match="not the one"):
        precision.require_same_study(again, study(5, returns=(0.0, 1.0)))


def test_a_study_of_one_trajectory_per_person_is_read_back():
    chosen = pv.Study(
        trajectories=900,
        epsilon=1.0,
        delta=1e-6,
        unit="person",
        discount=0.9,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        states=3,
        columns={"person": "patient"},
    )
    rows = pa.table(
        {"patient": range(900), "step": [0] * 900, "state": [0, 1, 2] * 300, "reward": [1.0] * 900}
    )
    release = release_anyway(chosen, rows)
    assert planned(release).prediction is not None
    assert pv.refit(release, level=0.8).study["data"] == release.study["data"]


# Their price


def peak(make):
    """Megabytes that are in use at once while something is made."""
    tracemalloc.start()
    try:
        make()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def many():
    chosen = study(
        MANY,
        privacy={"max_states_per_trajectory": 5, "neighbours": "add-remove"},  # m is a secret
        mechanism={"name": "dp-ssp", "calibration": "exact"},
    )
    rng = np.random.default_rng(1)
    data = [[(int(s), 0.5) for s in rng.integers(0, MANY, 5)] for _ in range(200)]
    return chosen, release_anyway(chosen, data), pv.inspect(chosen, data)


def test_a_report_makes_no_object_for_each_state(many, tmp_path, monkeypatch):
    chosen, release, _ = many
    monkeypatch.setattr(states, "_AT_ONCE", 1000)
    release.save(tmp_path)
    reported = peak(lambda: write_report(release, tmp_path, study=chosen))
    assert reported < 10
    assert peak(lambda: literal_rows(release, chosen)) > 3 * reported
    lines = (tmp_path / "values.csv").read_text().splitlines()
    assert len(lines) == MANY + 1
    assert lines[-1].startswith(f"{MANY - 1},")
    assert (tmp_path / "report.html").stat().st_size < 500_000


def test_the_private_page_makes_no_object_for_each_state(many):
    _, _, diagnostics = many
    page = peak(lambda: private_page(diagnostics))
    assert peak(diagnostics.private_fields) > 1.5 * page

"""Hints that help: our name for a key, files by their names, numbers as they were written."""

from pathlib import Path

import pytest

import privalue as pv
from privalue.cli._app import run
from privalue.cli._given import whole_number
from privalue.study import _hints as hints

SOURCE = Path(pv.__file__).parent
SECTIONS = {
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "unit": "trajectory"},
    "values": {"discount": 0.9, "rewards": (0.0, 1.0), "returns": (0.0, 1.0)},
    "states": {"count": 3},
}
STUDY = """
[privacy]
epsilon = 1.0
delta = 0.1
unit = "trajectory"
[values]
discount = 0.9
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
[states]
count = 3
[mechanism]
name = "dp-ssp"
"""
ROWS = [[(0, 0.0), (1, 0.0), (2, 1.0)]] * 20


def said(section, key):
    with pytest.raises(pv.StudyError) as caught:
        pv.Study(**{**SECTIONS, section: {**SECTIONS.get(section, {}), key: 1}})
    return str(caught.value)


@pytest.mark.parametrize(
    ("section", "key", "ours"),
    [
        ("values", "gamma", "discount in [values]"),
        ("mechanism", "lambda", "ridge in [mechanism]"),
        ("study", "episodes", "trajectories in [study]"),
        ("data", "person_id", "person in [data]"),
        ("data", "Patient-ID", "person in [data]"),
        ("privacy", "gamma", "discount in [values]"),
        ("states", "n_states", "count in [states]"),
    ],
)
def test_a_key_by_another_name_is_told_ours(section, key, ours):
    expected = f"[{section}] {key} is not a key of a study; here it is called {ours}"
    assert said(section, key) == expected


def test_a_key_outside_of_all_sections_is_told_ours():
    with pytest.raises(pv.StudyError, match=r"here it is called discount in \[values\]"):
        pv.Study.parse("gamma = 0.9\n")


def test_what_is_not_built_yet_says_what_it_would_be_for():
    assert said("data", "model") == (
        "[data] model is not a key of a study; it would release transitions and rewards "
        "themselves, which is not built yet; remove it"
    )
    with pytest.raises(pv.StudyError, match="which is not built yet"):
        pv.Study(**SECTIONS, model={"ends": ["died"]})


def test_what_follows_from_other_keys_is_told():
    assert "follows from epsilon, delta and beta" in said("mechanism", "alpha")
    assert "level in [report]" in said("report", "alpha")


def test_other_near_names_are_still_found():
    assert said("privacy", "epsilom").endswith("did you mean epsilon?")
    assert "known are count" in said("states", "xyzzy")


def test_hints_are_about_keys_that_exist_and_about_none_that_is_built():
    built = {name: pv.Study.keys_of(name) for name in pv.Study.model_fields}
    for ours in hints._CALLED:
        key, section = ours.removesuffix("]").split(" in [")
        assert key in built[section], ours
    every = set(built).union(*built.values())
    assert not every & set(hints._NOT_BUILT)


def test_a_default_that_needs_the_number_of_trajectories_names_what_is_missing():
    privacy = {**SECTIONS["privacy"], "neighbours": "add-remove"}
    study = pv.Study(**{**SECTIONS, "privacy": privacy}, mechanism={"name": "dp-lsw"})
    with pytest.raises(pv.StudyError, match=r"^\[study\] trajectories is missing: ") as caught:
        pv.release(study, ROWS)
    assert "[study] beta" not in str(caught.value)
    assert 'the default beta = "auto" of [mechanism] follows from it' in str(caught.value)


def test_a_file_is_named_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    assert run(["inspect", "study.toml", "--data", "threads=4.csv"]) == 3
    assert capsys.readouterr().err.startswith("privalue: threads=4.csv does not exist")


def test_a_decimal_comma_is_told_of(tmp_path):
    with pytest.raises(pv.StudyError, match=r"; a decimal has a point: epsilon = 1\.5$"):
        pv.Study.parse(STUDY.replace("epsilon = 1.0", "epsilon = 1,5  # agreed"))
    with pytest.raises(pv.StudyError, match="not valid TOML") as caught:
        pv.Study.parse(STUDY.replace("epsilon = 1.0", "epsilon = one"))
    assert "point" not in str(caught.value)


@pytest.mark.parametrize("content", [b"patient,day\n1,2\n", "größe;tag\n".encode("cp1252")])
@pytest.mark.parametrize("name", ["rows.csv", "Rows.CSV", "rows.tsv.gz", "rows.parquet"])
def test_data_in_place_of_a_study_is_told_of(tmp_path, monkeypatch, name, content):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    with pytest.raises(pv.StudyError) as caught:
        pv.Study.load(name)
    assert str(caught.value) == (
        f"{name} is not a study file but data; a study is TOML, and privalue init study.toml "
        f"--data {name} writes one"
    )


def test_a_study_takes_nothing_by_position():
    for given in ("study.toml", Path("study.toml"), SECTIONS, None):
        with pytest.raises(pv.StudyError, match=r"is not understood.*Study\.load reads a file"):
            pv.Study(given)
        with pytest.raises(pv.StudyError, match=r"Study\.load"):
            pv.Study(given, **SECTIONS)


@pytest.mark.parametrize(
    ("option", "written", "told"),
    [
        ("--target-rmse", "0,5", "'0,5' is not a number; a decimal has a point: 0.5"),
        ("--target-rmse", "abc", "'abc' is not a number; e.g. 0.5 or 1e-6"),
        ("--trajectories", "abc", "'abc' is not a whole number; it must be in digits, e.g. 10000"),
        (
            "--trajectories",
            "1e-4",
            "'1e-4' is not a whole number; it must be in digits, e.g. 10000",
        ),
        ("--draws", "1.5", "'1.5' is not a whole number; it must be in digits, e.g. 10000"),
    ],
)
def test_a_number_that_is_none_is_quoted(capsys, option, written, told):
    assert run(["plan", "study.toml", option, written]) == 2
    assert capsys.readouterr().err == f"privalue: Invalid value for '{option}': {told}\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1e4", 10_000), ("2E+3", 2000), ("-5", -5), ("1_000", 1000), ("10.0", 10), (7, 7)],
)
def test_a_whole_number_may_be_written_in_several_ways(written, meant):
    assert whole_number(written) == meant


def test_check_says_to_plan_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    assert run(["check", "study.toml"]) == 0
    assert "Next: privalue plan study.toml" in " ".join(capsys.readouterr().out.split())

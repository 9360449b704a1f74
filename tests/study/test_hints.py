"""Hints that help: near names, files by their names, numbers as they were written."""

from pathlib import Path

import pytest

import privalue as pv
from privalue.cli import run

SOURCE = Path(pv.__file__).parent
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


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (
            "[privacy]\nepsilom = 1.0",
            r"^\[privacy\] epsilom is not a key .* did you mean epsilon\?$",
        ),
        ("[states]\nxyzzy = 1", r"^\[states\] xyzzy is not a key of a study; known are count"),
        ("[mechanism]\nridge_scal = 1", r"did you mean ridge_scale\?$"),
        ("[mechanisms]", r"^\[mechanisms\] is not a section of a study; did you mean mechanism\?$"),
    ],
)
def test_near_names_are_found(written, told):
    section = written.split("\n")[0]
    text = STUDY.replace(section, written) if section in STUDY else STUDY + written
    with pytest.raises(pv.StudyError, match=told):
        pv.Study.parse(text)


def test_a_default_that_needs_the_number_of_trajectories_names_what_is_missing():
    study = pv.Study.parse(STUDY).replace(neighbours="add-remove", mechanism="dp-lsw", delta=1e-6)
    with pytest.raises(pv.StudyError, match=r"^\[study\] trajectories is missing: ") as caught:
        pv.release(study, ROWS)
    assert "[study] beta" not in str(caught.value)
    assert 'the default beta = "auto" of [mechanism] follows from it' in str(caught.value)


def test_a_file_is_named_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    assert run(["inspect", "study.toml", "--data", "threads=4.csv"]) == 3
    assert capsys.readouterr().err.startswith("privalue: threads=4.csv does not exist")


def test_a_study_takes_nothing_by_position():
    for given in ("study.toml", Path("study.toml"), {}, None):
        with pytest.raises(pv.StudyError, match=r"is not understood.*Study\.load reads a file"):
            pv.Study(given, states=3)


def test_check_says_to_plan_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    assert run(["check", "study.toml"]) == 0
    assert "Next: privalue plan study.toml" in " ".join(capsys.readouterr().out.split())

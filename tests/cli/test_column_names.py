"""``init --data``: columns by their names alone, and questions where names do not tell."""

import json
import tomllib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privalue as pv
from privalue.cli import run
from privalue.cli.column_names import ROLES, guess
from privalue.study import study_template

ANSWERS = {
    "count": "3",
    "rewards": "[0.0, 1.0]",
    "returns": "[0.0, 1.0]",
    "max_trajectories_per_person": "2",
    "unit": '"trajectory"',
}


def written(names):
    guessed = guess(names)
    return study_template(guessed.values, {**guessed.questions, **guessed.hints})


def answered(text, **more):
    """The file, with an answer in place of every question mark."""
    for key, answer in {**ANSWERS, **more}.items():
        text = text.replace(f'\n{key} = "?"', f"\n{key} = {answer}")
    return text


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (
            ["trajectory", "step", "state", "reward"],
            {"trajectory": "trajectory", "step": "step", "state": "state", "reward": "reward"},
        ),
        (
            ["STAY_ID", "Subject-ID", "t", "obs", "r", "action"],
            {
                **{"person": "Subject-ID", "trajectory": "STAY_ID"},
                **{"step": "t", "state": "obs", "reward": "r"},
            },
        ),
        (
            ["episode", "time", "observation", "rew"],
            {"trajectory": "episode", "step": "time", "state": "observation", "reward": "rew"},
        ),
        (
            ["PatientNumber", "visit_date", "ward", "score", "age"],
            {"person": "PatientNumber", "step": "visit_date", "state": "ward", "reward": "score"},
        ),
        (
            ["icustayid", "bloc", "state", "mortality_90d", "reward"],
            {"trajectory": "icustayid", "step": "bloc", "state": "state", "reward": "reward"},
        ),
        (
            ["id", "day", "s", "outcome"],
            {"trajectory": "id", "step": "day", "state": "s", "reward": "outcome"},
        ),
        # the better known of two wins
        (
            ["user", "session_id", "step", "timestamp", "state", "reward", "score"],
            {
                **{"person": "user", "trajectory": "session_id"},
                **{"step": "step", "state": "state", "reward": "reward"},
            },
        ),
        # a visit's number orders rows; its id tells visits apart
        (["patient", "visit", "state", "reward"], {"person": "patient", "step": "visit"}),
        (["visit_id", "day", "state", "reward"], {"trajectory": "visit_id", "step": "day"}),
    ],
)
def test_columns_are_known_by_names_that_look_alike(names, columns):
    found = guess(names).columns
    assert {role: found.get(role) for role in columns} == columns
    assert set(found) <= set(columns) | {"state", "reward"}


def test_what_is_not_known_or_known_twice_is_a_question():
    guessed = guess(["patient", "subject_id", "a", "b", "reward"])
    assert guessed.columns == {"reward": "reward"}
    assert "patient, subject_id" in guessed.questions["data", "person"]
    assert guessed.questions["data", "step"].endswith("? a, b")
    assert ("data", "state") in guessed.questions
    assert ("data", "trajectory") not in guessed.questions  # each person has one
    assert guessed.values["data", "person"] == '"?"'


def test_without_persons_the_study_asks_whom_to_protect():
    text = written(["episode", "t", "state", "reward"])
    assert '\n# ? whom does the promise protect? "trajectory": ' in text
    assert '\nunit = "?"' in text
    assert pv.Study.parse(answered(text)).privacy.unit == "trajectory"
    persons = answered(text, unit='"person"').replace('# person = "patient_id"', 'person = "who"')
    persons = persons.replace("# max_trajectories_per_person", "max_trajectories_per_person")
    assert pv.Study.parse(persons).privacy.unit == "person"


@pytest.mark.parametrize(
    "name",
    [
        *("Patienten-ID", "PatientenNr", "Patientennummer", "Proband", "Teilnehmer_ID"),
        *("id_patiente", "Numéro du patient", "sujet", "ID del paciente", "persona"),
    ],
)
def test_persons_are_known_in_other_languages(name):
    assert guess([name, "step", "state", "reward"]).columns["person"] == name
    assert guess([name, "step", "state", "reward"]).values["privacy", "unit"] == '"person"'


def test_an_encoding_that_was_tried_is_a_hint():
    guessed = guess(["patient", "t", "state", "reward"], "cp1252")
    assert guessed.values["data", "encoding"] == '"cp1252"'
    assert "read as cp1252" in guessed.hints["data", "encoding"]


def test_a_person_without_a_trajectory_column_has_one_trajectory():
    names = ["patient_id", "visit_date", "ward", "score"]
    text = written(names)
    assert '\nperson = "patient_id"' in text
    assert "\n# trajectory = " in text
    assert "\n# ? visit_date is taken as a date;" in text
    assert '\nstep_type = "date"' in text
    study = pv.Study.parse(answered(text))
    assert study.privacy.unit == "person"
    assert study.data.one_trajectory_per_person
    assert study.trajectories_per_person == 1


def test_persons_with_several_trajectories_are_asked_about():
    text = written(["subject_id", "stay_id", "t", "state", "reward"])
    assert '\nmax_trajectories_per_person = "?"' in text
    study = pv.Study.parse(answered(text))
    assert (study.data.person, study.data.trajectory) == ("subject_id", "stay_id")
    assert study.trajectories_per_person == 2


KNOWN = [
    "patient",
    "Patient ID",
    "stay",
    "t",
    "date",
    "state",
    "reward",
    "id",
    "s",
    "person",
    "Step",
]


@given(st.lists(st.sampled_from(KNOWN) | st.text(min_size=1, max_size=8), max_size=9))
def test_whatever_the_names_the_file_parses_and_loads_once_it_is_answered(names):
    guessed = guess(names)
    assert len(set(guessed.columns.values())) == len(guessed.columns)
    assert set(guessed.columns.values()) <= set(names)
    assert set(guessed.columns) <= set(ROLES)
    text = written(names)
    sections = tomllib.loads(text)
    asked = {(s, k) for s, keys in sections.items() for k, v in keys.items() if v == "?"}
    assert asked == set(guessed.questions)
    for role, name in guessed.columns.items():
        assert sections["data"][role] == name
    with pytest.raises(pv.StudyError, match="question"):
        pv.Study.parse(text)
    study = pv.Study.parse(answered(text, **{role: f'"column of {role}"' for role in ROLES}))
    for role, name in guessed.columns.items():
        assert getattr(study.data, role) == name


# The command


def test_check_says_what_is_left_to_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("patient,date,ward,points\n")
    assert run(["init", "study.toml", "--data", "rows.csv"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = [line.split() for line in printed.out.splitlines()]
    for pair in (["person", "patient"], ["step", "date"], ["state", "ward"]):
        assert pair in lines
    assert "[data] reward: which column holds the reward? points" in printed.out
    assert run(["check", "study.toml"]) == 3
    assert capsys.readouterr().err == (
        "privalue: study.toml: 4 question(s) are left: [values] returns, [values] rewards, "
        '[states] count, [data] reward; write the answer in place of "?"\n'
    )
    text = answered(Path("study.toml").read_text(), reward='"points"')
    Path("study.toml").write_text(text.replace("# trajectories = ", "trajectories = "))
    assert run(["check", "study.toml"]) == 0


def test_the_guesses_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("patient;day;state;reward;age\n")
    assert run(["init", "--data", "rows.csv", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["study"] == "study.toml"
    assert printed["columns"] == {
        **{"person": "patient", "step": "day"},
        **{"state": "state", "reward": "reward"},
    }
    assert set(printed["questions"]) == {"[states] count", "[values] rewards", "[values] returns"}


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "duckdb"])
def test_names_come_from_a_heading_or_a_schema_and_no_row_is_read(
    tmp_path, monkeypatch, capsys, kind
):
    """Rows that nobody could read as a table of ours make no difference."""
    monkeypatch.chdir(tmp_path)
    names, file = ["stay", "t", "obs", "r"], f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({name: ["rubbish"] for name in names}), file)
    elif kind == "duckdb":
        with duckdb.connect(file) as connection:
            connection.execute("CREATE TABLE rows (stay TEXT, t TEXT, obs TEXT, r TEXT)")
    else:
        mark = "," if kind == "csv" else "\t"
        Path(file).write_text(mark.join(names) + '\n"rubbish\n\x00\n')
    assert run(["init", "--data", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["columns"]
    assert list(found.values()) == names


def test_the_heading_of_an_export_that_is_not_utf_8_is_read_as_cp1252(
    tmp_path, monkeypatch, capsys
):
    """The rows have no say: they may be in no encoding at all."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_bytes("Patienten-ID;Tag;Größe;state;reward\n".encode("cp1252") + b"\x81")
    assert run(["init", "--data", "rows.csv"]) == 0
    assert "[data] encoding: the heading is not UTF-8" in capsys.readouterr().out
    text = Path("study.toml").read_text(encoding="utf-8")
    assert "\n# ? the heading is not UTF-8, and was read as cp1252" in text
    assert '\nencoding = "cp1252"' in text
    study = pv.Study.parse(answered(text, step='"Tag"'))
    assert (study.data.encoding, study.data.person) == ("cp1252", "Patienten-ID")


def test_a_heading_in_neither_encoding_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_bytes(b"patient;\x81;state\n")
    assert run(["init", "--data", "rows.csv"]) == 3
    assert "is neither utf-8 nor cp1252; save it as utf-8" in capsys.readouterr().err
    assert not Path("study.toml").exists()


def test_nothing_is_written_where_there_is_no_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--data", "nowhere.csv"]) == 3
    assert "nowhere.csv does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_of_two_columns_that_look_like_steps_one_may_be_the_trajectory():
    questions = guess(["visit", "t", "page", "bought"]).questions
    assert questions["data", "trajectory"].endswith("? visit, t, page, bought")
    assert questions["data", "step"].endswith("? visit, t")
    assert questions["data", "state"].endswith("? page, bought")

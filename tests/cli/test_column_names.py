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
from oracles.refusals import refused
from privalue.cli import run
from privalue.cli.column_names import ROLES, guess
from privalue.study import study_template

ANSWERS = {
    "count": "3",
    "rewards": "[0.0, 1.0]",
    "returns": "[0.0, 1.0]",
    "max_trajectories_per_person": "2",
    "unit": '"trajectory"',
    "truncated_rows": '"keep"',
}


def write_study(names):
    guessed = guess(names)
    return study_template(guessed.values, {**guessed.questions, **guessed.hints})


def answer_all(text, **more):
    """The file, with an answer in place of every question mark."""
    for key, answer in {**ANSWERS, **more}.items():
        text = text.replace(f'\n{key} = "?"', f"\n{key} = {answer}")
    return text


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (
            ["STAY_ID", "Subject-ID", "t", "obs", "r", "action", "cut"],
            {
                **{"person": "Subject-ID", "trajectory": "STAY_ID"},
                **{"step": "t", "state": "obs", "reward": "r", "truncated": "cut"},
            },
        ),
        (["user", "step", "timestamp"], {"person": "user", "step": "step"}),
        # a visit's number orders rows; its id tells visits apart
        (["patient", "visit", "state", "reward"], {"person": "patient", "step": "visit"}),
    ],
)
def test_columns_are_known_by_names_that_look_alike(names, columns):
    guesses = guess(names).columns
    assert {role: guesses.get(role) for role in columns} == columns
    assert set(guesses) <= set(columns) | {"state", "reward"}


KNOWN = ["patient", "Patient ID", "stay", "t", "date", "state", "reward", "id", "cut", "Cut"]


@given(st.lists(st.sampled_from(KNOWN) | st.text(min_size=1, max_size=8), max_size=9))
def test_with_any_names_the_file_parses_and_loads_once_it_is_answered(names):
    guessed = guess(names)
    assert len(set(guessed.columns.values())) == len(guessed.columns)
    assert set(guessed.columns.values()) <= set(names)
    assert set(guessed.columns) <= set(ROLES)
    text = write_study(names)
    sections = tomllib.loads(text)
    questions = {(s, k) for s, keys in sections.items() for k, v in keys.items() if v == "?"}
    assert questions == set(guessed.questions)
    for role, name in guessed.columns.items():
        assert sections["data"][role] == name
    with refused("questions-left"):
        pv.Study.parse(text)
    study = pv.Study.parse(answer_all(text, **{role: f'"column of {role}"' for role in ROLES}))
    for role, name in guessed.columns.items():
        assert getattr(study.data, role) == name


# The command


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "duckdb"])
def test_names_come_from_a_heading_or_a_schema_and_no_row_is_read(
    tmp_path, monkeypatch, capsys, kind
):
    """Rows that cannot be read as a table make no difference."""
    monkeypatch.chdir(tmp_path)
    names, file = ["stay", "t", "obs", "r"], f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({name: ["rubbish"] for name in names}), file)
    elif kind == "duckdb":
        with duckdb.connect(file) as connection:
            connection.execute("CREATE TABLE rows (stay TEXT, t TEXT, obs TEXT, r TEXT)")
    else:
        mark, names[2] = ";" if kind == "csv" else "\t", "état"
        Path(file).write_bytes((mark.join(names) + '\n"deceased\n\x00\n').encode("cp1252"))
    assert run(["init", "--data", file, "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert [columns[role] for role in ("trajectory", "step", "reward")] == [names[0], names[1], "r"]
    sections = tomllib.loads(Path("study.toml").read_text())
    if kind in ("csv", "tsv"):  # and what the heading shows is kept
        assert (sections["data"]["delimiter"], sections["data"]["encoding"]) == (mark, "cp1252")
    assert "ends" not in sections["states"]  # it asks, and names none
    assert "état" not in Path("study.toml").read_text()  # without a heading it would be a cell

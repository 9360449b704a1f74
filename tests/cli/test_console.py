"""Control characters in files are never sent to a terminal."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privalue.cli import run

ORDERS = "well\x1b[2J\x9b31m\x07\u202eevil\u2066\r\x7f"
CONTROLS = set("\x1b\x9b\x07\u202e\u2066\r\x7f")


@pytest.fixture
def hostile(tmp_path):
    """A study and rows whose labels, columns and names hold orders to a terminal."""
    label = ORDERS.encode("unicode_escape").decode().replace("\\x", "\\u00")
    study = tmp_path / "study.toml"
    study.write_text(
        f'[study]\nname = "a {label}"\ndataset = "people"\ntrajectories = 200\n'
        '[privacy]\nepsilon = 1.0\ndelta = 1e-6\nunit = "trajectory"\n[values]\ndiscount = 0.9\n'
        f'rewards = [0.0, 1.0]\n[states]\nlabels = ["{label}", "=1+1"]\n'
    )
    rows = pa.table(
        {
            "trajectory": range(200),
            "step": [0] * 200,
            "state": [ORDERS, "=1+1"] * 100,
            "reward": [0.5] * 200,
            f"more {ORDERS}": [0] * 200,
        }
    )
    pq.write_table(rows, tmp_path / "rows.parquet")
    return tmp_path


def test_no_command_sends_a_terminal_what_files_say_to_it(hostile, capfd, monkeypatch):
    monkeypatch.chdir(hostile)
    study, data, ledger = "study.toml", ["--data", "rows.parquet"], ["--ledger", "ledger.db"]
    budget = ["--epsilon", "9", "--delta", "1e-3", "--unit", "trajectory"]
    release = ["release", study, *data, "--accept-useless", "--out"]
    for code, arguments in (
        (0, ["check", study]),
        (0, ["plan", study]),
        (0, ["inspect", study, *data]),
        (0, ["inspect", study, *data, "--json"]),
        (0, [*release, "out", "--no-ledger"]),
        (0, [*release, "more", "--no-ledger", "--json"]),
        (3, ["release", study, "--data", f"{ORDERS}.csv", "--out", "none", "--no-ledger"]),
        (0, ["refit", "out", "--tabular", "--out", "refitted"]),
        (0, ["report", "out", "--force"]),
        (0, ["ledger", "declare", "people", *budget, *ledger]),
        (0, [*release, "kept", *ledger]),
        (0, ["ledger", "show", *ledger]),
        (0, ["init", "new.toml", *data]),
        (3, ["check", f"{ORDERS}.toml"]),
    ):
        assert run(arguments) == code, capfd.readouterr().err
        for text in capfd.readouterr():
            assert not set(text) & CONTROLS, (arguments, text)
    record = json.loads((hostile / "out" / "release.json").read_text(encoding="utf-8"))
    assert record["tables"]["values"]["state"][0] == ORDERS
    page = (hostile / "out" / "report.html").read_text(encoding="utf-8")
    assert not set(page) & set("\x1b\x9b\x07\x7f")
    assert page.count("<bdi>") >= page.count("\u202e") > 0  # it ends where the label ends

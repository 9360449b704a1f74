"""What the command line shows while it works."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from privalue.cli import _console as console
from privalue.cli._app import run


def shown(done, total, seconds):
    """The columns after so many seconds at a steady pace."""
    now = [0.0]
    bar = Progress(
        *(console._Count("{task.completed:,}"), TimeRemainingColumn()),
        console=Console(file=io.StringIO(), force_terminal=True),
        get_time=lambda: now[0],
        auto_refresh=False,
    )
    task = bar.add_task("Reading rows", total=total)
    for tenth in range(1, 11):
        now[0] = seconds * tenth / 10
        bar.update(task, completed=done * tenth // 10)
    return [str(column.render(bar.tasks[0])) for column in bar.columns]


def test_progress_tells_rate_and_time_left():
    count, left = shown(30_000_000, 120_000_000, 10.0)
    assert count.startswith("30,000,000/120,000,000, 3.")
    assert count.endswith(" million a second")
    assert left == "0:00:30"


def test_what_is_slow_or_unknown_is_counted_only():
    assert shown(7, 10, 10.0)[0] == "7/10"
    assert shown(0, None, 1.0)[0] == ""
    assert shown(2_000_000, None, 1.0)[0].startswith("2,000,000, ")


def test_what_goes_on_when_all_is_counted_is_said(monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(console, "log", screen)
    with console.progress("Reading rows", then="Computing") as update:
        update(10, 100)
        update(100, 100)
    assert "Computing" in screen.file.getvalue()


def test_nothing_is_printed_where_nobody_looks(monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=False)
    monkeypatch.setattr(console, "log", screen)
    with console.progress("Reading rows") as update:
        update(10, 100)
    assert screen.file.getvalue() == ""


# What files say is shown, and never obeyed

ORDERS = "well\x1b[2J\x9b31m\x07\u202eevil\u2066\r\x7f"


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
    for code, arguments in (
        (0, ["check", study]),
        (0, ["plan", study]),
        (0, ["inspect", study, *data]),
        (0, ["inspect", study, *data, "--json"]),
        (0, ["release", study, *data, "--out", "out", "--no-ledger", "--accept-useless"]),
        (
            0,
            ["release", study, *data, "--out", "more", "--no-ledger", "--accept-useless", "--json"],
        ),
        (3, ["release", study, "--data", f"{ORDERS}.csv", "--out", "none", "--no-ledger"]),
        (0, ["refit", "out", "--tabular", "--out", "refitted"]),
        (0, ["report", "out", "--force"]),
        (0, ["ledger", "declare", "people", *budget, *ledger]),
        (0, ["release", study, *data, "--out", "kept", *ledger, "--accept-useless"]),
        (0, ["ledger", "show", *ledger]),
        (0, ["init", "new.toml", *data]),
        (3, ["check", f"{ORDERS}.toml"]),
    ):
        assert run(arguments) == code, capfd.readouterr().err
        for text in capfd.readouterr():
            assert not console._ORDERS.search(text), (arguments, text)
    released = json.loads((hostile / "out" / "release.json").read_text(encoding="utf-8"))
    assert released["tables"]["values"]["state"][0] == ORDERS
    page = (hostile / "out" / "report.html").read_text(encoding="utf-8")
    assert not set(page) & set("\x1b\x9b\x07\x7f")
    assert page.count("<bdi>") >= page.count("\u202e") > 0  # it ends where the label ends
    table = (hostile / "out" / "values.csv").read_text(encoding="utf-8")
    assert '\n"\'=1+1",' in table


def test_the_json_of_a_release_means_the_same_on_a_terminal(capfd):
    text = json.dumps({"state": ORDERS, "more": "ü"}, ensure_ascii=False)
    console.print_release_json([text[:5], text[5:]])
    printed = capfd.readouterr().out
    assert not console._ORDERS.search(printed)
    assert json.loads(printed) == {"state": ORDERS, "more": "ü"}

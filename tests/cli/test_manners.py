"""The command line's manners: what jobs read, what shells complete, what help says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import privalue
from privalue.cli._app import COMMANDS, app, run

ROOT = Path(__file__).parents[2]
STUDY = """
[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
[values]
discount = 0.99
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
[states]
count = 5
[mechanism]
name = "dp-ssp"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert run(["simulate", "chain:N=5", "--trajectories", "3000", "--out", "rows.csv", "-q"]) == 0
    capsys.readouterr()
    return tmp_path


RELEASE = ["release", "study.toml", "--data", "rows.csv", "--no-ledger", "--out"]


def logged(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def started(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "privalue", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_runs_as_a_module_and_has_a_short_version():
    done = started("-V")
    assert (done.returncode, done.stdout) == (0, f"privalue {privalue.__version__}\n")
    assert done.stderr == ""


@pytest.mark.parametrize("words", [["--quiet", *RELEASE, "r"], [*RELEASE, "r", "-q"]])
def test_quiet_leaves_stderr_empty(folder, capsys, words):
    assert run(words) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "Released values" in printed.out
    assert run(words) == 2
    assert capsys.readouterr().err.startswith("privalue: r/release.json exists")


def test_quiet_is_for_one_command_only(folder, capsys):
    assert run(["--quiet", *RELEASE, "r"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*RELEASE, "s"]) == 0
    assert capsys.readouterr().err.startswith("Wrote s/release.json\nWrote s/values.csv, ")


def test_quiet_or_not_what_is_private_says_so(folder, capsys):
    assert run(["--quiet", "inspect", "study.toml", "--data", "rows.csv", "--json"]) == 0
    said = capsys.readouterr().err
    assert said == "PRIVATE: for the curator only. None of this may be published.\n"


def test_talk_is_a_json_object_a_line(folder, capsys):
    assert run(["--log-format", "json", *RELEASE, "r"]) == 0
    assert logged(capsys) == [
        {"level": "info", "message": "Wrote r/release.json"},
        {"level": "info", "message": "Wrote r/values.csv, r/registry.yaml, r/report.html"},
    ]
    assert run(["inspect", "study.toml", "--data", "rows.csv", "--log-format=json"]) == 0
    (line,) = logged(capsys)
    assert line["level"] == "warning"
    assert line["message"].startswith("PRIVATE: for the curator only.")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nonsense", "--log-format", "json"], 2),
        (["check", "--log-format", "json"], 2),
        (["check", "nowhere.toml", "--log-format", "json"], 3),
        (["check", "nowhere.toml", "--log-format", "json", "--quiet"], 3),
    ],
)
def test_an_error_is_an_object_with_its_exit_code(folder, capsys, words, code):
    assert run(words) == code
    (line,) = logged(capsys)
    assert (line["level"], line["exit_code"]) == ("error", code)
    assert line["message"]
    assert set(line) == {"level", "message", "exit_code"}


def test_a_traceback_stays_inside_the_object(folder, capsys):
    assert run(["check", "nowhere.toml", "--log-format", "json", "--debug"]) == 3
    (line,) = logged(capsys)
    assert "Traceback" in line["traceback"]


def test_tables_and_long_lines_are_one_message_each(folder, capsys):
    deep = "/".join(["a-folder-with-a-long-name"] * 6)
    assert run(["demo", "--json", "--log-format", "json", "--out", deep]) == 0
    lines = logged(capsys)
    assert {line["level"] for line in lines} == {"info"}
    assert lines[0]["message"].endswith(f"{deep}/curator/trajectories.parquet")
    (table,) = [line["message"] for line in lines if "complete and valid" in line["message"]]
    assert table.count("\n") > 5


def test_what_libraries_warn_of_is_logged_like_the_rest(folder):
    program = (
        "import sys, warnings, logging\n"
        "import privalue.cli._app as cli, privalue.cli._check as check\n"
        "def warned(_): warnings.warn('in\\ntwo lines'); logging.getLogger('far').warning('off')\n"
        "check.checked = warned\n"
        "cli.main()"
    )
    words = ["check", str(folder / "study.toml"), "--log-format", "json"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    *warned, error = (json.loads(line) for line in done.stderr.splitlines())
    assert [line["level"] for line in warned] == ["warning", "warning"]
    assert "UserWarning: in two lines" in warned[0]["message"]
    assert warned[1]["message"] == "far: off"
    assert error["exit_code"] == 70


def test_help_lists_commands_in_the_order_of_work(capsys):
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    listed = text.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    assert not any(line.endswith("...") for line in listed)
    group = typer.main.get_command(app)
    for name, told in COMMANDS.items():
        assert group.get_command(None, name).help.splitlines()[0] == told
    assert group.get_command(None, "relaese") is None
    assert "Documentation: docs/README.md" in text
    assert (ROOT / "docs" / "README.md").exists()


def test_the_example_of_the_help_runs(folder, capsys):
    run(["--help"])
    example = capsys.readouterr().out.partition("Example:\n")[2].partition("\n\n")[0].splitlines()
    assert len(example) == 4
    Path("study.toml").unlink()
    for line in example:
        words = line.strip().partition("  ")[0].split()
        assert words[0] == "privalue"
        if words[1] == "release":
            Path("study.toml").write_text(STUDY)  # edited, as it says
        assert run(words[1:]) == 0, line


def test_a_shell_completes_commands_and_options():
    done = started(COMP_WORDS="privalue re", COMP_CWORD="1", _PRIVALUE_COMPLETE="complete_bash")
    assert set(done.stdout.split()) == {"release", "report", "refit", "reproduce"}
    done = started(
        COMP_WORDS="privalue release --no", COMP_CWORD="2", _PRIVALUE_COMPLETE="complete_bash"
    )
    assert "--no-ledger" in done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_shell_that_asks_is_told_how():
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m privalue --show-completion; true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "complete -o default -F _privalue_completion privalue" in done.stdout


def test_what_is_probably_not_meant_is_a_warning_of_the_log(folder, capsys):
    (folder / "study.toml").write_text(STUDY.replace("1e-6", "1e-4"))
    assert run([*RELEASE, "r", "--log-format", "json"]) == 0
    warned = [line["message"] for line in logged(capsys) if line["level"] == "warning"]
    assert len(warned) == 1
    assert warned[0].startswith("Note: ")
    assert run([*RELEASE, "s", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["relase"], "did you mean release?"),
        (["Release"], "did you mean release?"),
        (["chek"], "did you mean check?"),
        (["help"], "privalue --help lists them"),
        (["ledger", "shwo"], "did you mean show?"),
        (["ledger", "xyz"], "privalue ledger --help lists them"),
    ],
)
def test_a_command_that_is_none_is_answered_with_one_that_is(words, told, capsys):
    assert run(words) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [["-h"], ["check", "-h"], ["ledger", "show", "-h"]])
def test_h_is_help(words, capsys):
    assert run(words) == 0
    assert capsys.readouterr().out.startswith("Usage: privalue")


def test_a_hint_about_globs_is_for_commands_that_take_data(folder, capsys):
    assert run(["check", "a.toml", "b.toml"]) == 2
    assert "glob" not in capsys.readouterr().err
    assert run(["inspect", "a.toml", "b.toml", "--data", "x"]) == 2
    assert "glob" in capsys.readouterr().err


def test_numbers_of_a_total_are_quoted_where_they_are_none(folder, capsys):
    words = ["ledger", "declare", "x", "--delta", "1e-6", "--unit", "person", "--epsilon", "0,5"]
    assert run(words) == 2
    assert "'0,5' is not a number; a decimal has a point: 0.5" in capsys.readouterr().err

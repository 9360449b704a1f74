"""Nothing is loaded before it is used: what each command imports, counted in a real process."""

import json
import subprocess
import sys

import pytest

import privalue as pv
from privalue.cli import run

HEAVY = ("matplotlib", "duckdb", "pandas", "scipy.stats", "scipy.optimize")
ROOMS = ("planning", "report", "simulation", "paper", "readers", "estimate", "ledger", "core")
PROGRAM = """
import json, sys
from privalue.cli import run
code = run(sys.argv[1:])
sys.stdout.flush()
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def loaded(folder, program, *words):
    """What a fresh process has imported after all, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


def among(modules, names):
    return {name for name in names if name in modules}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    rows = [f"{at},{step},{step},{step}" for at in range(3000) for step in range(2)]
    (folder / "rows.csv").write_text("\n".join(["trajectory,step,state,reward", *rows]) + "\n")
    (folder / "study.toml").write_text(
        '[study]\ndataset = "people"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n'
        'unit = "trajectory"\n[values]\ndiscount = 0.9\nrewards = [0.0, 1.0]\n'
        "returns = [0.0, 1.0]\n[states]\ncount = 2\n"
    )
    pv.open_ledger(folder / "ledger.db").declare("people", epsilon=9, delta=0.1, unit="trajectory")
    study = pv.Study.load(folder / "study.toml")
    pv.publish(pv.release(study, folder / "rows.csv"), folder / "one", study=study)
    return folder


def test_importing_the_package_loads_no_room(tmp_path):
    program = "import json, sys, privalue; print(json.dumps([0, sorted(sys.modules)]))"
    modules = loaded(tmp_path, program)
    assert not among(modules, (*HEAVY, "numpy", "pyarrow", "scipy", "pydantic"))
    assert not among(modules, [f"privalue.{room}" for room in ROOMS])


def test_using_every_name_compiles_and_draws_nothing(tmp_path):
    program = (
        "from privalue import *\nimport json, sys\nprint(json.dumps([0, sorted(sys.modules)]))"
    )
    assert not among(loaded(tmp_path, program), HEAVY)


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_the_program_itself_is_typer_and_nothing_else(tmp_path, words):
    modules = loaded(tmp_path, PROGRAM, *words)
    assert not among(modules, (*HEAVY, "numpy", "pyarrow", "scipy", "pydantic", "rich.console"))
    ours = {name for name in modules if name.startswith("privalue.")}
    assert ours == {
        "privalue.cli",
        "privalue.cli.app",
        "privalue.errors",
        "privalue.version",
    }


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["init", "new.toml", "--force"], set()),
        (["check", "study.toml"], set()),
        (["plan", "study.toml", "--trajectories", "3000"], set()),
        (["ledger", "show", "people"], set()),
        (["ledger", "verify"], set()),
        # Arrow looks for pandas when it makes its first array
        (["inspect", "study.toml", "--data", "rows.csv"], {"pandas"}),
        (
            ["release", "study.toml", "--data", "rows.csv", "--no-ledger", "--out", "two"],
            {"pandas"},
        ),
        (
            ["release", "study.toml", "--data", "rows.csv", "--out", "new", "--no-report"],
            {"pandas"},
        ),
        (["report", "one", "--force"], set()),
        (["refit", "one", "--aggregate", "2", "--out", "three"], set()),
        (
            ["simulate", "chain:N=5", "--trajectories", "9", "--out", "made.csv"],
            {"pandas"},
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_loads_what_it_uses(folder, words, heavy, monkeypatch):
    monkeypatch.setenv("PRIVALUE_LEDGER", str(folder / "ledger.db"))
    modules = loaded(folder, PROGRAM, *words)
    assert among(modules, HEAVY) == heavy
    if words[0] != "reproduce":
        assert "privalue.paper" not in modules


def test_a_page_that_cannot_be_made_ends_a_release_before_its_charge(
    folder, tmp_path, monkeypatch, capsys
):
    def broken():
        raise ImportError("half an installation")

    monkeypatch.setattr("privalue.cli.release_commands.load_page", broken)
    ledger = str(tmp_path / "ledger.db")
    pv.open_ledger(ledger).declare("people", epsilon=9, delta=0.1, unit="trajectory")
    words = ["release", str(folder / "study.toml"), "--data", str(folder / "rows.csv")]
    assert run([*words, "--ledger", ledger, "--out", str(tmp_path / "out")]) == 70
    assert "charged" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    account = pv.open_ledger(ledger).account("people")
    assert account.spent.epsilon == 0


def test_nothing_of_ours_is_imported_after_the_charge(folder, tmp_path):
    program = (
        "import json, sys\n"
        "from privalue.cli import run\n"
        "from privalue.ledger import Ledger\n"
        "charge, known = Ledger.charge, []\n"
        "def watched(self, *given, **named):\n"
        "    known.append(set(sys.modules))\n"
        "    return charge(self, *given, **named)\n"
        "Ledger.charge = watched\n"
        "code = run(sys.argv[1:])\n"
        "late = {name for name in set(sys.modules) - known[0] if name.startswith('privalue')}\n"
        "assert not late, late\n"
        "print('\\n' + json.dumps([code, sorted(sys.modules)]))"
    )
    ledger = str(tmp_path / "ledger.db")
    pv.open_ledger(ledger).declare("people", epsilon=9, delta=0.1, unit="trajectory")
    words = ["release", "study.toml", "--data", "rows.csv", "--ledger", ledger, "--out"]
    modules = loaded(folder, program, *words, str(tmp_path / "out"))
    assert "privalue.report" in modules


def test_without_a_report_there_is_no_page_and_it_can_be_made_later(folder, tmp_path):
    words = ["release", str(folder / "study.toml"), "--data", str(folder / "rows.csv")]
    assert run([*words, "--no-ledger", "--no-report", "--out", str(tmp_path / "out")]) == 0
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert made == ["registry.yaml", "release.json", "values.csv"]
    assert run(["report", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.html").exists()
    assert run(["report", str(tmp_path / "out")]) == 2  # it is there now

"""Everything that a release needs is loaded before its charge, in a real process."""

import json
import subprocess
import sys

import pytest

import privalue as pv
from oracles.studies import study_file
from privalue.cli import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    rows = [f"{at},{step},{step},{step}" for at in range(3000) for step in range(2)]
    (folder / "rows.csv").write_text("\n".join(["trajectory,step,state,reward", *rows]) + "\n")
    sections = {"study": {"dataset": "people"}, "values": {"returns": [0.0, 1.0]}}
    (folder / "study.toml").write_text(study_file(**sections, states={"count": 2}))
    return folder


def test_a_page_that_cannot_be_made_ends_a_release_before_its_charge(folder, tmp_path, monkeypatch):
    def broken():
        raise ImportError("half an installation")

    monkeypatch.setattr("privalue.cli.release_commands.load_page", broken)
    ledger = str(tmp_path / "ledger.db")
    pv.open_ledger(ledger).declare("people", epsilon=9, delta=0.1, unit="trajectory")
    words = ["release", str(folder / "study.toml"), "--data", str(folder / "rows.csv")]
    assert run([*words, "--ledger", ledger, "--out", str(tmp_path / "out")]) == 70
    assert not (tmp_path / "out").exists()
    assert pv.open_ledger(ledger).account("people").spent.epsilon == 0


def test_the_package_imports_nothing_after_the_charge(folder, tmp_path):
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
    process = subprocess.run(
        [sys.executable, "-c", program, *words, str(tmp_path / "out")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(process.stdout.splitlines()[-1])
    assert code == 0, process.stderr
    assert "privalue.report" in modules

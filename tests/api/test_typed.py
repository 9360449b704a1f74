"""Type checkers know the package: examples and a user's project are clean, mistakes are found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import privalue

ROOT = Path(__file__).parents[2]
SOURCE = Path(privalue.__file__).parent
PROJECT = [ROOT / "examples", Path(__file__).parent / "project"]
WRONG = """\
import privalue as pv

study = pv.Study.load("study.toml")
pv.release(study, "rows.csv", leger=None)
release = pv.Release.load("released")
print(release.value + "one")
print(release["ill"].total_lwo)
print(release.plott())
"""


@pytest.fixture
def project(tmp_path):
    """The folders of a user, and one file with mistakes in lines 4, 6, 7 and 8."""
    (tmp_path / "wrong.py").write_text(WRONG)
    return [*PROJECT, tmp_path / "wrong.py"]


def found(name, complaints):
    """Return the lines of the file of mistakes; there must be no complaint elsewhere."""
    elsewhere = [each for each in complaints if not each[0].endswith("wrong.py")]
    assert elsewhere == [], name
    return {line for _, line, _ in complaints}


def test_the_package_says_that_it_is_typed():
    assert (SOURCE / "py.typed").is_file()


def test_mypy_finds_the_mistakes_and_nothing_else(project):
    """With our own settings, which are strict: what it has read of the package it reads once."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", *project],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MYPYPATH": ""},
    )
    lines = [line.split(":", 3) for line in done.stdout.splitlines() if ": error:" in line]
    assert not done.stderr
    told = [(file, int(line), text) for file, line, *text in lines]
    assert found("mypy", told) == {4, 6, 7, 8}


def test_basedpyright_finds_the_mistakes_and_nothing_else(project, tmp_path):
    settings = {
        "include": [str(part) for part in project],
        "extraPaths": [str(SOURCE.parent)],
        "typeCheckingMode": "standard",
        "useLibraryCodeForTypes": False,  # other libraries without types are not gone through
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson", "--project", tmp_path),
            *("--pythonpath", sys.executable),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [
        (each["file"], each["range"]["start"]["line"] + 1, each["message"])
        for each in json.loads(done.stdout)["generalDiagnostics"]
        if each["severity"] == "error"
    ]
    assert found("basedpyright", told) == {4, 6, 7, 8}

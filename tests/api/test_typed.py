"""Type checkers know the package: examples and a user's project are clean, mistakes are found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
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

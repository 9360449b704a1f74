"""Every example runs in its quick mode, as a user would start it, and says what it measured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# The errors that a quick run must stay below, and what a constant would get.
CHECKS = {
    "clinic": lambda found: found["rmse"] < found["constant"],
    "frozen_lake": lambda found: found["rmse"] < 0.4 and found["episodes"] == 200,
    # The interval holds the truth by more than chance: it has a bound of what people's choice does.
    "recommender": lambda found: (
        found["low"] - 0.05 < found["true"] < found["high"] + 0.05
        and abs(found["released"] - found["clipped SNIPS"]) < 0.2
    ),
}


def test_every_example_has_a_check_and_a_section_in_the_docs():
    page = (ROOT / "docs" / "worlds.md").read_text(encoding="utf-8")
    assert {example.stem for example in EXAMPLES} == set(CHECKS)
    for example in EXAMPLES:
        assert f"examples/{example.name}" in page


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs(example, tmp_path):
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, str(example), "--out", str(out), "--quick"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100", "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert CHECKS[example.stem](json.loads((out / "result.json").read_text()))

"""Every example runs, as a user would start it, and says what it measured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The errors that a run must stay below, and what a constant would get. The noise is real: the
# clinic's error was .009 with a standard deviation of .0023 in 200 runs, a constant's is .057.
CHECKS = {
    "clinic": lambda result: result["rmse"] < result["constant"],
    "frozen_lake": lambda result: result["rmse"] < 0.4 and result["episodes"] == 200,
    # The interval holds the truth by more than chance: it has a bound of what people's choice does.
    "recommender": lambda result: (
        result["low"] - 0.05 < result["true"] < result["high"] + 0.05
        and abs(result["released"] - result["clipped SNIPS"]) < 0.2
    ),
}


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path.stem, marks=() if path.stem == "clinic" else pytest.mark.long)
        for path in sorted((ROOT / "examples").glob("*.py"))
    ],
)
def test_an_example_runs(example, tmp_path):
    out = tmp_path / "out"
    quick = [] if example == "clinic" else ["--quick"]
    process = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{example}.py", "--out", str(out), *quick],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100", "MPLBACKEND": "agg"},
    )
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    assert CHECKS[example](json.loads((out / "result.json").read_text()))

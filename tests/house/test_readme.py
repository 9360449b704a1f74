"""README's shell block, literally, as a stranger would paste it into an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy import stats

import privalue as pv
from privalue.simulation import parse_world

ROOT = Path(__file__).parents[2]


def test_the_commands_give_accurate_values_within_their_intervals(tmp_path):
    section = (ROOT / "README.md").read_text().partition("## On the command line")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]
    (tmp_path / ".venv").symlink_to(sys.prefix)
    process = subprocess.run(
        ["sh", "-e", "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "Note:" not in process.stderr  # nothing in it is probably not meant
    names = {path.name for path in (tmp_path / "released").iterdir()}
    assert names == {"release.json", "report.html", "registry.yaml", "values.csv"}
    release = pv.Release.load(tmp_path / "released")
    assert release.accepted == []
    require_far_better_than_guessing(release)
    study = pv.Study.load(tmp_path / "study.toml")
    without_noise = pv.inspect(study, tmp_path / "trial.parquet").private_columns()["values"]
    require_intervals_that_keep_their_promise(release, without_noise)


def require_far_better_than_guessing(release):
    """Of two thousand such releases the worst was 12 times closer to the truth than guessing."""
    truth = parse_world("chain").process.values
    values = np.array([entry.value for entry in release.values])

    def error(guess):
        return float(np.sqrt(np.mean(np.square(guess - truth))))

    assert 5 * error(values) <= error((truth.min() + truth.max()) / 2)


def require_intervals_that_keep_their_promise(release, without_noise):
    """They cover what would have been released without noise, each with probability 0.95."""
    covered = [
        entry.low <= value <= entry.high
        for entry, value in zip(release.values, without_noise, strict=True)
    ]
    most_misses = stats.binom.ppf(1 - 1e-7, len(covered), 1 - release.level)
    assert len(covered) - sum(covered) <= most_misses
    widths = [entry.high - entry.low for entry in release.values]
    assert np.median(widths) < 0.2  # and they say something

"""A statistician's own file: semicolons, decimal commas, dates, a mark of bytes, no trajectories.

From ``init`` to ``report.html`` in four commands, and not one error.
"""

import json
import random
import subprocess
import sys
from datetime import date, timedelta

import numpy as np
import pytest

import privalue as pv

STATES = ["ill", "better", "well"]
REWARDS = {"ill": 0.0, "better": 0.025, "well": 0.1}
DISCOUNT = 0.9


def walks(count, seed):
    """A row a day: state by state, to the right more often than not."""
    draw = random.Random(seed)
    for _ in range(count):
        at = draw.randrange(3)
        days = []
        for _ in range(draw.randrange(2, 9)):
            days.append(STATES[at])
            at = min(2, max(0, at + draw.choice([-1, 0, 1, 1])))
        yield days


def truth(days_of_all):
    """The mean first-visit return of every state, from the definition."""
    found = {state: [] for state in STATES}
    for days in days_of_all:
        for state in set(days):
            after = days[days.index(state) :]
            found[state].append(sum(DISCOUNT**t * REWARDS[s] for t, s in enumerate(after)))
    return [float(np.mean(found[state])) for state in STATES]


def text_of(days_of_all):
    lines = ["Patient;Date;State;Reward"]
    for number, days in enumerate(days_of_all):
        for at, state in enumerate(days):
            day = date(2026, 1, 1) + timedelta(days=number % 200 + at)
            reward = str(REWARDS[state]).replace(".", ",")
            lines.append(f"P{number:05}x;{day.isoformat()};{state};{reward}")
    return "\ufeff" + "\r\n".join(lines) + "\r\n"


@pytest.fixture(scope="module")
def people():
    return list(walks(4000, seed=7))


def command(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "privalue", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_from_init_to_a_report_in_four_commands(tmp_path, people):
    (tmp_path / "ward.csv").write_bytes(text_of(people).encode())
    said = command(tmp_path, "init", "--data", "ward.csv").stdout
    assert "Patient" in said
    study = (tmp_path / "study.toml").read_text()
    for answer in (  # what only the statistician knows, written in place of the questions
        ('count = "?"', 'labels = ["ill", "better", "well"]'),
        ('rewards = "?"', "rewards = [0.0, 0.1]"),
        ('returns = "?"', "returns = [0.0, 0.6]"),
        ("discount = 0.99", "discount = 0.9"),
        ('# decimal = ","', 'decimal = ","'),
    ):
        assert answer[0] in study, answer[0]
        study = study.replace(*answer)
    assert "?" not in [word for line in study.splitlines() for word in line.split('"')[1::2]]
    (tmp_path / "study.toml").write_text(study)
    command(tmp_path, "check", "study.toml")
    command(tmp_path, "plan", "study.toml", "--trajectories", "4000")
    command(tmp_path, "release", "study.toml", "--data", "ward.csv", "--out", "out", "--no-ledger")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "One whole person is protected" in page
    released = json.loads((tmp_path / "out" / "release.json").read_text())
    assert released["privacy"]["unit"] == "person"
    assert released["mechanism"] == "dp-ssp"
    assert released["persons"] == 4000
    values = released["tables"]["values"]["value"]
    expected = truth(people)
    assert np.abs(np.array(values) - expected).max() < 0.05
    middle = np.sqrt(np.mean((0.3 - np.array(expected)) ** 2))
    assert np.sqrt(np.mean((np.array(values) - expected) ** 2)) < middle / 5


def test_the_same_rows_by_hand(tmp_path, people):
    """The file read as declared holds what the definition says of the people."""
    (tmp_path / "ward.csv").write_bytes(text_of(people).encode())
    study = pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="person",
        discount=DISCOUNT,
        rewards=(0.0, 0.1),
        returns=(0.0, 1.0),
        states=STATES,
        step_type="date",
        decimal=",",
        columns={"person": "Patient", "step": "Date", "state": "State", "reward": "Reward"},
    )
    found = pv.inspect(study, tmp_path / "ward.csv").statistics
    assert found.persons == 4000
    assert found.mean_returns(0.0) == pytest.approx(truth(people), abs=1e-8)

"""A clinic's table of stays: persons with several stays each, protected as persons, in two arms.

A long table in CSV, one row a day, as a hospital would export it: other column names, other columns
that nobody asked for, rows in no order, patients who come back, and a last row that says how the
stay ended. There is no column of rewards: leaving alive is worth 1. The whole journey goes through
the command line: check, plan, a ledger with a total, one release, another fit at no cost, and the
proof that the ledger is whole. The patients are made up, so that the exact answer is known.

    python examples/clinic.py --out clinic
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np

import privalue as pv
from privalue.cli import run

UNITS = ["emergency", "intensive care", "step-down", "ward", "rehabilitation"]
# From each unit to each, day by day; what is left is the day on which the stay ends.
MOVES = np.array([
    [0.20, 0.20, 0.15, 0.30, 0.00],
    [0.00, 0.70, 0.22, 0.02, 0.00],
    [0.00, 0.06, 0.55, 0.34, 0.03],
    [0.00, 0.02, 0.04, 0.66, 0.10],
    [0.00, 0.00, 0.01, 0.02, 0.82],
])  # fmt: skip
ALIVE = np.array([0.93, 0.25, 0.70, 0.97, 0.995])  # of those whose stay ends in the unit
PATHWAYS = {"usual care": ALIVE, "early mobilisation": 1 - 0.6 * (1 - ALIVE)}
ARRIVALS = np.array([0.75, 0.05, 0.05, 0.15, 0.0])
MOST = 3  # stays per person that count


def exact_values() -> np.ndarray:
    """The chance of leaving alive, from the first day in each unit, pathway after pathway."""
    leaving = 1 - MOVES.sum(axis=1)
    ends = np.column_stack([leaving * alive for alive in PATHWAYS.values()])
    return np.linalg.solve(np.eye(len(UNITS)) - MOVES, ends).T.ravel()


def write_stays(file: Path, persons: int, seed: int) -> int:
    """The clinic's export; returns the number of stays."""
    generator = np.random.default_rng(seed)
    rows, stays = [], 0
    for person in range(persons):
        pathway = list(PATHWAYS)[person % 2]
        about = (20 + person % 70, pathway)
        for stay in range(int(min(generator.geometric(0.55), 9))):
            unit, day = int(generator.choice(len(UNITS), p=ARRIVALS)), 0
            stays += 1
            while True:
                draw = generator.random()
                following = int(np.searchsorted(np.cumsum(MOVES[unit]), draw, side="right"))
                name = f"P{person:05d}"
                rows.append((name, stay + 1, day, UNITS[unit], *about))
                if following == len(UNITS):
                    alive = generator.random() < PATHWAYS[pathway][unit]
                    end = "discharged" if alive else "deceased"
                    rows.append((name, stay + 1, day + 1, end, about[0], ""))
                    break
                unit, day = following, day + 1
    order = generator.permutation(len(rows))
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["patient_id", "stay", "day", "unit", "age", "pathway"])
        writer.writerows(rows[i] for i in order)
    return stays


def study_file(out: Path, about: int) -> Path:
    """What is public. How many stays there are is not, with persons: a guess is declared."""
    file = out / "study.toml"
    file.write_text(f"""\
[study]
name = "leaving alive, by unit"
dataset = "clinic-2026"
trajectories = {about}

[privacy]
epsilon = 1.0
delta = 1e-6
unit = "person"
max_trajectories_per_person = {MOST}

[values]
discount = 1.0
unvisited = 0.5

[states]
labels = {json.dumps(UNITS)}
ends = {{ discharged = 1.0, deceased = 0.0 }}

[arms]
column = "pathway"
labels = {json.dumps(list(PATHWAYS))}

[report]
outcome = "chance of leaving alive"

[mechanism]
name = "dp-ssp"

[data]
person = "patient_id"
trajectory = "stay"
step = "day"
state = "unit"
""")
    return file


def command(*arguments: str | Path) -> None:
    """One command line, which must succeed."""
    words = [str(argument) for argument in arguments]
    print(f"\n$ privalue {' '.join(words)}")
    if run(words) != 0:
        raise SystemExit(1)


def main() -> None:
    """The whole journey."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    data, ledger = out / "stays.csv", out / "ledger.db"
    stays = write_stays(data, persons=12_000, seed=2026)
    study = study_file(out, about=20_000)

    command("check", study)
    command("plan", study)
    total = ("--epsilon", "2", "--delta", "1e-5", "--unit", "person")
    command("ledger", "declare", "clinic-2026", *total, "--ledger", ledger)
    command("release", study, "--data", data, "--out", out / "released", "--ledger", ledger)
    command("refit", out / "released", "--level", "0.99", "--out", out / "wider")
    command("ledger", "show", "clinic-2026", "--ledger", ledger)
    command("ledger", "verify", "--ledger", ledger, "--release", out / "released")

    release = pv.Release.load(out / "released")
    truth = exact_values()
    values = np.array([entry.value for entry in release.values])
    error = float(np.sqrt(np.mean((values - truth) ** 2)))
    print("\npathway             unit              released   exact")
    for entry, value in zip(release.values, truth, strict=True):
        print(f"{entry.arm:<19} {entry.state:<16} {entry.value:9.3f} {value:7.3f}")
    constant = float(np.std(truth))
    print(f"Root mean square error {error:.4f}; a constant: {constant:.3f}")
    (out / "result.json").write_text(
        json.dumps({"stays": stays, "rmse": error, "constant": constant}, indent=1)
    )


if __name__ == "__main__":
    main()

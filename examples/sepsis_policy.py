"""ICU-Sepsis, from rows to a policy: what each treatment was worth, and what to try instead.

Clinicians treated some thousand patients. One private release says what every treatment was worth
in every group of patients, and a greedy step on it, which costs nothing more, makes a policy: a
hypothesis for a trial. This world is known exactly, so that we can look at what it is worth.

    pip install --no-deps icu-sepsis
    python examples/sepsis_policy.py --out sepsis

The world is ICU-Sepsis [Choudhary, Gupta and Thomas 2024] in 10 public groups of conditions and 9
treatments (no, low and high doses of two drugs). It is a benchmark, and says nothing about how to
treat anyone.
"""

import argparse
import json
from pathlib import Path

import pyarrow.parquet

import privalue as pv
from privalue.cli import run
from privalue.simulation import parse_world, read_policy

WORLD = "icu-sepsis:groups=10,actions=9"
GROUPS, TREATMENTS = 10, 9


def study_file(out: Path, patients: int) -> Path:
    """What is public: groups, treatments, bounds, and that a stay counts for eight pairs."""
    file = out / "study.toml"
    file.write_text(f"""\
[study]
name = "sepsis, treatments"
dataset = "icu-2026"
trajectories = {patients}

[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
max_states_per_trajectory = 8   # pairs of group and treatment that one stay counts for

[values]
discount = 0.99
rewards = [0.0, 1.0]
returns = [0.0, 1.0]

[states]
count = {GROUPS}

[actions]
count = {TREATMENTS}
""")
    return file


def command(*arguments: str | Path) -> None:
    """One command line, which must succeed."""
    words = [str(word) for word in arguments]
    print(f"$ privalue {' '.join(words)}")
    if run(words) != 0:
        raise SystemExit(1)


def survivors(rows: Path) -> float:
    """Which share of the patients survived: survival pays 1."""
    table = pyarrow.parquet.read_table(rows)
    people = table["trajectory"].to_numpy().max() + 1
    return float(table["reward"].to_numpy().sum() / people)


def main() -> None:
    """Simulate, release, improve, try."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--quick", action="store_true", help="half as many patients")
    chosen = parser.parse_args()
    out, patients = chosen.out, 2_500 if chosen.quick else 5_000
    out.mkdir(parents=True, exist_ok=True)

    # What the hospital has, and what it publishes: once, for all that follows.
    rows, study, released = out / "patients.parquet", study_file(out, patients), out / "released"
    many = ["--trajectories", str(patients)]
    command("simulate", WORLD, *many, "--seed", "2026", "--actions", "--out", rows)
    command("check", study)
    command("release", study, "--data", rows, "--out", released, "--no-ledger", "--accept-useless")

    # Anybody can go on from there.
    policy, careful = out / "policy.csv", out / "careful.csv"
    command("improve", released, "--out", policy)
    command("improve", released, "--out", careful, "--level", "0.95")

    # The trial: other patients, treated by the policy.
    trial = out / "trial.parquet"
    command("simulate", WORLD, *many, "--seed", "2027", "--policy", policy, "--out", trial)
    print(f"Of {patients:,} patients {survivors(rows):.1%} survived under the clinicians,")
    print(f"and {survivors(trial):.1%} of as many others under the new policy.")

    # What nobody knows outside of a benchmark: the exact values.
    world = parse_world(WORLD)
    mdp, clinicians = world.decisions

    def worth(file: Path) -> float:
        return mdp.value(read_policy(file, states=GROUPS, actions=TREATMENTS))

    result = {
        "patients": patients,
        "clinicians": mdp.value(clinicians),
        "improved": worth(policy),
        "careful": worth(careful),
        "best": mdp.value(mdp.optimal()),
        "moved": sum(change.moved for change in pv.improve(released).changes),
        "moved_careful": sum(change.moved for change in pv.improve(released, level=0.95).changes),
    }
    print(
        f"Exactly: {result['clinicians']:.3f} under the clinicians, {result['improved']:.3f} by "
        f"the policy, {result['careful']:.3f} where only clear gains count, {result['best']:.3f} "
        "at best."
    )
    (out / "result.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

"""ICU-Sepsis: the chance of survival from each condition, told privately.

713 conditions of patients with sepsis, the clinicians' own policy, and the exact answer known
[Choudhary, Gupta and Thomas 2024]. A hospital has some thousand patients: far too few for 713
private numbers. Which grouping of the conditions, made from public knowledge alone, and how many
patients make a useful release at epsilon = 1, delta = 1e-6?

    pip install --no-deps icu-sepsis
    python examples/icu_sepsis.py --out sepsis

The groups are made from the cluster centres that the benchmark publishes, never from the patients.
"""

import argparse
import csv
import json
from importlib import metadata
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from scipy.cluster.vq import kmeans2

import privalue as pv
from privalue.cli import run
from privalue.simulation import Episodes, icu_sepsis, simulate_episodes, simulate_to_file

PATIENTS, GROUPS, STATES = 5_000, 10, 713


def public_tables() -> tuple[np.ndarray, np.ndarray]:
    """The published centres of the conditions (vital signs, laboratory values) and their SOFA."""
    (file,) = (f for f in metadata.files("icu-sepsis") or [] if f.name == "dynamics.npz")
    with np.load(Path(str(file.locate())), allow_pickle=False) as tables:
        return tables["state_cluster_centers"][:STATES], tables["sofa_scores"][:STATES]


def quantile_groups(score: np.ndarray, count: int) -> np.ndarray:
    """Groups of equally many conditions, by a public score."""
    return np.searchsorted(np.quantile(score, np.linspace(0, 1, count + 1)[1:-1]), score)


def groupings(count: int) -> dict[str, np.ndarray]:
    """Three public ways to make so many groups."""
    centres, sofa = public_tables()
    scaled = (centres - centres.mean(axis=0)) / centres.std(axis=0)
    axis = np.linalg.svd(scaled, full_matrices=False)[0][:, 0]
    severity = axis * np.sign(np.corrcoef(axis, sofa)[0, 1])  # growing with the SOFA score
    return {
        "severity": quantile_groups(severity, count),
        "k-means": kmeans2(scaled, count, seed=1, minit="++", iter=50)[1],
        "SOFA": quantile_groups(sofa, count),
    }


def study(groups: np.ndarray) -> pv.Study:
    """What is public: groups, bounds, promise."""
    return pv.Study(
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=1.0,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        unvisited=0.5,
        states=int(groups.max()) + 1,
        groups={str(s): int(g) for s, g in enumerate(groups)},
        mechanism="dp-ssp",
        sorted=True,
    )


def table(episodes: Episodes) -> pa.Table:
    """Rows as a table."""
    names = ("trajectory", "step", "state", "reward")
    return pa.table({name: getattr(episodes, name) for name in names})


def sweep(out: Path, sizes: list[int], counts: list[int], runs: int) -> list[dict[str, Any]]:
    """The error of each grouping for each number of patients; seeded, so not private."""
    world = icu_sepsis(discount=1.0)
    truth, weight = world.process.values[:STATES], world.process.visits.single[:STATES]

    def error(values: np.ndarray) -> float:
        return float(np.sqrt(np.average((values - truth) ** 2, weights=weight)))

    constant = error(np.full(STATES, np.average(truth, weights=weight)))
    rows = []
    for patients in sizes:
        batches = [
            table(simulate_episodes(world, trajectories=patients, seed=r)) for r in range(runs)
        ]
        for count in counts:
            for name, groups in groupings(count).items():
                described = study(groups)
                private, plain = [], []
                for seed, batch in enumerate(batches):
                    released = pv.release(  # few patients in many groups: that is what is tried
                        described,
                        batch,
                        accept_useless=True,
                        entropy=pv.SeededForExperimentsOnly(seed),
                    )
                    values = np.array([entry.value for entry in released.values])
                    private.append(error(values[groups]))
                    fields = pv.inspect(described, batch).private_fields()
                    plain.append(error(np.array(fields["values"])[groups]))
                row = {
                    "patients": patients,
                    "groups": count,
                    "grouping": name,
                    "private": float(np.mean(private)),
                    "not_private": float(np.mean(plain)),
                    "constant": constant,
                }
                rows.append(row)
                print(
                    f"{patients:>6,} patients, {count:>2} groups by {name:<8}: error "
                    f"{row['private']:.4f}, {row['not_private']:.4f} without privacy, "
                    f"{constant:.4f} for one constant"
                )
    (out / "sweep.json").write_text(json.dumps({"private": False, "rows": rows}, indent=1))
    draw(rows, out / "sweep.png")
    return rows


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Error against patients for the groups by severity."""
    figure, axes = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
    colours = ["#0072b2", "#009e73", "#d55e00", "#cc79a7", "#e69f00"]
    chosen = [row for row in rows if row["grouping"] == "severity"]
    patients = sorted({row["patients"] for row in chosen})
    for colour, count in zip(colours, sorted({row["groups"] for row in chosen}), strict=False):
        line = [row for row in chosen if row["groups"] == count]
        axes.plot(
            patients, [r["private"] for r in line], "o-", color=colour, label=f"{count} groups"
        )
        axes.plot(patients, [r["not_private"] for r in line], ":", color=colour)
    axes.axhline(rows[0]["constant"], color="0.35", linewidth=1)
    axes.text(patients[-1], rows[0]["constant"], "one constant", ha="right", va="bottom")
    axes.set_xscale("log")
    axes.set_xticks(patients, [f"{p:,}" for p in patients])
    axes.minorticks_off()
    axes.set_ylim(0.03, 0.1)
    axes.set_xlabel("patients")
    axes.set_ylabel("error of the chance of survival")
    axes.set_title("ε = 1, δ = 1e-6, groups by severity; dotted: no privacy", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def release_once(out: Path, patients: int) -> dict[str, Any]:
    """The journey of a user: files, check, one private release; then the comparison."""
    world = icu_sepsis(discount=1.0)
    groups = groupings(GROUPS)["severity"]
    labels = [f"severity {g + 1}" for g in range(GROUPS)]
    with (out / "groups.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["condition", "state"])
        writer.writerows((s, labels[g]) for s, g in enumerate(groups))
    (out / "study.toml").write_text(f"""\
[study]
name = "sepsis, clinicians' policy"
dataset = "icu-2026"
trajectories = {patients}

[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"

[values]
discount = 1.0
rewards = [0.0, 1.0]
returns = [0.0, 1.0]
unvisited = 0.5

[states]
labels = {json.dumps(labels)}
groups = "groups.csv"

[mechanism]
name = "dp-ssp"
""")
    data = out / "patients.parquet"
    simulate_to_file(world, trajectories=patients, seed=2026, out=data)
    command(["check", str(out / "study.toml")])
    released = out / "released"
    command(
        [
            "release",
            str(out / "study.toml"),
            "--data",
            str(data),
            "--out",
            str(released),
            "--no-ledger",
        ]
    )
    values = np.array([entry.value for entry in pv.Release.load(released).values])
    truth, weight = world.process.values[:STATES], world.process.visits.single[:STATES]
    error = float(np.sqrt(np.average((values[groups] - truth) ** 2, weights=weight)))
    best = [np.average(truth[groups == g], weights=weight[groups == g]) for g in range(GROUPS)]
    print(f"The release is off by {error:.4f}, weighted by visits, over all {STATES} conditions.")
    return {"rmse": error, "values": values.tolist(), "average_truth": [float(b) for b in best]}


def command(arguments: list[str]) -> None:
    """One command line, which must succeed."""
    print(f"$ privalue {' '.join(arguments)}")
    if run(arguments) != 0:
        raise SystemExit(1)


def main() -> None:
    """Sweep, then release."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--quick", action="store_true", help="one size, two counts, one run")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.quick:
        sweep(chosen.out, [1_000], [5, 10], runs=1)
        released = release_once(chosen.out, 2_000)
    else:
        sweep(chosen.out, [1_000, 2_000, 5_000, 10_000, 20_000], [5, 10, 20, 40], runs=5)
        released = release_once(chosen.out, PATIENTS)
    (chosen.out / "result.json").write_text(json.dumps(released, indent=1))


if __name__ == "__main__":
    main()

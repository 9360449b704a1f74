"""Taxi, played in Gymnasium: 500 states of which a ride visits a few, and what a limit saves.

A driver's ride passes at most 18 of the 500 states. Told so (``max_states_per_trajectory``), the
release needs noise for 18 states in place of 500. Rides of the best policy are deterministic: what
is off in the release is off for privacy alone.

    pip install '.[gymnasium]'
    python examples/taxi.py --out taxi
"""

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privalue as pv
from privalue.simulation import from_gymnasium, optimal_policy, rollout

LONGEST = 18  # states of the longest best ride: public, like the city


def record(rides: int, seed: int, file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Plays the best policy into a Parquet file; returns exact values and chances of visits."""
    name = max(known for known in gymnasium.registry if known.startswith("Taxi-v"))
    env = gymnasium.make(name)
    mdp = from_gymnasium(env, discount=0.99)
    policy = optimal_policy(mdp)
    actions = policy.probabilities.argmax(axis=1)
    played = rollout(
        env, lambda state: int(actions[state]), trajectories=rides, seed=seed, truncated="keep"
    )
    assert played.truncated == 0  # the limit is 200 steps, and no ride is that long
    columns = ("trajectory", "step", "state", "reward")
    pq.write_table(pa.table({name: getattr(played, name) for name in columns}), file)
    env.close()
    process = mdp.under(policy)
    return process.values, process.visits.single


def study_file(out: Path, name: str, limit: int | None) -> Path:
    """What is public; with or without the limit."""
    bounded = "" if limit is None else f"max_states_per_trajectory = {limit}\n"
    file = out / f"{name}.toml"
    file.write_text(f"""\
[study]
name = "taxi, best policy, {name}"

[privacy]
epsilon = 1.0
delta = 1e-6
unit = "trajectory"
{bounded}
[values]
discount = 0.99
rewards = [-10.0, 20.0]
returns = [0.0, 20.0]
unvisited = 10.0

[states]
count = 500

[mechanism]
name = "dp-ssp"
""")
    return file


def main() -> None:
    """Play, release twice from one recording, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--quick", action="store_true", help="1,000 rides instead of 20,000")
    chosen = parser.parse_args()
    out, rides = chosen.out, 1_000 if chosen.quick else 20_000
    out.mkdir(parents=True, exist_ok=True)
    data = out / "rides.parquet"
    truth, visits = record(rides, seed=7, file=data)
    seen = visits > 0
    print(f"{rides:,} rides, {visits.sum():.1f} states each on average, {seen.sum()} states in all")

    result: dict[str, float] = {"rides": rides, "constant": float(np.std(truth[seen]))}
    for name, limit in (("unlimited", None), ("limited", LONGEST)):
        released = out / name
        # Two releases from the same rides add up: epsilon = 2. It is an example; one would do.
        # So few rides may be too few by the plan: the comparison is made all the same.
        made = pv.release(
            pv.Study.load(study_file(out, name, limit)), data, accept_useless=chosen.quick
        )
        made.save(released)
        off = np.array([entry.value for entry in made.values]) - truth
        clear = np.array([bool(entry.supported) for entry in made.values]) & seen
        result[name] = float(np.sqrt(np.mean(off[seen] ** 2)))
        result[f"{name}_supported"] = int(clear.sum())
        trusted = f"{np.sqrt(np.mean(off[clear] ** 2)):.2f} over " if clear.any() else ""
        print(
            f"{name}: root mean square error {result[name]:.2f} over {seen.sum()} states; "
            f"{trusted}{clear.sum()} that the release says can be trusted"
        )
    print(
        f"A constant: {result['constant']:.2f}. Values range over [{truth[seen].min():.1f}, "
        f"{truth[seen].max():.1f}]."
    )
    (out / "result.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

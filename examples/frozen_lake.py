"""FrozenLake, recorded as a Minari dataset: what the best policy is worth on slippery ice.

Episodes are played in Gymnasium, stored by Minari, and released from there. The lake's transition
table is public here, so that the exact values are known, and the error can be planned before any
episode is played.

    pip install '.[gymnasium,minari]'
    python examples/frozen_lake.py --out lake

Four holes and the goal end an episode: there is no action there, and they get no rows.
"""

import argparse
import json
import os
from pathlib import Path

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

import privalue as pv
from privalue.cli import run

WORLD = "gym:FrozenLake-v1,policy=greedy"
DATASET = "lake/greedy-v0"
LIMIT = 1_000  # rows: the usual limit of 100 would cut off one in ten, and keeping those is a bias


def record(episodes: int, seed: int) -> np.ndarray:
    """Play the best policy, store the episodes with Minari, and return the exact values."""
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=LIMIT)
    world = pv.world(env, policy="greedy", discount=0.99)
    policy = world.decisions[1].argmax(axis=1)
    buffers = []
    for number in range(episodes):
        state, _ = env.reset(seed=seed if number == 0 else None)
        states, steps = [state], []
        over = False
        while not over:
            action = int(policy[state])
            state, reward, ended, cut, _ = env.step(action)
            states.append(state)
            steps.append((action, reward, ended, cut))
            over = ended or cut
        actions, rewards, ends, cuts = map(list, zip(*steps, strict=True))
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=states,
                actions=actions,
                rewards=rewards,
                terminations=ends,
                truncations=cuts,
            )
        )
    minari.create_dataset_from_buffers(
        DATASET,
        buffers,
        env=env,
        algorithm_name="value iteration",
        author="privalue",
        author_email="none@example.org",
        code_permalink="none",
        description="FrozenLake under its best policy",
    )
    env.close()
    return world.values


def study_file(out: Path, episodes: int) -> Path:
    """What is public: the eleven squares with a choice of actions, and the bounds."""
    lake = "".join("".join(row) for row in ("SFFF", "FHFH", "FFFH", "HFFG"))
    squares = [str(s) for s, square in enumerate(lake) if square in "SF"]
    file = out / "study.toml"
    file.write_text(f"""\
[study]
name = "frozen lake, best policy"
trajectories = {episodes}

[privacy]
epsilon = 1.0
delta = 1e-5
unit = "trajectory"

[values]
discount = 0.99
rewards = [0.0, 1.0]
returns = [0.0, 1.0]

[states]
labels = {json.dumps(squares)}

[mechanism]
name = "dp-ssp"

[data]
truncated_rows = "keep"
""")
    return file


def command(arguments: list[str]) -> None:
    """One command line, which must succeed."""
    print(f"$ privalue {' '.join(arguments)}")
    if run(arguments) != 0:
        raise SystemExit(1)


def main() -> None:
    """Plan, play, record, release, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--quick", action="store_true", help="200 episodes instead of 2,000")
    options = parser.parse_args()
    out, episodes = options.out, 200 if options.quick else 2_000
    out.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str((out / "datasets").absolute())

    study = study_file(out, episodes)
    command(["check", str(study)])
    truth = record(episodes, seed=7)
    released = out / "released"
    command(
        [
            "release",
            str(study),
            "--data",
            f"minari:{DATASET}",
            "--out",
            str(released),
            "--no-ledger",
        ]
    )

    release = pv.Release.load(released)
    exact = np.array([truth[int(entry.state)] for entry in release.values])
    values = np.array([entry.value for entry in release.values])
    error = float(np.sqrt(np.mean((values - exact) ** 2)))
    constant = float(np.std(exact))
    for entry, value in zip(release.values, exact, strict=True):
        print(f"square {entry.state:>2}: {entry.value:.3f} released, {value:.3f} exact")
    print(
        f"Root mean square error {error:.3f} from {episodes:,} episodes; a constant: {constant:.3f}"
    )
    result = {"episodes": episodes, "rmse": error, "constant": constant}
    (out / "result.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

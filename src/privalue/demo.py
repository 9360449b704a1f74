"""The whole journey on the built-in recovery chain, through files, as a user would go it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privalue.curator import Prepared, Progress, prepare, release
from privalue.mdp import parse_world, simulate_to_file
from privalue.release import Release, require_vacant
from privalue.report.pictures import draw_values
from privalue.report.template import study_template
from privalue.study import Study

WORLD = "chain:N=40,p=0.5,discount=0.99"
TRAJECTORIES = 30_000
SEED = 20160620

STUDY: Mapping[tuple[str, str], str] = {
    ("study", "name"): '"recovery-chain"',
    ("study", "trajectories"): str(TRAJECTORIES),
    ("values", "returns"): "[0.0, 1.0]",
    ("values", "start"): '"start.csv"',
}


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demonstration made."""

    study: Path
    data: Path
    release: Release
    release_file: Path
    pictures: list[Path]
    error: float  # root mean square over the states, against the exact values
    policy_error: float


def run(
    folder: Path,
    *,
    say: Callable[[str], None],
    checked: Callable[[Prepared], None],
    progress: Callable[[str], AbstractContextManager[Progress]],
) -> Demo:
    """Simulate, describe, check, release, compare; every step leaves a file in ``folder``."""
    require_vacant(folder)
    folder.mkdir(parents=True, exist_ok=True)
    world = parse_world(WORLD)
    truth = world.process.values

    data = folder / "trajectories.parquet"
    say(f"1. Simulate {TRAJECTORIES:,} people on the recovery chain: {data}")
    with progress("Simulating") as update:
        simulate_to_file(
            world,
            trajectories=TRAJECTORIES,
            seed=SEED,
            out=data,
            progress=lambda done: update(done, TRAJECTORIES),
        )

    study_file = folder / "study.toml"
    say(f"2. Describe the study, in public terms only: {study_file}")
    study_file.write_text(study_template(STUDY), encoding="utf-8")
    start = ["state,probability", *(f"{s},{1 / len(truth)!r}" for s in range(len(truth)))]
    (folder / "start.csv").write_text("\n".join(start) + "\n", encoding="utf-8")

    say("3. Check it, without data")
    study = Study.load(study_file)
    checked(prepare(study))

    say("4. Release, once")
    with progress("Reading rows") as update:
        released = release(study, data, progress=update)
    release_file = released.save(folder)

    say("5. Compare with the exact values, which a simulation knows")
    values = np.array([entry.value for entry in released.values])
    error = float(np.sqrt(np.mean((values - truth) ** 2)))
    pictures = draw_values(
        values.tolist(),
        truth.tolist(),
        title=(
            f"Recovery chain, {TRAJECTORIES:,} trajectories, "
            f"epsilon = {released.privacy.epsilon:g}, delta = {released.privacy.delta:g}: "
            f"RMSE {error:.4f}"
        ),
        folder=folder,
    )
    assert released.policy_value is not None
    return Demo(
        study=study_file,
        data=data,
        release=released,
        release_file=release_file,
        pictures=pictures,
        error=error,
        policy_error=abs(released.policy_value - float(truth.mean())),
    )

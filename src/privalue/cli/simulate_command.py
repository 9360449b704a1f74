"""Define ``privalue simulate``: write simulated trajectories of a world to a file."""

from pathlib import Path
from typing import Annotated, Any

from privalue.cli.console import print_json, progress
from privalue.cli.options import Force, Json, argument, option, require_absent
from privalue.cli.terminal import print_sentence
from privalue.errors import UsageError
from privalue.simulation import CUT, simulate_to_file, write_truth
from privalue.simulation import world as find_world


def simulate(
    world: Annotated[
        str,
        argument(
            "WORLD",
            "The world: chain, chain:N=40,p=0.5, garnet:seed=7, "
            "gym:FrozenLake-v1,policy=greedy, or icu-sepsis.",
        ),
    ],
    trajectories: Annotated[int, option("How many trajectories to simulate.")],
    out: Annotated[Path, option("Where to write the rows: a .csv, .csv.gz or .parquet file.")],
    seed: Annotated[int, option("A whole number; the same seed gives the same rows.")] = 0,
    truncate_at: Annotated[
        int | None, option(f"Truncate trajectories after so many rows; {CUT!r} marks them.")
    ] = None,
    policy: Annotated[
        str | None,
        option(
            "The behaviour: uniform, greedy, optimal:0.5 (an even mixture with the optimal), "
            "or a CSV file of state, action, probability."
        ),
    ] = None,
    actions: Annotated[
        bool, option("Also write each row's action, and its probability.", "--actions")
    ] = False,
    truth: Annotated[
        Path | None,
        option("Also write a study of these rows, and the exact values, into this folder."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Simulate trajectories of a built-in or Gymnasium world."""
    require_absent(out, force)
    if truth is not None:
        require_absent(truth / "study.toml", force)
    source = find_world(world, policy=policy)
    if actions and source.mdp is None:
        raise UsageError(f"--actions: the world {source.text} has no actions; leave it out")
    with progress("Simulating") as update:
        rows = simulate_to_file(
            source,
            trajectories=trajectories,
            seed=seed,
            out=out,
            progress=lambda done: update(done, trajectories),
            truncate_at=truncate_at,
            actions=actions,
        )
    process = source.process
    result: dict[str, Any] = {
        "mdp": source.text,
        "states": process.states,
        "reward_bounds": list(process.reward_bounds),
        "discount": process.discount,
        "seed": seed,
        "file": rows.path,
        "rows": rows.rows,
        "trajectories": rows.trajectories,
        "truncated": rows.truncated,
    }
    if actions:
        result["actions"] = source.decisions[0].actions
    if truth is not None:
        options = {"actions": actions, "truncated": truncate_at is not None}
        result["truth"] = write_truth(source, truth, trajectories=rows.trajectories, **options)
    if as_json:
        print_json(result)
    else:
        print_sentence("simulated", column=CUT, **result)

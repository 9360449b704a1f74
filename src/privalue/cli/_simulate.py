"""Define ``privalue simulate``: trajectories of a world, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from privalue._planned import named_world
from privalue.cli._console import Json, print_json, progress, say
from privalue.cli._given import WHOLE, require_absent
from privalue.errors import UsageError
from privalue.simulation import simulate_to_file


def simulate(
    world: Annotated[
        str,
        typer.Argument(
            metavar="MDP",
            help="chain, chain:N=40,p=0.5, random-chain:N=20, grid:rows=4,columns=5, "
            "gym:FrozenLake-v1,policy=greedy, icu-sepsis",
        ),
    ],
    trajectories: Annotated[int, typer.Option("--trajectories", **WHOLE, help="How many.")],
    out: Annotated[Path, typer.Option("--out", help="A .csv, .csv.gz or .parquet file.")],
    seed: Annotated[
        int, typer.Option("--seed", **WHOLE, help="The same seed gives the same rows.")
    ] = 0,
    truncate_at: Annotated[
        int | None,
        typer.Option("--truncate-at", **WHOLE, help="Cut trajectories after so many rows."),
    ] = None,
    truncated: Annotated[
        str | None, typer.Option("--truncated", help="keep or drop those that were cut.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write trajectories of a built-in or Gymnasium MDP."""
    if truncated not in {None, "keep", "drop"}:
        raise UsageError(f"--truncated {truncated}: it must be keep or drop")
    require_absent(out, force)
    chosen = named_world(world)
    with progress("Simulating") as update:
        written = simulate_to_file(
            chosen,
            trajectories=trajectories,
            seed=seed,
            out=out,
            progress=lambda done: update(done, trajectories),
            truncate_at=truncate_at,
            truncated=truncated,  # type: ignore[arg-type]  # checked above
        )
    if as_json:
        print_json(
            {
                "mdp": chosen.text,
                "states": chosen.process.states,
                "reward_bounds": list(chosen.process.reward_bounds),
                "discount": chosen.process.discount,
                "seed": seed,
                "file": str(written.path),
                "rows": written.rows,
                "trajectories": written.trajectories,
                "truncated": written.truncated,
                "dropped": written.dropped,
            }
        )
    else:
        low, high = chosen.process.reward_bounds
        say(f"Wrote {written.trajectories:,} trajectories, {written.rows:,} rows: {written.path}")
        say(
            f"{chosen.text}: {chosen.process.states} states, rewards within [{low:g}, {high:g}], "
            f"discount {chosen.process.discount:g}"
        )
        if written.truncated:
            print(f"{written.truncated:,} were cut, {written.dropped:,} of them dropped.")

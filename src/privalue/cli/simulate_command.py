"""Define ``privalue simulate``: trajectories of a world, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from privalue.cli.console import print_json, progress, say
from privalue.cli.options import WHOLE, Json, require_absent
from privalue.errors import UsageError, plural
from privalue.simulation import CUT, simulate_to_file, write_truth
from privalue.simulation import world as find_world


def simulate(
    world: Annotated[
        str,
        typer.Argument(
            metavar="WORLD",
            help="The world: chain, chain:N=40,p=0.5, garnet:seed=7, "
            "gym:FrozenLake-v1,policy=greedy, or icu-sepsis.",
        ),
    ],
    trajectories: Annotated[
        int, typer.Option("--trajectories", **WHOLE, help="How many trajectories to simulate.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", help="Where to write the rows: a .csv, .csv.gz or .parquet file."),
    ],
    seed: Annotated[
        int,
        typer.Option("--seed", **WHOLE, help="A whole number; the same seed gives the same rows."),
    ] = 0,
    truncate_at: Annotated[
        int | None,
        typer.Option(
            "--truncate-at",
            **WHOLE,
            help=f"Cut trajectories after so many rows; {CUT!r} marks them.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="The policy that people follow: uniform, greedy, optimal:0.5 (half of the way "
            "there), or a CSV file of state, action, probability.",
        ),
    ] = None,
    actions: Annotated[
        bool,
        typer.Option(
            "--actions", help="Also write each row's action, and how likely it was chosen."
        ),
    ] = False,
    truth: Annotated[
        Path | None,
        typer.Option(
            "--truth",
            help="Also write a study of these rows, and the exact values, into this folder.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate trajectories of a built-in or Gymnasium world."""
    require_absent(out, force)
    if truth is not None:
        require_absent(truth / "study.toml", force)
    chosen = find_world(world, policy=policy)
    if actions and chosen.mdp is None:
        raise UsageError(f"--actions: nobody chooses in the world {chosen.text}; leave it out")
    with progress("Simulating") as update:
        written = simulate_to_file(
            chosen,
            trajectories=trajectories,
            seed=seed,
            out=out,
            progress=lambda done: update(done, trajectories),
            truncate_at=truncate_at,
            actions=actions,
        )
    files = []
    if truth is not None:
        files = write_truth(
            chosen,
            truth,
            trajectories=written.trajectories,
            actions=actions,
            cut=truncate_at is not None,
        )
    if as_json:
        print_json(
            {
                "mdp": chosen.text,
                "states": chosen.process.states,
                **({"actions": chosen.decisions[0].actions} if actions else {}),
                "reward_bounds": list(chosen.process.reward_bounds),
                "discount": chosen.process.discount,
                "seed": seed,
                "file": str(written.path),
                **({} if truth is None else {"truth": [str(file) for file in files]}),
                "rows": written.rows,
                "trajectories": written.trajectories,
                "truncated": written.truncated,
            }
        )
    else:
        low, high = chosen.process.reward_bounds
        say(
            f"Wrote {plural(written.trajectories, 'trajectory')}, {plural(written.rows, 'row')}: "
            f"{written.path}"
        )
        say(
            f"{chosen.text}: {plural(chosen.process.states, 'state')}, rewards within [{low:g}, "
            f"{high:g}], discount {chosen.process.discount:g}"
        )
        if truth is not None:
            names = ", ".join(file.name for file in files)
            say(f"Wrote a study of these rows, and the exact values: {names} in {truth}")
        if written.truncated:
            say(f"{written.truncated:,} trajectories were cut; the column {CUT!r} marks them.")

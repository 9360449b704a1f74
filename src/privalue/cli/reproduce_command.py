"""Define ``privalue reproduce``: the paper's experiments, with its claims decided."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from privalue.cli.console import print_json, progress, screen
from privalue.cli.options import WHOLE, Json
from privalue.errors import UsageError
from privalue.paper import FULL, QUICK, Reproduction, factor_text
from privalue.paper import reproduce as reproduce_all


def reproduce(
    out: Annotated[Path, typer.Option("--out", help="A folder for the results.")],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Use few batch sizes and five runs: it takes under two minutes."
        ),
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", **WHOLE, help="How many processes to use; by default one per core."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Repeat the paper's experiments, and compare with today's results."""
    chosen = (os.cpu_count() or 1) if processes is None else processes
    if not 1 <= chosen <= 256:
        raise UsageError(f"--processes {chosen}: it must be from 1 to 256")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: it must be a folder, and this is a file")
    with progress("Running", then="Deciding and drawing") as update:
        try:
            made = reproduce_all(out, QUICK if quick else FULL, processes=chosen, progress=update)
        except OSError as problem:
            raise UsageError(f"cannot write to {out}: {problem.strerror}") from None
    if as_json:
        print_json(_summary(made))
        return
    _print(made)


def _summary(made: Reproduction) -> dict[str, object]:
    """Return what ``reproduce --json`` prints."""
    return {
        "private": False,
        "folder": str(made.folder),
        "effort": made.effort.name,
        "runs": made.effort.runs,
        "seconds": round(made.seconds, 1),
        "claims": made.claims,
        "savings": made.savings,
        "pictures": [str(file) for file in made.pictures],
        "files": [str(file) for file in made.files],
    }


def _print(made: Reproduction) -> None:
    """Print the verdicts on the paper's claims, and the trajectories that each algorithm needs."""
    console = screen()
    verdicts = Table(title="What the paper says", title_justify="left", box=box.SIMPLE)
    verdicts.add_column("sentence")
    verdicts.add_column("verdict", no_wrap=True)
    for claim in made.claims:
        verdicts.add_row(claim["sentence"], claim["verdict"])
    console.print(verdicts)
    first = made.savings[0]
    cases = [s for s in made.savings if all(s[k] == first[k] for k in ("bound", "aggregation"))]
    needed = Table(
        title=f"Trajectories needed, returns in [0, {first['bound']:g}], tabular",
        title_justify="left",
        box=box.SIMPLE,
    )
    needed.add_column("algorithm")
    for target in dict.fromkeys(s["rmse"] for s in cases):
        needed.add_column(f"RMSE {target:g}", justify="right")
        needed.add_column("saved", justify="right")
    for name in dict.fromkeys(s["algorithm"] for s in cases):
        cells = []
        for saving in (s for s in cases if s["algorithm"] == name):
            at, factor = saving["trajectories"], saving["factor"]
            cells.append("not reached" if at is None else f"{at:,.0f}")
            cells.append("" if factor is None or factor <= 1.001 else factor_text(factor))
        needed.add_row(name, *cells)
    console.print(needed)
    console.print(
        f"Wrote {made.folder / 'report.md'}, {len(made.pictures)} pictures and the tables behind "
        f"them, in {made.seconds:.0f} seconds. Made-up data, seeded noise: not private."
    )

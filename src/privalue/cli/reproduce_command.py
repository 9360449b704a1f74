"""Define ``privalue reproduce``: repeat the paper's experiments, and test its claims."""

import os
from pathlib import Path
from typing import Annotated

from privalue.cli.console import print_json, progress
from privalue.cli.options import Json, option
from privalue.cli.terminal import show_listing, tell
from privalue.errors import UsageError
from privalue.paper import FULL, QUICK
from privalue.paper import reproduce as reproduce_all
from privalue.report import Listing


def reproduce(
    out: Annotated[Path, option("A folder for the results.")],
    quick: Annotated[
        bool, option("Use few batch sizes and five runs, in under two minutes.", "--quick")
    ] = False,
    processes: Annotated[
        int | None, option("How many processes to use; by default one per core.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Repeat the paper's experiments, and test its claims."""
    workers = (os.cpu_count() or 1) if processes is None else processes
    if not 1 <= workers <= 256:
        raise UsageError(f"--processes {workers}: it must be from 1 to 256")
    with progress("Running", then="Testing claims and plotting") as update:
        results = reproduce_all(out, QUICK if quick else FULL, processes=workers, progress=update)
    if as_json:
        print_json(
            {
                "private": False,
                "folder": results.folder,
                "effort": results.effort.name,
                "runs": results.effort.runs,
                "seconds": round(results.seconds, 1),
                "claims": results.claims,
                "savings": results.savings,
                "pictures": list(results.pictures),
                "files": list(results.files),
            }
        )
        return
    claims = [(claim["sentence"], claim["verdict"]) for claim in results.claims]
    show_listing(Listing("claims", "What the paper says", ("sentence", "verdict"), claims))
    tell(
        "reproduced", folder=results.folder, pictures=len(results.pictures), seconds=results.seconds
    )

"""Define ``privalue reproduce``: repeat the paper's experiments, and test its claims."""

import os
from pathlib import Path
from typing import Annotated

from privalue.cli.console import print_json, progress
from privalue.cli.options import Json, option
from privalue.cli.terminal import print_listing, print_sentence
from privalue.paper import FULL, QUICK
from privalue.paper import reproduce as reproduce_all
from privalue.report import Listing


def reproduce(
    out: Annotated[Path, option("A folder for the results.")],
    quick: Annotated[
        bool, option("Use few batch sizes and five runs, in under two minutes.", "--quick")
    ] = False,
    as_json: Json = False,
) -> None:
    """Repeat the paper's experiments, and test its claims."""
    with progress("Running", then="Testing claims and plotting") as update:
        effort, cores = QUICK if quick else FULL, os.cpu_count() or 1
        results = reproduce_all(out, effort, processes=cores, progress=update)
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
    print_listing(Listing("claims", "What the paper says", ("sentence", "verdict"), claims))
    print_sentence(
        "reproduced", folder=results.folder, pictures=len(results.pictures), seconds=results.seconds
    )

"""Define ``privalue demo``: the whole journey, through files as a user would."""

from pathlib import Path
from typing import Annotated

import typer

from privalue._checked import checked as found_in
from privalue.cli import _screen as terminal
from privalue.cli._console import Json, log, print_json, progress, screen
from privalue.cli._journey import run, vacant_folder
from privalue.report import account_rows


def demo(
    out: Annotated[Path, typer.Option("--out", help="A folder for everything it makes.")] = Path(
        "demo"
    ),
    as_json: Json = False,
) -> None:
    """Try every step on made-up data, from a study to a report."""
    folder = vacant_folder(out)
    console = log if as_json else screen()
    made = run(
        folder,
        say=lambda text: console.print(text, style="bold"),
        checked=lambda prepared: terminal.print_check(console, found_in(prepared)),
        progress=progress,
    )
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "study": str(made.study),
                "data": str(made.data),
                "private_page": str(made.private_page),
                "ledger": str(made.ledger),
                "ledger_head": made.release.ledger_head,
                "release": str(made.files.release),
                "report": str(made.files.page),
                "registry": str(made.files.registry),
                "values": str(made.files.values),
                "predicted_rmse": made.predicted,
                "rmse": made.error,
                "policy_error": made.policy_error,
            }
        )
        return
    terminal.print_release(console, made.release)
    console.print(terminal.facts(f"Dataset {made.account.dataset}", account_rows(made.account)))
    console.print(
        f"Root mean square error against the exact values: {made.error:.4f} (planned: "
        f"{made.predicted:.4f}); the policy's overall value is off by {made.policy_error:.4f}.",
        style="bold",
    )
    console.print("Where to look:", style="bold")
    for path, what in (
        (made.files.page, "the report: open it in a browser"),
        (made.files.values, "every value, for a spreadsheet or a program"),
        (made.files.registry, "the entry for a registry of deployments"),
        (made.private_page, "the curator's PRIVATE page, kept apart from what is public"),
    ):
        console.print(f"  {path}  {what}", soft_wrap=True)

"""Define ``privalue refit``: other features from the same numbers, at no further cost."""

from pathlib import Path
from typing import Annotated

import typer

from privalue._folder import require_publishable
from privalue.cli import _screen as terminal
from privalue.cli._console import Json, log, print_release_json, screen
from privalue.cli._given import NUMBER, WHOLE
from privalue.cli._paid import require_finished
from privalue.cli._report import publish_and_tell
from privalue.errors import UsageError
from privalue.estimate import refit as refit_release
from privalue.releases import Release


def refit(
    release_file: Annotated[
        Path,
        typer.Argument(metavar="RELEASE", readable=False, help="A dp-ssp release, or its folder."),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="A folder for the new release and its report.")
    ],
    features: Annotated[
        str | None,
        typer.Option(
            "--features", help="Use this matrix of features: .npy, .npz, .csv or .parquet."
        ),
    ] = None,
    aggregate: Annotated[
        int | None,
        typer.Option("--aggregate", **WHOLE, help="Let this many adjacent states share one value."),
    ] = None,
    tabular: Annotated[
        bool, typer.Option("--tabular", help="Give every state a value of its own.")
    ] = False,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="Keep a value for every state, and move it towards the features."
        ),
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", help="Use these weights: a CSV file of state and weight, or uniform."
        ),
    ] = None,
    ridge: Annotated[
        str | None, typer.Option("--ridge", help='Fit by LSL with this ridge: a number, or "sqrt".')
    ] = None,
    ridge_scale: Annotated[
        float | None,
        typer.Option("--ridge-scale", **NUMBER, help="With --ridge sqrt: the factor of sqrt(m)."),
    ] = None,
    shrinkage: Annotated[
        bool | None,
        typer.Option(
            "--shrinkage/--no-shrinkage",
            help="Move values of rarely visited states towards the others.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start", help="A CSV file of start probabilities, for the policy's overall value."
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option("--level", **NUMBER, help="The probability with which each interval holds."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit other features to a dp-ssp release; spends nothing."""
    if sum((features is not None, aggregate is not None, tabular)) > 1:
        raise UsageError("choose one of --features, --aggregate and --tabular")
    if shrink and features is None and aggregate is None:
        raise UsageError("--shrink needs features: give --features FILE or --aggregate SIZE")
    require_finished(out)
    require_publishable(out)
    fitted = refit_release(
        Release.load(release_file),
        features=features,
        size=1 if tabular else aggregate,
        shrink=shrink,
        weights=weights,
        ridge=_ridge(ridge),
        ridge_scale=ridge_scale,
        shrinkage=shrinkage,
        start=start,
        level=level,
    )
    publish_and_tell(fitted, out)
    if as_json:
        print_release_json(fitted.json_parts())
    else:
        terminal.print_release(screen(), fitted)
    log.print(f"Nothing was spent: it is computed from {release_file} alone.")


def _ridge(text: str | None) -> str | float | None:
    """Return the ridge as the study takes it, or raise UsageError."""
    if text is None or text == "sqrt":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f'--ridge {text}: it must be a number above 0, or "sqrt"') from None

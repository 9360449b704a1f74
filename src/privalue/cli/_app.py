"""Define the commands, and run one of them.

Results go to stdout, log and progress to stderr; with ``--json`` stdout is one JSON object. An
error is one line on stderr, and the exit code says which kind (``privalue.errors``).

The docstring of a command is its help text.
"""

import json
import logging
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import typer.exceptions

import privalue
from privalue._entry import INTERRUPTED
from privalue.artefact import Release
from privalue.cli import _demo as demonstration
from privalue.cli import _screen as terminal
from privalue.cli._console import (
    Json,
    LibraryLog,
    StudyFile,
    log,
    notes,
    print_json,
    progress,
    screen,
)
from privalue.cli._finish import published, require_finished
from privalue.cli._ledger import ledgers, tell
from privalue.cli._options import in_options
from privalue.cli._plan import plan, world_named
from privalue.cli._report import Justification, publish_and_tell, report
from privalue.cli._reproduce import reproduce
from privalue.core import SeededForExperimentsOnly
from privalue.curator import inspect as inspect_data
from privalue.curator import prepare
from privalue.curator import release as release_data
from privalue.errors import PrivalueError, UsageError
from privalue.estimate import refit as refit_release
from privalue.ledger import open_ledger
from privalue.planning import resolve
from privalue.readers import column_names
from privalue.report import (
    account_rows,
    guess,
    guessed_json,
    require_private_place,
    require_publishable,
    write_private_page,
)
from privalue.simulation import simulate_to_file
from privalue.study import Study, declared_size, ridge_of, study_template

# In the order of work.
COMMANDS = (
    *("demo", "simulate", "init", "check", "plan", "ledger", "inspect", "release", "report"),
    *("refit", "reproduce"),
)
EXAMPLE = """
\b
Example:
  privalue init study.toml                        what is public: edit it
  privalue check study.toml                       all that can be said without data
  privalue plan study.toml --trajectories 5000    the error to expect
  privalue release study.toml --data rows.csv --out released --no-ledger

\b
Documentation: docs/README.md in the source; make docs makes a site of it.
"""


class InOrder(typer.core.TyperGroup):
    """The group of commands, listed in the order in which a user comes to need them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands; one that is not in ``COMMANDS`` comes last."""
        known = super().list_commands(ctx)
        return sorted(known, key=lambda n: COMMANDS.index(n) if n in COMMANDS else len(COMMANDS))


app = typer.Typer(
    cls=InOrder,
    pretty_exceptions_enable=False,  # they would print local variables, private ones included
    rich_markup_mode=None,
    epilog=EXAMPLE,
)
Data = Annotated[
    str,
    typer.Option(
        "--data",
        help="A file, folder or quoted glob (CSV, Parquet), FILE.xlsx::SHEET, "
        "\"SELECT ... FROM 'file.parquet'\", FILE.duckdb::TABLE, "
        "FILE.sqlite::TABLE, postgresql://...::TABLE, a query in place of TABLE, or minari:NAME.",
    ),
]

Engine = Annotated[
    str, typer.Option("--engine", help="local: this machine; spark: a cluster (extra: spark).")
]
Memory = Annotated[
    str,
    typer.Option("--memory", help="For rows that come in any order, e.g. 2GB; more goes to disk."),
]

app.add_typer(ledgers, name="ledger")
app.command()(plan)
app.command()(report)
app.command()(reproduce)


def _version(wanted: bool) -> None:
    """Print the version, and leave."""
    if wanted:
        print(f"privalue {privalue.__version__}")
        raise typer.Exit


def _quiet(wanted: bool) -> None:
    """Set whether only errors are logged."""
    log.quiet = wanted


def _log_format(chosen: str) -> None:
    """Set whether the log is lines for people, or JSON for jobs."""
    log.as_json = chosen == "json"


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback (it may quote private data).")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            *("--quiet", "-q"), callback=_quiet, is_eager=True, help="Only errors on stderr."
        ),
    ] = False,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(
            "--log-format",
            callback=_log_format,
            is_eager=True,
            help="json, for jobs: an object a line on stderr, with level and message.",
        ),
    ] = "text",
    version: Annotated[
        bool,
        typer.Option(
            *("--version", "-V"), callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """What a policy is worth, told privately.

    Differentially private policy evaluation.
    """


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("study.toml"),
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="Fill in [data] by the names of its columns; no row is looked at."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a commented study file."""
    _require_absent(path, force)
    guessed = None if data is None else guess(column_names(data))
    text = (
        study_template()
        if guessed is None
        else study_template(guessed.values, {**guessed.questions, **guessed.hints})
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror}") from None
    if as_json:
        print_json({"study": str(path), **({} if guessed is None else guessed_json(guessed))})
    elif guessed is None:
        print(f"Wrote {path}. Edit it, then: privalue check {path}")
    else:
        terminal.print_guesses(screen(), guessed)
        print(f"Wrote {path}. Answer what it asks, then: privalue check {path}")


@app.command()
def check(study_file: StudyFile, as_json: Json = False) -> None:
    """Say everything that can be said without data."""
    prepared = prepare(_settled(study_file))
    study, design, constants = prepared.study, prepared.design, prepared.calibration
    ridge = None if constants is None else ridge_of(study, declared_size(study).trajectories)
    if as_json:
        print_json(
            {
                "valid": True,
                "study": study.public_description(),
                "states": design.states,
                "features": design.dimension,
                "return_bounds": list(study.return_bounds),
                "clamped": {
                    "rewards": list(study.values.rewards),
                    "returns": list(study.values.returns) if study.values.returns else None,
                },
                "unvisited": study.values.unvisited_value,
                **({} if constants is None else {"alpha": constants.alpha, "beta": constants.beta}),
                **({} if ridge is None else {"ridge": ridge}),
                "condition_number": design.weighted.condition if design.full_rank else None,
                "notes": terminal.advice(prepared),
            }
        )
    else:
        terminal.print_check(screen(), prepared)
        print(f"Next: privalue inspect {study_file} --data DATA, for the curator's eyes")


@app.command()
def simulate(
    world: Annotated[
        str,
        typer.Argument(
            metavar="MDP",
            help="chain, chain:N=40,p=0.5, random-chain:N=20, grid:rows=4,columns=5, "
            "gym:FrozenLake-v1,policy=greedy, icu-sepsis",
        ),
    ],
    trajectories: Annotated[int, typer.Option("--trajectories", help="How many.")],
    out: Annotated[Path, typer.Option("--out", help="A .csv, .csv.gz or .parquet file.")],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same rows.")] = 0,
    truncate_at: Annotated[
        int | None, typer.Option("--truncate-at", help="Cut trajectories after so many rows.")
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
    _require_absent(out, force)
    chosen = world_named(world)
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
        print(f"Wrote {written.trajectories:,} trajectories, {written.rows:,} rows: {written.path}")
        print(
            f"{chosen.text}: {chosen.process.states} states, rewards within [{low:g}, {high:g}], "
            f"discount {chosen.process.discount:g}"
        )
        if written.truncated:
            print(f"{written.truncated:,} were cut, {written.dropped:,} of them dropped.")


@app.command()
def inspect(
    study_file: StudyFile,
    data: Data,
    page: Annotated[
        Path | None,
        typer.Option("--page", help="Also write them to an .html file, PRIVATE and yours alone."),
    ] = None,
    engine: Engine = "local",
    memory: Memory = "2GB",
    as_json: Json = False,
) -> None:
    """Show the curator what the data says: PRIVATE, nothing spent."""
    limit = parse_memory(memory)
    if page is not None:
        require_private_place(page)
    study = _settled(study_file)
    with progress("Reading rows", then="Computing") as update:
        diagnostics = inspect_data(study, data, engine=engine, memory=limit, progress=update)
    log.label("PRIVATE: for the curator only. None of this may be published.")
    if page is not None:
        log.print(f"Wrote {write_private_page(diagnostics, page)}, PRIVATE")
    if as_json:
        print_json(diagnostics.private_columns())
    else:
        terminal.print_private_diagnostics(screen(), diagnostics)


@app.command()
def release(
    study_file: StudyFile,
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="A folder for the release and its report.")],
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            help="The ledger: a file, or postgresql://...; the environment's PRIVALUE_LEDGER, if "
            "neither this nor --no-ledger is given.",
        ),
    ] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Release without recording what it spends.")
    ] = False,
    expect_new: Annotated[
        bool,
        typer.Option("--expect-new", help="Exit 4 where the ledger would answer with an old one."),
    ] = False,
    accept_large_delta: Annotated[
        bool, typer.Option("--accept-large-delta", help="Allow delta >= 1/m.")
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Release even if the plan is no better than guessing."),
    ] = False,
    justification: Justification = None,
    engine: Engine = "local",
    memory: Memory = "2GB",
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed-not-private", help="Seeded noise, for experiments; the result is NOT private."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Release the value function once, with noise."""
    if ledger is None and not no_ledger:
        ledger = os.environ.get("PRIVALUE_LEDGER") or None
    if (ledger is None) != no_ledger:
        raise UsageError(
            "choose one: --ledger FILE (or PRIVALUE_LEDGER) records what the release spends; with "
            "--no-ledger nobody does, and you keep count of epsilon and delta yourself"
        )
    limit = parse_memory(memory)
    require_finished(out)
    require_publishable(out)
    study = _settled(study_file)
    with published(out, study=study_file, justification=justification) as outbox:
        with notes(), progress("Reading rows", then="Computing") as update:
            released = release_data(
                study,
                data,
                ledger=None if ledger is None else open_ledger(ledger),
                outbox=outbox,
                expect_new=expect_new,
                accept_large_delta=accept_large_delta,
                accept_useless=anyway,
                entropy=None if seed is None else SeededForExperimentsOnly(seed),
                engine=engine,
                memory=limit,
                progress=update,
                say=lambda line: tell([line]),
            )
        publish_and_tell(released, out, study=study, ledger=ledger, justification=justification)
    if as_json:
        sys.stdout.writelines(_with_reuse(released))
    else:
        terminal.print_release(screen(), released)


def _with_reuse(released: Release) -> Iterator[str]:
    """Yield the text of the release, with the one entry that is not part of it: ``reused``."""
    parts = released.json_parts()
    yield f'{{\n  "reused": {json.dumps(released.reused)},'
    yield next(parts).removeprefix("{")
    yield from parts


@app.command()
def refit(
    release_file: Annotated[
        Path,
        typer.Argument(metavar="RELEASE", readable=False, help="A dp-ssp release, or its folder."),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="A folder for the new release and its report.")
    ],
    features: Annotated[
        str | None, typer.Option("--features", help="A matrix: .npy, .npz, .csv or .parquet.")
    ] = None,
    aggregate: Annotated[
        int | None, typer.Option("--aggregate", help="Tie the values of so many adjacent states.")
    ] = None,
    tabular: Annotated[
        bool, typer.Option("--tabular", help="A value of its own for every state.")
    ] = False,
    weights: Annotated[
        str | None, typer.Option("--weights", help="A CSV file of state and weight, or uniform.")
    ] = None,
    ridge: Annotated[
        str | None, typer.Option("--ridge", help='Fit by LSL: lambda, or "sqrt".')
    ] = None,
    ridge_scale: Annotated[
        float | None, typer.Option("--ridge-scale", help="lambda over sqrt(m).")
    ] = None,
    shrinkage: Annotated[
        bool | None, typer.Option("--shrinkage/--no-shrinkage", help="Draw thin states together.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", help="A CSV file: release the policy's one number.")
    ] = None,
    level: Annotated[float | None, typer.Option("--level", help="Level of the intervals.")] = None,
    as_json: Json = False,
) -> None:
    """Fit other features to a dp-ssp release; spends nothing."""
    if sum((features is not None, aggregate is not None, tabular)) > 1:
        raise UsageError("choose one of --features, --aggregate and --tabular")
    chosen: dict[str, object] | None = None
    if features is not None:
        chosen = {"kind": "matrix", "file": features}
    elif aggregate is not None:
        chosen = {"kind": "aggregate", "size": aggregate}
    elif tabular:
        chosen = {"kind": "tabular"}
    mechanism = {
        "ridge": _ridge(ridge),
        "ridge_scale": ridge_scale,
        "shrinkage": shrinkage,
    }
    given = {key: value for key, value in mechanism.items() if value is not None}
    require_finished(out)
    require_publishable(out)
    fitted = refit_release(
        Release.load(release_file),
        features=chosen,
        weights=_weights(weights),
        mechanism=given or None,
        start=start,
        level=level,
    )
    publish_and_tell(fitted, out)
    if as_json:
        sys.stdout.writelines(fitted.json_parts())
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


def _weights(text: str | None) -> dict[str, str] | None:
    """Return the section ``[weights]`` for a file or "uniform"."""
    if text is None:
        return None
    return {"kind": "uniform"} if text == "uniform" else {"file": text}


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="A folder for everything it makes.")] = Path(
        "demo"
    ),
    as_json: Json = False,
) -> None:
    """Go the whole journey on the built-in recovery chain."""
    folder = demonstration.vacant_folder(out)
    console = log if as_json else screen()
    made = demonstration.run(
        folder,
        say=lambda text: console.print(text, style="bold"),
        checked=lambda prepared: terminal.print_check(console, prepared),
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
                "pictures": [str(path) for path in made.pictures],
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
        f"{made.predicted:.4f}); the policy's one number is off by {made.policy_error:.4f}.",
        style="bold",
    )
    console.print("Where to look:", style="bold")
    for path, what in (
        (made.files.page, "the report: open it in a browser"),
        (made.files.values, "every value, for a spreadsheet or a program"),
        (made.files.registry, "the entry for a registry of deployments"),
        (made.pictures[0], "the release against the exact values"),
        (made.private_page, "the curator's PRIVATE page, kept apart from what is public"),
    ):
        console.print(f"  {path}  {what}", soft_wrap=True)


def _settled(study_file: Path) -> Study:
    """Return the study with its mechanism chosen.

    If the study leaves the choice open ("auto"), log which mechanism was chosen, and why.
    """
    study = Study.load(study_file)
    settled = resolve(study)
    if study.mechanism.name == "auto":
        log.print(f"Mechanism: {settled.why}.")
    return settled.study


def parse_memory(text: str) -> int:
    """Return the bytes that "2GB", "500 MB" or "1.5GiB" means; at least 64 MB."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"--memory {text}: it must be a size such as 500MB or 2GB")
    number, prefix, binary = found.groups()
    size = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " "))
    if not 64_000_000 <= size <= 2**50:
        raise UsageError(f"--memory {text}: it must be at least 64MB, such as 500MB or 2GB")
    return size


def _require_absent(path: Path, force: bool) -> None:
    """Raise UsageError if the file exists, unless it may be overwritten."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists; use --force to overwrite it, or give another name")


def main() -> None:
    """Run the command line and leave with the exit code of what happened."""
    logging.captureWarnings(True)
    logging.getLogger().addHandler(LibraryLog())
    try:
        _listen(_once())
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the command itself
        code = _failed("interrupted", INTERRUPTED, False)
    _listen(lambda *_: os._exit(INTERRUPTED))  # nothing is left but to leave
    sys.exit(code)


def _listen(handler: Callable[..., object]) -> None:
    """Answer Ctrl-C, an end from outside and a terminal that was closed alike.

    What a parent had ignored, as nohup does, stays ignored.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _once(seconds: float = 5.0) -> Callable[..., None]:
    """Return what leaves as after Ctrl-C, whatever ends the process from outside.

    So private files on disk are removed, and what is reserved is given back, before it ends. What
    comes in the seconds after the first signal would only disturb that: a closed terminal sends
    two, and people press twice.
    """
    heard: list[float] = []

    def interrupted(*_: object) -> None:
        heard.append(time.monotonic())
        if len(heard) == 1 or heard[-1] - heard[0] > seconds:
            raise KeyboardInterrupt

    return interrupted


def run(arguments: list[str]) -> int:
    """Run one command, and return its exit code; an error becomes one line on stderr."""
    try:
        return _ran(arguments)
    finally:
        log.quiet = log.as_json = False  # options hold for one command only


def _ran(arguments: list[str]) -> int:
    """Run one command, and return its exit code.

    Only known errors show their message: any other exception may quote private data, so its type
    alone is shown, unless the user asks for a traceback.
    """
    if not arguments:
        app(["--help"], prog_name="privalue", standalone_mode=False)
        return 2
    arguments = _general_first(arguments)
    debug = "--debug" in arguments
    if "--install-completion" in arguments and not os.path.isabs(os.path.expanduser("~")):
        return _failed("you have no home to install it in; --show-completion prints it", 2, debug)
    try:
        code = app(arguments, prog_name="privalue", standalone_mode=False)
        if code == INTERRUPTED:  # typer makes this of Ctrl-C, and says nothing
            return _failed("interrupted", INTERRUPTED, debug)
        # typer leaves with 1 where it cannot tell which shell to complete for
        return (2 if code == 1 else code) if isinstance(code, int) else 0
    except typer.exceptions.TyperException as problem:
        return _failed(_with_hint(problem), 2, debug)
    except (typer.Abort, KeyboardInterrupt):
        return _failed("interrupted", INTERRUPTED, debug)
    except PrivalueError as problem:
        return _failed(in_options(str(problem)), problem.exit_code, debug)
    except MemoryError:
        return _failed("there is not enough memory for this; use fewer states", 3, debug)
    except OSError as problem:
        return _failed(
            f"the system refused: {problem.strerror or type(problem).__name__}", 3, debug
        )
    except Exception as problem:  # a bug of ours
        return _failed(
            f"internal error ({type(problem).__name__}); this is a bug of privalue: please report "
            "it, without private data (--debug shows a traceback)",
            70,
            debug,
        )


def _general_first(arguments: list[str]) -> list[str]:
    """Move the program's own options before the command: users write them after it as well."""
    own, others, rest = [], [], iter(arguments)
    for word in rest:
        if word == "--":
            others += [word, *rest]
        elif word == "--log-format":
            own += [word, *islice(rest, 1)]
        elif word in {"--debug", "--quiet", "-q"} or word.startswith("--log-format="):
            own.append(word)
        else:
            others.append(word)
    return own + others


def _with_hint(problem: Any) -> str:
    """Return the message of an error in the arguments, with what to do about it."""
    message: str = problem.format_message()
    if message.startswith("Missing command"):
        *names, last = problem.ctx.command.list_commands(problem.ctx)
        return f"{problem.ctx.command_path} needs one of {', '.join(names)} and {last}"
    if "'--charge'" in message:
        return (
            "choose one: --charge keeps what it reserved spent, and is always safe; --cancel gives "
            "it back, if you know that nothing came of it"
        )
    if "unexpected extra argument" in message:
        return f"{message} If that was a glob, quote it: --data 'folder/*.parquet'"
    return message


def _failed(message: str, code: int, debug: bool) -> int:
    """Log an error in one line, and return its exit code."""
    log.fail(message, code, traceback.format_exc() if debug else None)
    return code

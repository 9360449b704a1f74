"""Go from the charge on: charge, draw, commit, and finish what could not be committed.

``curator`` has everything before that, and hands over a ``Ready``. Nothing here may fail because of
private values, so what follows the draw is rehearsed on public numbers before the charge. What was
drawn is kept until the ledger has it, and ``finish`` puts it there if the release could not.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from privalue._described import described
from privalue._outbox import Outbox, Paid
from privalue._patience import PATIENCE, Hold, insist, tell, uninterrupted
from privalue.artefact import Accepted, Guarantee, PublicNoise, Release, Software
from privalue.core import (
    Chosen,
    DpOpe,
    DpSsp,
    Entropy,
    Mechanism,
    OperatingSystemEntropy,
    Private,
    PublicSize,
    VisitStatistics,
    compile_draw,
    draw,
    sealed,
)
from privalue.errors import ChargedError, PrivalueError, StudyError, UnavailableError, UsageError
from privalue.estimate import (
    estimates_of,
    largest_weights,
    published,
    published_policy,
    published_stages,
    rehearsal,
)
from privalue.ledger import Ledger, Reservation, open_ledger, what_happened
from privalue.study import Study, entries_of, ridge_of
from privalue.version import VERSION

_WAITING = f"the ledger is waited for, up to {PATIENCE:g} s"


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Ready(Private):
    """What a release is made of once everything public has been decided."""

    study: Study
    statistics: VisitStatistics
    size: PublicSize
    mechanism: Mechanism | DpOpe
    accepted: tuple[Accepted, ...]


@np.errstate(all="ignore")
def rehearse(mechanism: Mechanism | DpOpe, study: Study) -> None:
    """Compile the draw, and run what follows it, at the largest numbers that there could be.

    What fails here fails from public numbers, before the charge; what passes here passes after it.
    """
    compile_draw(mechanism)
    try:
        if isinstance(mechanism, DpOpe):
            published_policy(study, mechanism, largest_weights(mechanism))
            return
        made = rehearsal(study, mechanism)
        if made is not None:
            published(made, study)
    except StudyError:
        raise
    except (ValueError, ArithmeticError):
        raise StudyError(
            "[weights] weights, features, returns or ridge are too extreme to compute with; state "
            "them in other units"
        ) from None


def paid_for(
    reserved: Reservation,
    ready: Ready,
    source: Entropy,
    ledger: Ledger,
    outbox: Outbox | None,
    say: Callable[[str], None] | None,
) -> Release:
    """Charge, draw and commit: from the charge on, nothing may fail because of private values.

    Whatever else fails, what was drawn is kept. An interrupt waits until it is.
    """
    _require_memory(ready.study)
    with uninterrupted() as hold:
        head = _charge(reserved, hold, say)
        drawn: Release | None = None
        paid: Paid | None = None
        try:
            drawn = drawn_release(ready, source, head)
            place = ledger.place
            paid = Paid(
                ledger=place if "://" in place else os.path.abspath(place),
                dataset=reserved.dataset,
                entry=reserved.sequence,
                text=drawn.to_json(),
            )
            if outbox is not None:
                outbox.fill(paid)
            _commit(reserved, paid, hold, say)
        except (Exception, KeyboardInterrupt) as problem:
            if drawn is None or paid is None:
                raise _lost(problem, reserved) from problem
            raise _charged(problem, drawn, paid, outbox) from problem
        if outbox is not None:
            outbox.recorded = True
    return drawn


def _require_memory(study: Study) -> None:
    """Raise MemoryError before the charge where what follows it would have too little room.

    A release takes some 700 bytes a state as a text, and a few times that on the way.
    """
    np.empty(2_000 * entries_of(study), dtype=np.uint8)


def _charge(reserved: Reservation, hold: Hold, say: Callable[[str], None] | None) -> str:
    """Charge, and return the head; wait for a ledger that is locked, full or away."""
    try:
        return insist(
            reserved.charge, sleep=hold.sleep, waiting=f"{_WAITING}; nothing is drawn yet", say=say
        )
    except KeyboardInterrupt as problem:
        if not reserved.doubtful:
            raise
        raise ChargedError(
            f'dataset "{reserved.dataset}": perhaps charged: the ledger did not answer when entry '
            f"{reserved.sequence} was charged, and nothing was drawn (interrupted); "
            "ledger.show(DATASET) shows it",
            why="interrupted",
            exit_code=130,
        ) from problem


# A caller may have turned warnings into errors; none may come after the charge.
@np.errstate(all="ignore")
def drawn_release(ready: Ready, source: Entropy, head: str | None) -> Release:
    """Draw the noise, once, and make a release of what was drawn.

    Args:
        ready: statistics and mechanism. PRIVATE.
        source: where the noise comes from; only the operating system's makes a private release.
        head: the hash of the charge on the ledger, if there is one.
    """
    study, size, mechanism = ready.study, ready.size, ready.mechanism
    drawn = draw(mechanism, ready.statistics, source)
    # From here on everything is post-processing of what was drawn.
    stages, chosen = drawn.stages, drawn.chosen
    if isinstance(mechanism, DpOpe):
        parts = published_policy(study, mechanism, drawn.numbers)
    else:
        estimates = estimates_of(study, mechanism, drawn.numbers, chosen=chosen)
        parts = published(estimates, study)
        parts |= published_stages(mechanism, stages, chosen, study.report.level)
    return Release(
        private=type(source) is OperatingSystemEntropy,
        study=study.public_description(),
        privacy=Guarantee(
            epsilon=study.privacy.epsilon,
            delta=study.privacy.delta,
            unit=study.privacy.unit,
            neighbours=study.privacy.neighbours,
            invalid=study.data.invalid,
        ),
        mechanism=study.mechanism.name,
        terms=described(mechanism.terms),
        noise=_public_noise(study, mechanism, chosen),
        ridge=ridge_of(study, size.trajectories),
        trajectories=size.units if study.privacy.unit == "trajectory" else None,
        persons=size.units if study.privacy.unit == "person" else None,
        **parts,
        accepted=list(ready.accepted),
        ledger_head=head,
        created=datetime.now(UTC).strftime("%Y-%m-%d"),
        software=Software(version=VERSION),
    )


def _public_noise(study: Study, mechanism: Mechanism | DpOpe, chosen: Chosen | None) -> PublicNoise:
    """Return what is public of the noise: mechanisms hold no private number."""
    constants = mechanism.calibration
    if isinstance(mechanism, DpOpe):
        return PublicNoise(
            calibration="exact",
            law="laplace",
            alpha=constants.alpha,
            beta=0.0,
            shape="weights",
            grid=mechanism.sigma / float(mechanism.deviations[0]),
            sigma=mechanism.sigma,
        )
    if isinstance(mechanism, DpSsp):
        noise = mechanism.noise_for(chosen or mechanism.unchosen)
        return PublicNoise(
            calibration=study.mechanism.calibration,
            alpha=constants.alpha,
            beta=constants.beta,
            shape="statistics",
            grid=max(noise.steps_grid, noise.counts_grid) * noise.step,
            sigma=noise.sigma,
        )
    return PublicNoise(
        calibration=study.mechanism.calibration,
        alpha=constants.alpha,
        beta=constants.beta,
        shape=study.mechanism.noise,
        grid=mechanism.grid,
    )


def _lost(problem: BaseException, reserved: Reservation) -> ChargedError:
    """Return what to raise if nothing came of a charge: an error of ours, or of the machine."""
    memory = isinstance(problem, MemoryError)
    why = "there was not enough memory" if memory else f"internal error ({type(problem).__name__})"
    return ChargedError(
        f'dataset "{reserved.dataset}": charged, and lost: nothing was kept of what was drawn '
        f"({why}); the amount stays spent",
        why=why,
        exit_code=3 if memory else 70,
    )


def _commit(
    reserved: Reservation, paid: Paid, hold: Hold, say: Callable[[str], None] | None
) -> None:
    """Put what was drawn on record; wait for a ledger that is locked, full or away."""
    found = insist(
        lambda: reserved.commit(paid.text),
        sleep=hold.sleep,
        waiting=f"{_WAITING}; the charge stands, and what was drawn is kept",
        say=say,
    )
    tell(found, say)


def _charged(
    problem: BaseException, drawn: Release, paid: Paid, outbox: Outbox | None
) -> ChargedError:
    """Return what to raise if what was drawn could not be put on record."""
    kept = outbox.path if outbox is not None and outbox.filled else None
    where = "this error holds it" if kept is None else f"{kept} keeps it"
    interrupted = isinstance(problem, KeyboardInterrupt)
    why = "interrupted" if interrupted else what_happened(problem)
    code = problem.exit_code if isinstance(problem, PrivalueError) else 70
    return ChargedError(
        f'dataset "{paid.dataset}": charged: do not release again; what was drawn is not on record '
        f"yet ({why}); {where}, and privalue.finish puts it there",
        release=drawn,
        outbox=kept,
        paid=paid,
        why=why,
        exit_code=130 if interrupted else code,
    )


def finish(
    paid: str | Path | ChargedError | Paid,
    *,
    ledger: str | Path | Ledger | None = None,
    say: Callable[[str], None] | None = None,
) -> Release:
    """Put on record what was drawn and charged, and return it; nothing is spent.

    To finish twice is the same as once.

    Args:
        paid: an outbox, which goes away once the ledger has what it holds; or the error that a
            release ended with.
        ledger: where it was charged; the file that the outbox names, if left out.
        say: as for ``release``.

    Returns:
        What was paid for.

    Raises:
        DataError: the file is no outbox, or not whole.
        LedgerError: this ledger has no such charge.
        UnavailableError: nobody answers; try again.

    >>> from tempfile import TemporaryDirectory
    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory", dataset="clinic")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> def released(ledger, outbox):
    ...     try:
    ...         return pv.release(study, people, ledger=ledger, outbox=outbox)
    ...     except pv.ChargedError as problem:  # it is paid for: do not release again
    ...         return pv.finish(problem)
    >>> with TemporaryDirectory() as folder:
    ...     ledger = pv.open_ledger(f"{folder}/ledger.db")
    ...     account = ledger.declare("clinic", epsilon=2, delta=1e-5, unit="trajectory")
    ...     print(released(ledger, f"{folder}/outbox").private)
    True
    """
    if isinstance(paid, str | Path):
        released = finish(Outbox.read(paid), ledger=ledger, say=say)
        Path(paid).unlink(missing_ok=True)
        return released
    found: Paid = paid.paid if isinstance(paid, ChargedError) else paid
    if ledger is None and found.needs_address:
        raise UsageError(
            f"it was charged on the ledger {found.ledger}, whose user and password are not kept; "
            "name the ledger"
        )
    ledger = found.ledger if ledger is None else ledger
    opened = open_ledger(ledger) if isinstance(ledger, str | Path) else ledger
    drawn = Release.parse(found.text)
    with uninterrupted() as hold:
        reserved = insist(
            lambda: opened.charged(found.entry, head=drawn.ledger_head or ""),
            sleep=hold.sleep,
            waiting=_WAITING,
            say=say,
            # A file that cannot be opened is probably another than the one that was meant.
            passes=lambda problem: isinstance(problem, UnavailableError),
        )
        _commit(reserved, found, hold, say)
    return drawn

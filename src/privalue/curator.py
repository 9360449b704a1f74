"""Run the one sequence from public study and private data to what leaves, or stays.

``release`` goes the whole way: prepare (public), reserve, read, charge, compute, draw, commit,
publish. Whatever can be refused is refused before the charge, and whatever could fail afterwards is
tried before it on public numbers. What was drawn is kept until the ledger has it, and ``finish``
puts it there if the release could not. ``inspect`` computes everything up to the noise, for the
curator alone: it returns a private type, adds no noise and spends nothing.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from privalue._described import described
from privalue._diagnostics import Diagnostics, PolicyDiagnostics
from privalue._outbox import Outbox, Paid
from privalue._patience import PATIENCE, Hold, insist, uninterrupted
from privalue._types import Progress
from privalue.artefact import (
    Accepted,
    Guarantee,
    NoiseScale,
    PublicNoise,
    Release,
    Software,
    policy_doubt,
)
from privalue.core import (
    Calibration,
    Chosen,
    Design,
    DpOpe,
    DpSsp,
    Entropy,
    Mechanism,
    OperatingSystemEntropy,
    Private,
    PublicSize,
    ReleasedScale,
    SeededForExperimentsOnly,
    VisitStatistics,
    draw,
    sealed,
)
from privalue.errors import (
    BudgetError,
    ChargedError,
    PrivalueError,
    PrivalueWarning,
    StudyError,
    UnavailableError,
    UsageError,
)
from privalue.estimate import (
    estimates_of,
    largest_weights,
    published,
    published_policy,
    published_stages,
    rehearsal,
)
from privalue.ledger import (
    Ledger,
    Reservation,
    StoredRelease,
    open_ledger,
    refusing,
    study_hash,
    what_happened,
)
from privalue.planning import (
    likely_choice,
    noise_by_state,
    require_small_delta,
    require_useful,
    require_useful_policy,
    resolve,
    theta_before_noise,
    warn_caller,
)
from privalue.readers import DEFAULT_MEMORY, asks_a_database, gathered
from privalue.study import (
    Study,
    declared_size,
    design,
    gaussian_alpha,
    mechanism_for,
    policy_mechanism,
    public_size,
    refuse_early,
    required_trajectories,
    ridge_of,
    rules_that_need_trajectories,
)
from privalue.version import VERSION

MOST_STORED = 900_000_000  # bytes: SQLite and PostgreSQL take no longer text


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that is settled before any data is opened; the mechanism, too, where it was "auto".

    ``mechanism`` is None where its constants depend on an m that the study does not declare.
    """

    study: Study
    design: Design
    mechanism: Mechanism | DpOpe | None

    @property
    def calibration(self) -> Calibration | None:
        """Return alpha and beta; None where they are not known yet."""
        return None if self.mechanism is None else self.mechanism.calibration

    @property
    def of_values(self) -> Mechanism | None:
        """Return the mechanism, if its numbers become values of states; else, or not yet, None."""
        return None if isinstance(self.mechanism, DpOpe) else self.mechanism

    def mechanism_for(self, size: PublicSize) -> Mechanism | DpOpe:
        """Return the mechanism for the public sizes of a data set, which may be those declared."""
        if self.mechanism is not None and size == declared_size(self.study):
            return self.mechanism
        if self.study.values_a_policy:
            return policy_mechanism(self.study, size)
        return mechanism_for(self.study, self.design, size)


def prepare(study: Study) -> Prepared:
    """Check everything that can be checked without data.

    Args:
        study: what is public.

    Returns:
        The study with its choices settled, the design, and the mechanism where it is known.

    Raises:
        StudyError: the study asks for what cannot be done; nothing here depends on data.
    """
    study = resolve(with_columns(study, None)).study
    if study.values_a_policy:
        valued = policy_mechanism(study, declared_size(study))
        return Prepared(study=study, design=valued.design, mechanism=valued)
    built = design(study)
    size, rules = declared_size(study), rules_that_need_trajectories(study)
    if rules and size.trajectories is None:
        if not study.limits.counts_trajectories:
            required_trajectories(size.trajectories, rules[0])
        refuse_early(study, built)
        return Prepared(study=study, design=built, mechanism=None)
    return Prepared(study=study, design=built, mechanism=mechanism_for(study, built, size))


def with_columns(study: Study, columns: Mapping[str, str] | None) -> Study:
    """Return the study with names of columns added to those that it names.

    Raises:
        UsageError: it is not a study.
    """
    if not isinstance(study, Study):
        raise UsageError(
            f"a Study is needed, not {type(study).__name__}; read one with Study.load(path)"
        )
    return study if columns is None else study.replace(columns=columns)


def inspect(
    study: Study,
    data: Any,
    *,
    columns: Mapping[str, str] | None = None,
    engine: str = "local",
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Diagnostics | PolicyDiagnostics:
    """Return the curator's private diagnostics of ``data``; nothing is drawn, nothing is spent.

    Args:
        study: what is public.
        data: as for ``release``.
        columns: as for ``release``.
        engine: "local", or "spark".
        memory: bytes that rows may take while they are put in order; more goes to disk.
        threads: how many threads read rows on this machine; by default one for each core.
        progress: called with the number of rows read, and of all rows where known.

    Returns:
        Everything up to the noise. PRIVATE: a study that is changed because of it has no
        guarantee.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> pv.inspect(study, people)
    Diagnostics(private, mechanism='dp-ssp', states=2)
    """
    prepared = prepare(with_columns(study, columns))
    study = prepared.study
    statistics = gathered(
        data, study, engine=engine, memory=memory, threads=threads, progress=progress
    )
    mechanism = prepared.mechanism_for(public_size(study, statistics))
    perturbation = mechanism.perturbation(statistics)
    if isinstance(mechanism, DpOpe):
        return PolicyDiagnostics(
            study=study,
            statistics=statistics,
            mechanism=mechanism,
            perturbation=perturbation,
            by_query=asks_a_database(data),
        )
    chosen = likely_choice(mechanism, statistics) if isinstance(mechanism, DpSsp) else None
    return Diagnostics(
        study=study,
        design=prepared.design,
        statistics=statistics,
        mechanism=mechanism,
        perturbation=perturbation,
        chosen=chosen,
        theta=theta_before_noise(study, mechanism, statistics),
        noise_by_state=noise_by_state(mechanism, statistics, perturbation.sigma, chosen),
        by_query=asks_a_database(data),
    )


def release(
    study: Study,
    data: Any,
    *,
    ledger: str | Path | Ledger | None = None,
    columns: Mapping[str, str] | None = None,
    spend: str | None = None,
    outbox: str | Path | Outbox | None = None,
    expect_new: bool = False,
    accept_large_delta: bool = False,
    accept_useless: bool = False,
    seed: int | None = None,
    entropy: Entropy | None = None,
    engine: str = "local",
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Release:
    """Release the value function of ``data``: each call is a new release, and spends anew.

    With a ledger the cost is reserved before the data is opened and charged as soon as statistics
    exist; an identical request gets the stored release (``reused``), and spends nothing: the data
    is not even opened. Without one, nothing is recorded.

    Args:
        study: what is public.
        data: a file name, folder or glob, a database; a frame or whatever Arrow reads, a dict of
            columns, a list of dicts; a list of episodes, or a recording (D4RL, d3rlpy, Minari).
        ledger: where the dataset's budget is kept: a file, the address of a server, or a ledger
            from ``open_ledger``.
        columns: names of columns, added to those of the study, e.g. {"trajectory": "stay_id"}.
        spend: a share of what the ledger has left, e.g. "25%", in place of the study's epsilon and
            delta: the release is of ``study.replace(spend="25%", epsilon=None, delta=None)``.
        outbox: a file that keeps what was drawn until the ledger has it, so that not even a process
            that is killed loses what was paid for; an ``Outbox`` stays until its block ends.
        expect_new: refuse to answer an identical request with the stored release.
        accept_large_delta: allow delta >= 1/m, where publishing one person's data outright would
            satisfy the definition.
        accept_useless: allow a release whose predicted error is at least 0.95 of that of guessing
            the middle of the bounds for every state.
        seed: makes noise reproducible, for experiments: the release is NOT private, and says so;
            it does not go on a ledger.
        entropy: by default the operating system's; any other makes ``private`` false.
        engine: "local", or "spark" (``privalue.readers.spark``).
        memory: bytes that rows may take while they are put in order; more goes to disk.
        threads: how many threads read rows on this machine; by default one for each core.
        progress: called with the number of rows read, and of all rows where known.
        say: called with what the ledger found, a line each; while the ledger is waited for, from
            another thread.

    Returns:
        What may be published, and nothing else.

    Warns:
        PrivalueWarning: a choice is allowed but probably not meant; always before the charge. Of
            dp-ope also afterwards, where the released numbers speak against the value.

    Raises:
        StudyError: the study asks for what cannot be done, or for what is of no use.
        DataError: the data is invalid; nothing was drawn, and nothing is charged.
        BudgetError: the dataset's budget does not allow it, or it is not new and should be.
        UnavailableError: a server does not answer; trying again never spends twice.
        ChargedError: the charge stands, and the ledger did not take the release for a minute: it
            is in the error and in the outbox, and ``finish`` puts it on record.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> release = pv.release(study, people)
    >>> release["well"].flags, release.private
    ((), True)
    """
    study = with_columns(study, columns)
    if spend is not None:
        study = study.replace(spend=spend, epsilon=None, delta=None)
    prepared = prepare(study) if study.privacy.is_fixed else None
    if seed is not None:
        if entropy is not None:
            raise UsageError("seed= and entropy= both say where noise comes from; give one")
        entropy = SeededForExperimentsOnly(int(seed) if isinstance(seed, np.integer) else seed)
    if ledger is not None and entropy is not None:
        raise UsageError("seeded experiments do not go on a ledger; leave one of the two out")
    kept_by = None if ledger is None else opened_ledger(ledger)
    source = OperatingSystemEntropy() if entropy is None else entropy
    if not callable(getattr(source, "read", None)):
        raise UsageError("entropy must have a method read(count) that gives random bytes")

    def ready(prepared: Prepared) -> Callable[[], _Ready]:
        """Refuse what the study alone rules out, and return what reads the data."""
        study, declared = prepared.study, declared_size(prepared.study).trajectories
        known: list[Accepted] | None = None  # what can be decided before data is opened
        if declared is not None or not study.limits.counts_trajectories:
            known = _useful(prepared, prepared.mechanism, declared, accept_useless)

        def read() -> _Ready:
            """Read the statistics, and refuse what public sizes rule out.

            All of it comes before the charge: whatever is refused here costs nothing.
            """
            statistics = gathered(
                data, study, engine=engine, memory=memory, threads=threads, progress=progress
            )
            size = public_size(study, statistics)
            accepted = require_small_delta(study, size, accepted=accept_large_delta)
            mechanism = prepared.mechanism_for(size)
            useful = known
            if useful is None:
                useful = _useful(prepared, mechanism, size.trajectories, accept_useless)
            _rehearse(mechanism, study)
            return _Ready(
                study=study,
                statistics=statistics,
                size=size,
                mechanism=mechanism,
                accepted=(*useful, *accepted),
            )

        return read

    read = None
    if prepared is not None:
        study, read = prepared.study, ready(prepared)
    own = outbox is not None and not isinstance(outbox, Outbox)
    box: AbstractContextManager[Outbox | None] = (
        Outbox(outbox) if own else nullcontext(outbox)  # type: ignore[arg-type]
    )
    if kept_by is None:
        if read is None:
            raise UsageError(
                f'[privacy] spend = "{study.privacy.spend}" is a share of what a ledger has left; '
                "release with one, or give epsilon and delta"
            )
        with box as kept:
            _make_room(kept, study)
            return _told(_drawn(read(), source, None))
    _require_room_on_ledger(study)
    with box as kept:
        _make_room(kept, study)
        reserved = _reserve(kept_by, study)
        if isinstance(reserved, StoredRelease):
            return _told(_answered(study, reserved, expect_new, say))
        # Cancelled, on the record, unless it comes to the charge. A signal may hit the end of the
        # inner block while another error ends it, as when a terminal is closed: hence the outer.
        with reserved, reserved:
            _tell(reserved.notices, say)
            if read is None:  # the ledger fixed what the share comes to
                read = ready(prepare(study.replace(**reserved.asked.as_dict())))
            return _told(_paid_for(reserved, read(), source, kept_by, kept, say))


def _told(release: Release) -> Release:
    """Warn where a release itself says that it is not to be trusted, and return it.

    This is post-processing. Where warnings are errors it is silent: what was paid for is returned.
    """
    doubt = policy_doubt(release)
    if doubt is not None:
        with suppress(PrivalueWarning):
            warn_caller(doubt)
    return release


def _useful(
    prepared: Prepared, mechanism: Mechanism | DpOpe | None, m: int | None, accepted: bool
) -> list[Accepted]:
    """Refuse what is predicted to be of no use; return what was accepted."""
    if isinstance(mechanism, DpOpe):
        return require_useful_policy(mechanism, m, accepted=accepted)
    return require_useful(prepared.study, prepared.design, mechanism, m, accepted=accepted)


def _paid_for(
    reserved: Reservation,
    ready: "_Ready",
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
            drawn = _drawn(ready, source, head)
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
    np.empty(2_000 * _entries(study), dtype=np.uint8)


def _entries(study: Study) -> int:
    """Return how many values a release has; with actions, those of states besides."""
    return study.key_count + (0 if study.pairs is None else study.state_count)


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


_WAITING = f"the ledger is waited for, up to {PATIENCE:g} s"


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
    _tell(found, say)


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
            "give ledger=LEDGER"
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


@refusing("the release", "charged")
def _answered(
    study: Study,
    stored: StoredRelease,
    expect_new: bool,
    say: Callable[[str], None] | None,
) -> Release:
    """Return the release of the identical request, unless a new one is expected."""
    answer = Release.answered(stored.artefact)
    if expect_new:
        raise BudgetError(
            f'dataset "{study.study.dataset}": the identical request was answered on '
            f"{answer.created}, and a new release was expected; [study] period makes a request "
            "another one, or ask without expecting a new one"
        )
    _tell([f"{reuse(answer)}; the data was not opened", *stored.notices], say)
    return answer


def reuse(answer: Release) -> str:
    """Return a sentence that says that a release is not new."""
    return (
        f"the identical request was answered on {answer.created}: this is that release again, and "
        "nothing was spent on it"
    )


def _tell(lines: Iterable[str], say: Callable[[str], None] | None) -> None:
    """Pass lines on to whoever asked for them."""
    for line in lines:
        if say is not None:
            say(line)


def opened_ledger(ledger: str | Path | Ledger) -> Ledger:
    """Return the ledger that somebody named, or raise UsageError if it is none."""
    found = open_ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if not isinstance(found, Ledger):
        raise UsageError(
            f"ledger is a {type(ledger).__name__}; give a file, the address of a server, or a "
            "ledger from privalue.open_ledger(...)"
        )
    return found


def _require_room_on_ledger(study: Study) -> None:
    """Refuse what could not be stored once it is paid for: a ledger's text has a limit."""
    each = 560 if study.has_intervals or study.mechanism.name == "dp-ssp" else 100  # bytes, about
    if _entries(study) * each > MOST_STORED:
        raise UsageError(
            f"a release of {study.key_count} states is too large to be stored on a ledger; use "
            "fewer states, or ledger=None and keep count yourself"
        )


def _make_room(outbox: Outbox | None, study: Study) -> None:
    """Take the room that the release needs where it goes, before anything is spent.

    Numbers have at most 24 characters, and a state has some ten; the description has the labels.
    """
    if outbox is not None:
        described = len(json.dumps(study.public_description()))
        outbox.make_room(16_384 + 3 * described + 1_800 * _entries(study))


def require_ssp(study: Study) -> None:
    """Refuse another mechanism for a share of what the ledger has left."""
    if study.mechanism.name != "dp-ssp":
        raise StudyError(
            f'[privacy] spend = "{study.privacy.spend}" is for dp-ssp alone, and [mechanism] name '
            f'= "{study.mechanism.name}"; name dp-ssp, or give epsilon and delta'
        )


def _reserve(ledger: Ledger, study: Study) -> Reservation | StoredRelease:
    """Set the cost aside before the data is opened, or find the identical request's release."""
    dataset = study.study.dataset
    if dataset is None:
        raise UsageError(
            "a ledger needs to know which people the data is about: set [study] dataset"
        )
    request, privacy = study_hash(study.public_description()), study.privacy
    if not privacy.is_fixed:
        require_ssp(study)
        return ledger.reserve(
            dataset,
            request,
            spend=privacy.spend,
            unit=privacy.unit,
            neighbours=privacy.neighbours,
        )
    if privacy.spend is not None:
        raise StudyError(
            f'[privacy] spend = "{privacy.spend}" takes the place of epsilon and delta, which the '
            "ledger fixes; leave them out"
        )
    return ledger.reserve(
        dataset,
        request,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
        gaussian_alpha=gaussian_alpha(study),
    )


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class _Ready(Private):
    """What a release is made of once everything public has been decided."""

    study: Study
    statistics: VisitStatistics
    size: PublicSize
    mechanism: Mechanism | DpOpe
    accepted: tuple[Accepted, ...]


# A caller may have turned warnings into errors; none may come after the charge.
@np.errstate(all="ignore")
def _drawn(ready: _Ready, source: Entropy, head: str | None) -> Release:
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
        estimates = estimates_of(
            study, mechanism, drawn.numbers, drawn.scale, stages=stages, chosen=chosen
        )
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
        noise=_public_noise(study, mechanism, drawn.scale, chosen),
        ridge=ridge_of(study, size.trajectories),
        trajectories=size.units if study.privacy.unit == "trajectory" else None,
        persons=size.units if study.privacy.unit == "person" else None,
        **parts,
        accepted=list(ready.accepted),
        ledger_head=head,
        created=datetime.now(UTC).strftime("%Y-%m-%d"),
        software=Software(version=VERSION),
    )


def _public_noise(
    study: Study, mechanism: Mechanism | DpOpe, scale: ReleasedScale | None, chosen: Chosen | None
) -> PublicNoise:
    """Return what is public of the noise: mechanisms hold no private number."""
    constants = mechanism.calibration
    if isinstance(mechanism, DpOpe):
        return PublicNoise(
            calibration="exact",
            law="laplace" if mechanism.laplace else None,
            alpha=constants.alpha,
            beta=0.0,
            shape="weights",
            grid=mechanism.grids[0] * mechanism.sigma / float(mechanism.deviations[0]),
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
        scale=scale
        and NoiseScale(sigma=scale.sigma, spread=scale.laplace, epsilon=mechanism.epsilon_scale),
    )


@np.errstate(all="ignore")
def _rehearse(mechanism: Mechanism | DpOpe, study: Study) -> None:
    """Run what follows the draw, at the largest numbers that there could be.

    What fails here fails from public numbers, before the charge; what passes here passes after it.
    """
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

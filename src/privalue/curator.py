"""Run the one sequence from public study and private data to what leaves, or stays.

::

    prepare   find     account   room     read      |  CHARGE   draw   keep   commit  |  publish
    public    stored?  fits?     on disk  PRIVATE   |  interrupts wait; nothing fails |  public
                                                    |  because of private values      |
    ------- whatever is refused costs nothing ------+---- paid for: never lost -------+---------

``release`` goes the whole way, and ``finish`` goes on where it was ended after the draw. Whatever
could fail after the charge is tried before it, on public numbers. ``inspect`` computes everything
up to the noise, for the curator alone: it returns a private type, adds no noise and spends nothing.
"""

import json
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from privalue import estimate, planning
from privalue._described import described
from privalue._diagnostics import Diagnostics, PolicyDiagnostics
from privalue._types import Progress
from privalue.core import (
    MECHANISMS,
    Calibration,
    Design,
    Draw,
    Entropy,
    Lsl,
    Lsw,
    Mechanism,
    Ope,
    OperatingSystemEntropy,
    Private,
    PublicSize,
    SeededForExperimentsOnly,
    Ssp,
    Statistics,
    Terms,
    compile_draw,
    draw,
    gaussian,
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
from privalue.estimate import cautions
from privalue.ledger import (
    Charge,
    EarlierCharge,
    Ledger,
    Outbox,
    Paid,
    ReleaseRequest,
    UnknownOutcomeError,
    open_ledger,
    study_hash,
    uninterrupted,
)
from privalue.readers import is_query_result, read_statistics
from privalue.releases import Accepted, Guarantee, PublicNoise, Release, policy_doubt
from privalue.study import (
    NEEDS_TRAJECTORIES,
    Study,
    declared_size,
    design,
    public_size,
    resolve,
    ridge_of,
)
from privalue.version import VERSION

MOST_STORED = 900_000_000  # bytes: SQLite and PostgreSQL take no longer text


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that is settled before any data is opened.

    ``mechanism`` is None where its constants depend on an m that the study does not declare.
    """

    study: Study
    design: Design
    mechanism: Mechanism | None

    @property
    def calibration(self) -> Calibration | None:
        """Return alpha and beta; None where they are not known yet."""
        return None if self.mechanism is None else self.mechanism.calibration

    @property
    def of_values(self) -> Ssp | Lsw | Lsl | None:
        """Return the mechanism, if its numbers become values of states; else, or not yet, None."""
        return self.mechanism if isinstance(self.mechanism, Ssp | Lsw | Lsl) else None

    def mechanism_for(self, size: PublicSize) -> Mechanism:
        """Return the mechanism for the public sizes of a data set, which may be those declared."""
        if self.mechanism is not None and size == declared_size(self.study):
            return self.mechanism
        return _mechanism(resolve(self.study, size, self.design))


def prepare(study: Study) -> Prepared:
    """Check everything that can be checked without data.

    Args:
        study: what is public.

    Returns:
        The study, the design, and the mechanism where it is known.

    Raises:
        StudyError: the study asks for what cannot be done; nothing here depends on data.
    """
    study = with_columns(study, None)
    built = design(study)
    try:
        mechanism = _mechanism(resolve(study, declared_size(study), built))
    except StudyError as problem:
        if problem.code != NEEDS_TRAJECTORIES or not study.limits.counts_trajectories:
            raise
        mechanism = None  # m will be counted
    return Prepared(study=study, design=built, mechanism=mechanism)


def _mechanism(terms: Terms) -> Mechanism:
    return MECHANISMS[terms.mechanism](terms)


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
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Diagnostics | PolicyDiagnostics:
    """Return the curator's private diagnostics of ``data``; nothing is drawn, nothing is spent.

    Args:
        study: what is public.
        data: as for ``release``.
        columns: as for ``release``.
        engine: "local", or "spark".
        memory: bytes that rows may take while they are put in order; more are read in passes.
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
    statistics = read_statistics(
        data, study, study.limits, engine=engine, memory=memory, threads=threads, progress=progress
    )
    mechanism = prepared.mechanism_for(public_size(study, statistics))
    perturbation = mechanism.perturb(statistics)
    if isinstance(mechanism, Ope):
        return PolicyDiagnostics(
            study=study,
            statistics=statistics,
            mechanism=mechanism,
            perturbation=perturbation,
            by_query=is_query_result(data),
        )
    assert isinstance(mechanism, Ssp | Lsw | Lsl)
    level = planning.likely_level(mechanism, statistics) if isinstance(mechanism, Ssp) else None
    return Diagnostics(
        study=study,
        design=prepared.design,
        statistics=statistics,
        mechanism=mechanism,
        perturbation=perturbation,
        level=level,
        theta=planning.theta_before_noise(study, mechanism, statistics),
        noise_by_state=planning.noise_by_state(mechanism, statistics, perturbation.sigma, level),
        by_query=is_query_result(data),
    )


@sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Ready(Private):
    """What a release is made of once everything public has been decided."""

    study: Study
    statistics: Statistics
    size: PublicSize
    mechanism: Mechanism
    accepted: tuple[Accepted, ...]


def release(
    study: Study,
    data: Any,
    *,
    ledger: str | Path | Ledger | None = None,
    columns: Mapping[str, str] | None = None,
    outbox: str | Path | Outbox | None = None,
    expect_new: bool = False,
    accept_large_delta: bool = False,
    accept_useless: bool = False,
    seed: int | None = None,
    entropy: Entropy | None = None,
    engine: str = "local",
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Release:
    """Release the value function of ``data``: each call is a new release, and spends anew.

    With a ledger, an identical request gets the stored release (``reused``), and spends nothing:
    the data is not even opened. Otherwise the cost is charged once statistics exist, before noise
    is drawn. Without a ledger, nothing is recorded.

    Args:
        study: what is public.
        data: a file name, folder or glob, a database; a frame or whatever Arrow reads, a dict of
            columns, a list of dicts; a list of episodes, or a recording (D4RL, d3rlpy, Minari).
        ledger: where the dataset's budget is kept: a file, the address of a server, or a ledger
            from ``open_ledger``.
        columns: names of columns, added to those of the study, e.g. {"trajectory": "stay_id"}.
        outbox: a file that keeps what was drawn until the ledger has it, so that not even a process
            that is killed loses what was paid for; an ``Outbox`` stays until its block ends.
        expect_new: refuse to answer an identical request with the stored release.
        accept_large_delta: allow delta >= 1/m, where publishing one person's data outright would
            satisfy the definition.
        accept_useless: allow a release in which even a state that everybody visits would have an
            interval wider than half the range of returns.
        seed: makes noise reproducible, for experiments: the release is NOT private, and says so;
            it does not go on a ledger.
        entropy: by default the operating system's; any other makes ``private`` false.
        engine: "local", or "spark" (``privalue.readers.spark``).
        memory: bytes that rows may take while they are put in order; more are read in passes.
        threads: how many threads read rows on this machine; by default one for each core.
        progress: called with the number of rows read, and of all rows where known.

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
        ChargedError: the charge stands, and the ledger did not take the release: it is in the error
            and in the outbox, and ``finish`` puts it on record.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> release = pv.release(study, people)
    >>> release["well"].flags, release.private
    ('', True)
    """
    study = with_columns(study, columns)
    prepared = prepare(study if ledger is None else study.on_ledger())
    study, size = prepared.study, declared_size(prepared.study)
    source = _entropy(seed, entropy, is_on_ledger=ledger is not None)
    opened = request = None
    if ledger is not None:
        opened, request = opened_ledger(ledger), request_of(study)
        earlier = opened.find(request)
        if earlier is not None:
            return _warned(_stored(request, earlier, expect_new))
        opened.account(request.dataset).price(request)  # refuse now what the charge would refuse

    accepted: list[Accepted] | None = None  # what can be decided before data is opened
    large: list[Accepted] | None = None
    if not study.limits.counts_trajectories:
        large = planning.require_small_delta(study, size, accepted=accept_large_delta)
        if opened is not None and size.trajectories is None and study.privacy.delta > 0:
            planning.warn_caller(
                "with a ledger no size is counted, so that nobody compares delta with 1/m; declare "
                "[study] trajectories"
            )
    if size.trajectories is not None or not study.limits.counts_trajectories:
        accepted = planning.require_useful(
            study, prepared.mechanism, size.trajectories, accepted=accept_useless
        )
    with Outbox(outbox) if isinstance(outbox, str | Path) else nullcontext(outbox) as box:
        if box is not None:
            box.preallocate(_longest_text(study))
        statistics = read_statistics(
            data,
            study,
            study.limits,
            engine=engine,
            memory=memory,
            threads=threads,
            progress=progress,
        )
        size = public_size(study, statistics)
        if large is None:
            large = planning.require_small_delta(study, size, accepted=accept_large_delta)
        mechanism = prepared.mechanism_for(size)
        if accepted is None:
            accepted = planning.require_useful(
                study, mechanism, size.trajectories, accepted=accept_useless
            )
        rehearse(mechanism, study)
        ready = Ready(
            study=study,
            statistics=statistics,
            size=size,
            mechanism=mechanism,
            accepted=(*accepted, *large),
        )
        if opened is None or request is None:
            return _warned(draw_release(ready, source, None))
        return _warned(_pay_and_draw(ready, source, opened, request, box))


def _pay_and_draw(
    ready: Ready, source: Entropy, ledger: Ledger, request: ReleaseRequest, outbox: Outbox | None
) -> Release:
    """Charge, draw, keep and commit: from the charge on, nothing fails because of private values.

    Whatever else fails, what was drawn is kept. An interrupt waits until it is.
    """
    with uninterrupted():
        charge = _charge(ledger, request)
        made = paid = None
        try:
            made = draw_release(ready, source, charge.head)
            place = ledger.place if "://" in ledger.place else os.path.abspath(ledger.place)
            paid = Paid(ledger=place, charge=charge, text=made.to_json())
            if outbox is not None:
                outbox.fill(paid)
            ledger.commit(charge, paid.text)
        except (Exception, KeyboardInterrupt) as problem:
            raise _charged_error(problem, charge, made, paid, outbox) from problem
        if outbox is not None:
            outbox.is_recorded = True
    return made


def _charge(ledger: Ledger, request: ReleaseRequest) -> Charge:
    """Charge; if the answer is lost, ask again with the same token: it is charged once."""
    token = OperatingSystemEntropy().read(16).hex()
    try:
        return ledger.charge(request, token=token)
    except UnknownOutcomeError:
        try:
            return ledger.charge(request, token=token)
        except (UnavailableError, KeyboardInterrupt) as problem:
            why, code = _cause(problem)
            raise ChargedError(
                f'dataset "{request.dataset}": perhaps charged, and nothing was drawn ({why}); '
                "`privalue ledger statement` tells",
                why=why,
                exit_code=code,
            ) from problem


@np.errstate(all="ignore")
def rehearse(mechanism: Mechanism, study: Study) -> None:
    """Compile the draw, and run what follows it, at the largest numbers that there could be.

    What fails here fails from public numbers, before the charge; what passes here passes after it.
    """
    compile_draw()
    try:
        estimate.rehearse(study, mechanism)
    except StudyError:
        raise
    except (ValueError, ArithmeticError):
        raise StudyError(
            "[weights] weights, features, returns or ridge are too extreme to compute with; state "
            "them in other units"
        ) from None


# A caller may have turned warnings into errors; none may come after the charge.
@np.errstate(all="ignore")
def draw_release(ready: Ready, source: Entropy, head: str | None) -> Release:
    """Draw the noise, once, and make a release of what was drawn.

    Args:
        ready: statistics and mechanism. PRIVATE.
        source: where the noise comes from; only the operating system's makes a private release.
        head: the hash of the charge on the ledger, if there is one.
    """
    study, size, mechanism = ready.study, ready.size, ready.mechanism
    drawn = draw(mechanism, ready.statistics, source)
    # From here on everything is post-processing of what was drawn.
    private = type(source) is OperatingSystemEntropy
    trajectories = size.units if study.privacy.unit == "trajectory" else None
    every = cautions(private=private, accepted=ready.accepted)
    parts = estimate.estimate(study, mechanism, drawn, every)
    return Release(
        private=private,
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
        noise=_public_noise(study, mechanism, drawn),
        ridge=ridge_of(study, size.trajectories),
        trajectories=trajectories,
        persons=size.units if study.privacy.unit == "person" else None,
        **parts,
        accepted=list(ready.accepted),
        ledger_head=head,
        created=datetime.now(UTC).strftime("%Y-%m-%d"),
        software=f"privalue {VERSION}",
    )


def _public_noise(study: Study, mechanism: Mechanism, drawn: Draw) -> PublicNoise:
    """Return what is public of the noise: mechanisms hold no private number."""
    noise = mechanism.public_noise(drawn.stages)
    shapes = {"dp-ope": "weights", "dp-ssp": "statistics"}
    return PublicNoise(
        calibration=study.mechanism.calibration,
        law="laplace" if noise.law == "laplace" else None,
        alpha=noise.alpha,
        beta=noise.beta,
        shape=shapes.get(mechanism.terms.mechanism, study.mechanism.noise),
        grid=noise.grid,
        sigma=noise.sigma,
    )


def _charged_error(
    problem: BaseException,
    charge: Charge,
    release: Release | None,
    paid: Paid | None,
    outbox: Outbox | None,
) -> ChargedError:
    """Return what to raise if what was drawn could not be put on record, or was lost."""
    why, code = _cause(problem)
    if paid is None:
        return ChargedError(
            f'dataset "{charge.dataset}": charged, and lost: nothing was kept of what was drawn '
            f"({why}); the amount stays spent",
            why=why,
            exit_code=code,
        )
    kept = outbox.path if outbox is not None and outbox.is_filled else None
    where = "this error holds it" if kept is None else f"{kept} keeps it"
    return ChargedError(
        f'dataset "{charge.dataset}": charged: do not release again; what was drawn is not on '
        f"record yet ({why}); {where}, and privalue.finish puts it there",
        release=release,
        outbox=kept,
        paid=paid,
        why=why,
        exit_code=code,
    )


def _cause(problem: BaseException) -> tuple[str, int]:
    """Return in a few words what ended a release, and the exit code of that."""
    if isinstance(problem, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(problem, PrivalueError):
        return str(problem), problem.exit_code
    if isinstance(problem, MemoryError):
        return "there was not enough memory", 3
    return f"internal error ({type(problem).__name__})", 70


def finish(
    paid: str | Path | ChargedError | Paid, *, ledger: str | Path | Ledger | None = None
) -> Release:
    """Put on record what was drawn and charged, and return it; nothing is spent.

    To finish twice is the same as once.

    Args:
        paid: an outbox, which goes away once the ledger has what it holds; or the error that a
            release ended with.
        ledger: where it was charged; the file that the outbox names, if left out.

    Returns:
        What was paid for.

    Raises:
        DataError: the file is no outbox, or not whole.
        LedgerError: this ledger has no such charge.
        UnavailableError: nobody answers; try again.

    >>> from tempfile import TemporaryDirectory
    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory", dataset="clinic", trajectories=1000)
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
        released = finish(Outbox.read(paid), ledger=ledger)
        Path(paid).unlink(missing_ok=True)
        return released
    kept: Paid = paid.paid if isinstance(paid, ChargedError) else paid
    if ledger is None and kept.needs_address:
        raise UsageError(
            f"it was charged on the ledger {kept.ledger}, whose user and password are not kept; "
            "name the ledger"
        )
    made = Release.parse(kept.text)
    with uninterrupted():
        opened_ledger(kept.ledger if ledger is None else ledger).commit(kept.charge, kept.text)
    return made


def request_of(study: Study) -> ReleaseRequest:
    """Return what a release of the study asks of a ledger."""
    dataset, privacy = study.study.dataset, study.privacy
    if dataset is None:
        raise UsageError(
            "a ledger needs to know which people the data is about: set [study] dataset"
        )
    if _count_entries(study) * (560 if study.has_intervals else 100) > MOST_STORED:  # bytes, about
        raise UsageError(
            f"a release of {study.key_count} states is too large to be stored on a ledger; use "
            "fewer states, or release without a ledger and keep count yourself"
        )
    # All that dp-ssp draws is Gaussian noise of one public sigma: mu = 1/alpha. That of dp-lsw and
    # dp-lsl depends on the data, and the noise of dp-ope is Laplace's.
    is_gaussian = study.mechanism.name == "dp-ssp"
    return ReleaseRequest(
        dataset=dataset,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
        alpha=gaussian(privacy.epsilon, privacy.delta).alpha if is_gaussian else None,
        what=_printable(study.study.name),
        study=study_hash(study.public_description()),
    )


def _printable(name: str) -> str:
    """Return a study's name as a statement of account shows it: a line of a limited length."""
    text = "".join(letter for letter in name if letter.isprintable())
    return text[:200] or "a study without a name"


def opened_ledger(ledger: str | Path | Ledger) -> Ledger:
    """Return the ledger that somebody named, or raise UsageError if it is none."""
    opened = open_ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if not isinstance(opened, Ledger):
        raise UsageError(
            f"ledger is a {type(ledger).__name__}; give a file, the address of a server, or a "
            "ledger from privalue.open_ledger(...)"
        )
    return opened


def _entropy(seed: int | None, entropy: Entropy | None, *, is_on_ledger: bool) -> Entropy:
    """Return where noise comes from: only the operating system's goes on a ledger."""
    if seed is not None:
        if entropy is not None:
            raise UsageError("seed= and entropy= both say where noise comes from; give one")
        entropy = SeededForExperimentsOnly(int(seed) if isinstance(seed, np.integer) else seed)
    if is_on_ledger and entropy is not None:
        raise UsageError("seeded experiments do not go on a ledger; leave one of the two out")
    source = OperatingSystemEntropy() if entropy is None else entropy
    if not callable(getattr(source, "read", None)):
        raise UsageError("entropy must have a method read(count) that gives random bytes")
    return source


def _stored(request: ReleaseRequest, earlier: EarlierCharge, expect_new: bool) -> Release:
    """Return the release of the identical request; refuse where there is none, or a new one is due.

    Raises:
        BudgetError: it was charged and has no release yet, or a new one is expected.
    """
    if earlier.release is None:
        raise BudgetError(
            f'dataset "{request.dataset}": {earlier.why_not_again}', code="already-charged"
        )
    answer = Release.answered(earlier.release)
    if expect_new:
        raise BudgetError(
            f'dataset "{request.dataset}": the identical request was answered on '
            f"{answer.created}, and a new release was expected; [study] period makes a request "
            "another one, or ask without expecting a new one",
            code="not-new",
        )
    return answer


def reuse(answer: Release) -> str:
    """Return a sentence that says that a release is not new."""
    return (
        f"the identical request was answered on {answer.created}: this is that release again, "
        "nothing was spent on it, and the data was not opened"
    )


def _warned(release: Release) -> Release:
    """Warn where a release itself says that it is not to be trusted, and return it.

    This is post-processing. Where warnings are errors it is silent: what was paid for is returned.
    """
    doubt = policy_doubt(release)
    if doubt is not None:
        with suppress(PrivalueWarning):
            planning.warn_caller(doubt)
    return release


def _longest_text(study: Study) -> int:
    """Return the bytes that a release of the study takes at most.

    Numbers have at most 24 characters, and a state has some ten; the description has the labels.
    """
    return 16_384 + 3 * len(json.dumps(study.public_description())) + 1_800 * _count_entries(study)


def _count_entries(study: Study) -> int:
    """Return how many values a release has; with actions, those of states besides."""
    return study.key_count + (0 if study.pairs is None else study.state_count)

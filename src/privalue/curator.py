"""Run the one sequence from public study and private data to what leaves, or stays.

``release`` goes the whole way: prepare (public), reserve, read, charge, draw, commit. Whatever can
be refused is refused here, before the charge, and whatever could fail afterwards is tried before it
on public numbers. ``_charged`` has what follows, from the charge on. ``inspect`` computes
everything up to the noise, for the curator alone: it returns a private type, adds no noise and
spends nothing.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privalue import _charged as charged
from privalue import planning
from privalue._charged import Ready
from privalue._diagnostics import Diagnostics, PolicyDiagnostics
from privalue._outbox import Outbox
from privalue._patience import tell
from privalue._types import Progress
from privalue.artefact import Accepted, Release, policy_doubt
from privalue.core import (
    Calibration,
    Design,
    DpOpe,
    DpSsp,
    Entropy,
    Mechanism,
    OperatingSystemEntropy,
    PublicSize,
    SeededForExperimentsOnly,
)
from privalue.errors import BudgetError, PrivalueWarning, UsageError
from privalue.ledger import (
    Ledger,
    Reservation,
    StoredRelease,
    open_ledger,
    refusing,
    study_hash,
)
from privalue.readers import DEFAULT_MEMORY, asks_a_database, gathered
from privalue.study import (
    Study,
    declared_size,
    design,
    entries_of,
    gaussian_alpha,
    mechanism_for,
    policy_mechanism,
    public_size,
    refuse_early,
    required_trajectories,
    rules_that_need_trajectories,
)

MOST_STORED = 900_000_000  # bytes: SQLite and PostgreSQL take no longer text


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that is settled before any data is opened.

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
        The study, the design, and the mechanism where it is known.

    Raises:
        StudyError: the study asks for what cannot be done; nothing here depends on data.
    """
    study = with_columns(study, None)
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
    chosen = planning.likely_choice(mechanism, statistics) if isinstance(mechanism, DpSsp) else None
    return Diagnostics(
        study=study,
        design=prepared.design,
        statistics=statistics,
        mechanism=mechanism,
        perturbation=perturbation,
        chosen=chosen,
        theta=planning.theta_before_noise(study, mechanism, statistics),
        noise_by_state=planning.noise_by_state(mechanism, statistics, perturbation.sigma, chosen),
        by_query=asks_a_database(data),
    )


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
    prepared = prepare(with_columns(study, columns))
    study = prepared.study
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

    declared = declared_size(study).trajectories
    known: list[Accepted] | None = None  # what can be decided before data is opened
    if declared is not None or not study.limits.counts_trajectories:
        known = _useful(prepared, prepared.mechanism, declared, accept_useless)
    own = outbox is not None and not isinstance(outbox, Outbox)
    box: AbstractContextManager[Outbox | None] = (
        Outbox(outbox) if own else nullcontext(outbox)  # type: ignore[arg-type]
    )
    if kept_by is not None:
        _require_room_on_ledger(study)
    with box as kept:
        _make_room(kept, study)
        reserved = None if kept_by is None else _reserve(kept_by, study)
        if reserved is not None and isinstance(reserved, StoredRelease):
            return _told(_answered(study, reserved, expect_new, say))
        # Cancelled, on the record, unless it comes to the charge. A signal may hit the end of the
        # inner block while another error ends it, as when a terminal is closed: hence the outer.
        with reserved or nullcontext(), reserved or nullcontext():
            if reserved is not None:
                tell(reserved.notices, say)
            statistics = gathered(
                data, study, engine=engine, memory=memory, threads=threads, progress=progress
            )
            # Whatever public sizes rule out is refused here, before the charge, and costs nothing.
            size = public_size(study, statistics)
            accepted = planning.require_small_delta(study, size, accepted=accept_large_delta)
            mechanism = prepared.mechanism_for(size)
            if known is None:
                known = _useful(prepared, mechanism, size.trajectories, accept_useless)
            _rehearse(mechanism, study, kept)
            ready = Ready(
                study=study,
                statistics=statistics,
                size=size,
                mechanism=mechanism,
                accepted=(*known, *accepted),
            )
            if reserved is None or kept_by is None:
                return _told(charged.drawn_release(ready, source, None))
            return _told(charged.paid_for(reserved, ready, source, kept_by, kept, say))


def _rehearse(mechanism: Mechanism | DpOpe, study: Study, outbox: Outbox | None) -> None:
    """Try what follows the charge, before it; whoever publishes afterwards gets ready, too."""
    charged.rehearse(mechanism, study)
    if outbox is not None:
        outbox.get_ready()


def _told(release: Release) -> Release:
    """Warn where a release itself says that it is not to be trusted, and return it.

    This is post-processing. Where warnings are errors it is silent: what was paid for is returned.
    """
    doubt = policy_doubt(release)
    if doubt is not None:
        with suppress(PrivalueWarning):
            planning.warn_caller(doubt)
    return release


def _useful(
    prepared: Prepared, mechanism: Mechanism | DpOpe | None, m: int | None, accepted: bool
) -> list[Accepted]:
    """Refuse what is predicted to be of no use; return what was accepted."""
    if isinstance(mechanism, DpOpe):
        return planning.require_useful_policy(mechanism, m, accepted=accepted)
    return planning.require_useful(prepared.study, prepared.design, mechanism, m, accepted=accepted)


def _answered(
    study: Study,
    stored: StoredRelease,
    expect_new: bool,
    say: Callable[[str], None] | None,
) -> Release:
    """Return the release of the identical request, unless a new one is expected."""
    answer = Release.answered(stored.artefact)
    if expect_new:
        with refusing("the release", "charged"):
            raise BudgetError(
                f'dataset "{study.study.dataset}": the identical request was answered on '
                f"{answer.created}, and a new release was expected; [study] period makes a request "
                "another one, or ask without expecting a new one"
            )
    tell([f"{reuse(answer)}; the data was not opened", *stored.notices], say)
    return answer


def reuse(answer: Release) -> str:
    """Return a sentence that says that a release is not new."""
    return (
        f"the identical request was answered on {answer.created}: this is that release again, and "
        "nothing was spent on it"
    )


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
    each = 560 if study.has_intervals else 100  # bytes, about
    if entries_of(study) * each > MOST_STORED:
        raise UsageError(
            f"a release of {study.key_count} states is too large to be stored on a ledger; use "
            "fewer states, or release without a ledger and keep count yourself"
        )


def _make_room(outbox: Outbox | None, study: Study) -> None:
    """Take the room that the release needs where it goes, before anything is spent.

    Numbers have at most 24 characters, and a state has some ten; the description has the labels.
    """
    if outbox is not None:
        described = len(json.dumps(study.public_description()))
        outbox.make_room(16_384 + 3 * described + 1_800 * entries_of(study))


def _reserve(ledger: Ledger, study: Study) -> Reservation | StoredRelease:
    """Set the cost aside before the data is opened, or find the identical request's release."""
    dataset = study.study.dataset
    if dataset is None:
        raise UsageError(
            "a ledger needs to know which people the data is about: set [study] dataset"
        )
    request, privacy = study_hash(study.public_description()), study.privacy
    return ledger.reserve(
        dataset,
        request,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
        gaussian_alpha=gaussian_alpha(study),
    )

"""Run the whole sequence from a public study and private data to a release or diagnostics.

::

    prepare   find     account   disk     read      |  CHARGE   draw   store  commit  |  publish
    public    stored?  fits?     space?   PRIVATE   |  interrupts wait; nothing fails |  public
                                                    |  because of private values      |
    ------------ a refusal costs nothing -----------+----- charged: never lost -------+---------

``release`` runs all steps, and ``finish`` the last ones, if a release was interrupted after the
draw. The computations after the charge are rehearsed before it, on public numbers. ``inspect``
computes everything before the noise, for the curator alone: it returns a private type, adds no
noise and spends nothing.
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

from privalue import core, errors, estimate, planning, simulation
from privalue.core import calibration, draw
from privalue.ledger import (
    Charge,
    Envelope,
    Ledger,
    Outbox,
    ReleaseRequest,
    UnknownOutcomeError,
    defer_signals,
    open_ledger,
    study_hash,
)
from privalue.readers import Progress, is_query_result, read_statistics
from privalue.releases import Guarantee, PublicNoise, Release, WarningCode
from privalue.study import (
    SMOOTH,
    Study,
    declared_size,
    design,
    hash_matrix,
    public_size,
    resolve,
    ridge_of,
)
from privalue.version import VERSION

MAX_STORED_BYTES = 900_000_000  # bytes: about the longest text that SQLite and PostgreSQL store
_COUNTERS = (
    "trajectories",
    "surplus_trajectories",
    "units_dropped",
    "rows_left_out",
    "rows",
    "rewards_clamped",
    "returns_clamped",
    "counts",
)  # of the statistics, in the curator's diagnostics
NOISE_SHAPES: dict[str, Any] = {"dp-ope": "weights", "dp-ssp": "statistics"}  # SMOOTH: the study's


# Prepare: decisions before data is opened


@dataclass(frozen=True, kw_only=True)
class PreparedStudy:
    """A study with its design and mechanism, before any data is opened.

    ``mechanism`` is None if its constants depend on an m that the study does not declare.
    """

    study: Study
    design: core.Design
    mechanism: core.Mechanism | None

    def mechanism_for(self, size: core.PublicSize) -> core.Mechanism:
        """Return the mechanism for the public size of a data set, declared or counted."""
        if self.mechanism is not None and size == self.mechanism.terms.size:
            return self.mechanism
        return _mechanism(resolve(self.study, size, self.design))


def prepare(
    study: Study, columns: Mapping[str, str] | None = None, *, on_ledger: bool = False
) -> PreparedStudy:
    """Check everything that can be checked without data.

    Args:
        study: the study.
        columns: names of columns, added to those of the study.
        on_ledger: whether a ledger will record the release; its size is then not public.

    Returns:
        The study, the design, and the mechanism if it is known.

    Raises:
        UsageError: the argument is not a study.
        StudyError: the study is infeasible; nothing here depends on data.
    """
    if not isinstance(study, Study):
        raise errors.UsageError(f"a Study is needed, not {type(study).__name__}; see Study.load")
    study = study if columns is None else study.replace(columns=columns)
    study = study.on_ledger() if on_ledger else study
    public_design, mechanism = design(study), None
    try:
        mechanism = _mechanism(resolve(study, declared_size(study), public_design))
    except errors.StudyError as problem:
        if problem.code != "trajectories-missing" or not study.limits.counts_trajectories:
            raise  # m cannot be counted either
    return PreparedStudy(study=study, design=public_design, mechanism=mechanism)


def _mechanism(terms: core.Terms) -> core.Mechanism:
    return core.MECHANISMS[terms.mechanism](terms)


@np.errstate(all="ignore")
def rehearse(mechanism: core.Mechanism, study: Study) -> None:
    """Compile the draw, and run its post-processing on the largest possible numbers.

    If public numbers make it fail, it fails here, before the charge.
    """
    core.mechanisms.compile_draw()
    try:
        estimate.estimate(study, mechanism, mechanism.largest_draw())
    except errors.StudyError:
        raise
    except (ValueError, ArithmeticError):
        raise errors.StudyError(
            "weights, features, returns or ridge are too extreme to compute with; use other units"
        ) from None


# Inspect: everything before the noise


@core.sealed
@dataclass(frozen=True, kw_only=True, repr=False, eq=False, slots=True)
class Diagnostics(core.Private):
    """The curator's diagnostics: statistics, estimates before noise, and the noise's scale."""

    study: Study
    statistics: core.Statistics
    mechanism: core.Mechanism  # public
    perturbation: core.mechanisms.Perturbation  # of the values, without an earlier stage's choice
    earlier: core.Draw  # of stages before the values, without noise
    theta: core.Vector  # before noise; empty for dp-ope
    noise_by_state: core.Vector  # the standard deviation of every value's noise; empty for dp-ope
    by_query: bool  # whether the rows are the result of a query

    def _public_shape(self) -> str:
        return f"mechanism={self.study.mechanism.name!r}, states={self.study.names.count}"

    def private_columns(self) -> dict[str, Any]:
        """Return all numbers, columns as arrays. PRIVATE: none of it may be published."""
        study, statistics = self.study, self.statistics
        common = {
            "mechanism": study.mechanism.name,
            "calibration": study.mechanism.calibration,
            "noise": "laplace" if self.perturbation.laplace else study.mechanism.noise,
            **{name: getattr(statistics, name) for name in _COUNTERS},
            "persons": statistics.persons or None,
            "by_query": self.by_query,
            "theta": self.theta,
            "alpha": self.mechanism.calibration.alpha,
            "beta": self.mechanism.calibration.beta,
            "psi": None,  # set below, by mechanism; its position in the order is here
            "sigma": self.mechanism.public_noise({}).sigma or self.perturbation.deviations,
        }
        if isinstance(self.mechanism, core.Ope):
            results = self._policy_results(self.mechanism)
        else:
            results = self._state_results(self.mechanism)
        return {name: value for name, value in (common | results).items() if value is not None}

    def _policy_results(self, mechanism: core.Ope) -> dict[str, Any]:
        """Return the values of both policies, by start or overall, and the kept mass. PRIVATE.

        The target's value is weighted importance sampling with clipped weights.
        """
        low, high = self.study.values.return_bounds
        middle = 0.5 * low + 0.5 * high
        exact = estimate.importance_sums(mechanism, self.perturbation.center.astype(np.float64))
        mass = np.where(exact.weights > 0, exact.weights, 1.0)
        means = self.statistics.mean_returns(middle)
        return {
            "psi": float(mechanism.sensitivity) ** 2,
            "weights_clipped": self.statistics.weights_clipped,
            "mean_returns": means,
            "weights": exact.weights,
            "kept_mass": exact.weights / np.maximum(self.statistics.counts, 1),
            "policy_values": middle + (high - low) * exact.weighted / mass,
            "behaviour_values": means,
            "values": np.zeros(0),
        }

    def _state_results(self, mechanism: core.Mechanism) -> dict[str, Any]:
        """Return the values by state and the standard deviations of their noise. PRIVATE."""
        results = {
            "surplus_visits": self.statistics.surplus_visits,
            "mean_returns": self.statistics.mean_returns(self.study.values.unvisited_value),
            "values": mechanism.design.values(self.theta),
            "noise_by_state": self.noise_by_state,
        }
        if isinstance(mechanism, core.Ssp):
            noise = mechanism.noise_after(self.earlier)
            results |= {"psi": noise.squared_sensitivity, "sigma": noise.sigma}
            if "bounds" in mechanism.stages:
                results["likely_bounds"] = list(noise.bounds)
        elif isinstance(mechanism, core.mechanisms.SmoothMechanism):
            results["psi"] = mechanism.psi(self.statistics.counts)
        return results


def inspect(
    study: Study,
    data: Any,
    *,
    columns: Mapping[str, str] | None = None,
    engine: str = "local",
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Diagnostics:
    """Return the curator's private diagnostics of ``data``; draws no noise, spends nothing.

    Args:
        study: the study.
        data: as for ``release``.
        columns: as for ``release``.
        engine: "local", or "spark".
        memory: bytes, or a text such as "2GB", that rows may take while they are put in order;
            more are read in passes.
        threads: how many threads read rows on this machine; by default one for each core.
        progress: called with the number of rows read, and of all rows where known.

    Returns:
        The results before noise. PRIVATE: a study that is changed because of them has no
        guarantee.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> pv.inspect(study, people)
    Diagnostics(private, mechanism='dp-ssp', states=2)
    """
    prepared = prepare(study, columns)
    study = prepared.study
    statistics = read_statistics(
        data, study, study.limits, engine=engine, memory=memory, threads=threads, progress=progress
    )
    mechanism = prepared.mechanism_for(public_size(study, statistics))
    perturbation = mechanism.perturb(statistics, "values", {})
    earlier, theta, noise = dict[str, core.Vector](), np.zeros(0), np.zeros(0)
    if isinstance(mechanism, core.Ssp) and "bounds" in mechanism.stages:
        numbers = mechanism.perturb(statistics, "bounds", {}).center.astype(np.float64)
        earlier = {"bounds": numbers}
    if not isinstance(mechanism, core.Ope):
        theta = planning.theta_before_noise(study, mechanism, statistics)
        noise = noise_by_state(mechanism, statistics, perturbation.deviations, earlier)
    return Diagnostics(
        study=study,
        statistics=statistics,
        mechanism=mechanism,
        perturbation=perturbation,
        earlier=earlier,
        theta=theta,
        noise_by_state=noise,
        by_query=is_query_result(data),
    )


def noise_by_state(
    mechanism: core.Mechanism,
    statistics: core.Statistics,
    sigma: float | core.Vector,
    earlier: core.Draw,
) -> core.Vector:
    """Return the standard deviation of each value's noise. PRIVATE.

    For dp-ssp it is that of each state's mean, to first order, without shrinkage, and with the
    bounds that an earlier stage chose.
    """
    if not isinstance(mechanism, core.Ssp):
        return np.asarray(sigma * planning.noise_factors(mechanism))
    noise, visits = mechanism.noise_after(earlier), np.maximum(statistics.counts, 1)
    centred = statistics.clamped_steps(noise.level) / visits - sum(noise.interval) / 2
    spread = np.hypot(noise.step_noise, centred * noise.count_noise)
    return np.asarray(spread * noise.step / visits)


# Release


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
    entropy: core.Entropy | None = None,
    engine: str = "local",
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Release:
    """Release the value function of ``data``; each call is a new release, and spends again.

    With a ledger, an identical request gets the stored release (``reused``), spends nothing, and
    does not open the data. Otherwise the cost is charged after the rows are read, and before noise
    is drawn. Without a ledger, nothing is recorded.

    Args:
        study: the study.
        data: a file name, folder or glob, or a database; a data frame or anything that Arrow reads,
            a dict of columns, a list of dicts; a list of episodes, or a recording (D4RL, d3rlpy,
            Minari).
        ledger: the ledger of the dataset's budget: a file, the address of a server, or a ledger
            from ``open_ledger``.
        columns: names of columns, added to those of the study, e.g. {"trajectory": "stay_id"}.
        outbox: a file that holds the release until the ledger has it, so that a charged release
            survives even a killed process; an ``Outbox`` stays until its block ends.
        expect_new: refuse to answer an identical request with the stored release.
        accept_large_delta: allow delta >= 1/m, where publishing one person's data outright would
            satisfy the definition.
        accept_useless: allow a release in which even a state that every trajectory visits would
            have an interval wider than half the range of returns.
        seed: makes noise reproducible, for experiments: the release is NOT private, is marked so,
            and cannot go on a ledger.
        entropy: the source of noise; any but the operating system's makes ``private`` false.
        engine: "local", or "spark" (``privalue.readers.spark``).
        memory: bytes, or a text such as "2GB", that rows may take while they are put in order;
            more are read in passes.
        threads: how many threads read rows on this machine; by default one for each core.
        progress: called with the number of rows read, and of all rows where known.

    Returns:
        The release, which may be published.

    Warns:
        PrivalueWarning: a choice is allowed but probably not intended, always before the charge;
            for dp-ope also afterwards, if the released numbers do not support the value.

    Raises:
        StudyError: the study is infeasible, or the release would be useless.
        DataError: the data is invalid; nothing was drawn or charged.
        BudgetError: the dataset's budget does not allow it, or it is not new as ``expect_new``
            demands.
        UnavailableError: a server does not answer; trying again never spends twice.
        ChargedError: the release was charged, but the ledger did not store it: the error and the
            outbox hold it, and ``finish`` puts it on record.

    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory")
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> release = pv.release(study, people)
    >>> release["well"].flags, release.private
    ('', True)
    """
    prepared = prepare(study, columns, on_ledger=ledger is not None)
    study, size = prepared.study, declared_size(prepared.study)
    source = _entropy(seed, entropy, on_ledger=ledger is not None)
    request = None
    if ledger is not None:
        ledger, request = open_ledger(ledger), _request(study)
        stored = _find_stored(ledger, request, expect_new=expect_new)
        if stored is not None:
            return _warn_unsupported(stored)
        ledger.account(request.dataset).affordable_cost(request)  # refuse what the charge would
        if size.trajectories is None and study.privacy.delta > 0:
            planning.warn_caller(
                "with a ledger trajectories are not counted, so delta is not compared with one "
                "over their number; declare [study] trajectories",
                code="size-not-counted",
            )
    # Delta is compared with one over the number of units, which may have to be counted first.
    is_size_known = size.units is not None or not study.limits.size_is_public
    if is_size_known:
        accepted = _accept(study, prepared.mechanism, size, accept_large_delta, accept_useless)
    with Outbox(outbox) if isinstance(outbox, str | Path) else nullcontext(outbox) as box:
        if box is not None:
            box.preallocate(_text_bytes(study, 1_800))
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
        mechanism = prepared.mechanism_for(size)
        if not is_size_known:
            accepted = _accept(study, mechanism, size, accept_large_delta, accept_useless)
        rehearse(mechanism, study)
        if ledger is None or request is None:
            return _warn_unsupported(draw_release(study, mechanism, statistics, accepted, source))
        # After the charge nothing fails because of private values. If anything else fails, the
        # release that was drawn is stored first, and an interrupt waits until it is.
        with defer_signals():
            charge = _charge(ledger, request)
            result, envelope = None, None
            try:
                result = draw_release(study, mechanism, statistics, accepted, source, charge.head)
                place = ledger.place if "://" in ledger.place else os.path.abspath(ledger.place)
                envelope = Envelope(ledger=place, charge=charge, text=result.to_json())
                if box is not None:
                    box.fill(envelope)
                ledger.commit(charge, envelope.text)
            except (Exception, KeyboardInterrupt) as problem:
                raise _charged_error(problem, charge, result, envelope, box) from problem
            if box is not None:
                box.is_recorded = True
        return _warn_unsupported(result)


def _find_stored(ledger: Ledger, request: ReleaseRequest, *, expect_new: bool) -> Release | None:
    """Return the stored release of an identical request, if there is one.

    Raises:
        BudgetError: the request was charged and has no release yet, or a new one is expected.
    """
    entry = ledger.find(request)
    if entry is None:
        return None
    if entry.release is None:
        raise errors.BudgetError(
            f'dataset "{request.dataset}": {entry.reason}', code="already-charged"
        )
    release = Release.parse(entry.release, reused=True)
    if expect_new:
        raise errors.BudgetError(
            f'dataset "{request.dataset}": the identical request was answered on '
            f"{release.created}, and a new release was expected",
            code="not-new",
            hint="change [study] period for a new request, or leave out {expect_new}",
        )
    return release


def _accept(
    study: Study,
    mechanism: core.Mechanism | None,
    size: core.PublicSize,
    accept_large_delta: bool,
    accept_useless: bool,
) -> tuple[WarningCode, ...]:
    """Refuse a useless release and a delta of 1/m or more; return the codes of accepted ones."""
    large = planning.require_small_delta(study, size, accepted=accept_large_delta)
    useless = planning.require_useful(study, mechanism, size.trajectories, accepted=accept_useless)
    return (*useless, *large)


def _charge(ledger: Ledger, request: ReleaseRequest) -> Charge:
    """Charge the request; if the answer is lost, retry with the same token, which charges once."""
    token = core.OperatingSystemEntropy().read(16).hex()
    try:
        return ledger.charge(request, token=token)
    except UnknownOutcomeError:
        try:
            return ledger.charge(request, token=token)
        except (errors.UnavailableError, errors.LedgerError, KeyboardInterrupt) as problem:
            why, code = _cause(problem)
            raise errors.ChargedError(
                f'dataset "{request.dataset}": perhaps charged, and nothing was drawn ({why}); '
                "see `privalue ledger statement`",
                why=why,
                exit_code=code,
            ) from problem


# A caller may have turned warnings into errors, which must not happen after the charge.
@np.errstate(all="ignore")
def draw_release(
    study: Study,
    mechanism: core.Mechanism,
    statistics: core.Statistics,
    accepted: tuple[WarningCode, ...],
    source: core.Entropy,
    head: str | None = None,
) -> Release:
    """Draw the noise, once, and return the release.

    Args:
        study: the study.
        mechanism: with its constants.
        statistics: of the data. PRIVATE.
        accepted: the codes of accepted warnings.
        source: the entropy of the noise; only the operating system's makes a private release.
        head: the hash of the charge on the ledger, if there is one.
    """
    draws = draw(mechanism, statistics, source)
    # From here on everything is post-processing.
    private = type(source) is core.OperatingSystemEntropy
    common_flags = estimate.flags_of_release(private=private, accepted=accepted)
    noise, size, name = mechanism.public_noise(draws), mechanism.terms.size, study.mechanism.name
    return Release(
        private=private,
        study=study.public_description(),
        privacy=_guarantee(study),
        mechanism=name,
        terms=describe_terms(mechanism.terms),
        noise=PublicNoise(
            calibration=study.mechanism.calibration,
            shape=study.mechanism.noise if name in SMOOTH else NOISE_SHAPES[name],
            alpha=mechanism.calibration.alpha,
            beta=mechanism.calibration.beta,
            **noise._asdict(),
        ),
        ridge=ridge_of(study, size.trajectories),
        trajectories=size.units if study.privacy.unit == "trajectory" else None,
        persons=size.units if study.privacy.unit == "person" else None,
        **estimate.estimate(study, mechanism, draws, common_flags),
        accepted=list(accepted),
        ledger_head=head,
        created=datetime.now(UTC).strftime("%Y-%m-%d"),
        software=f"privalue {VERSION}",
    )


def _guarantee(study: Study) -> Guarantee:
    """Return the guarantee of a release of the study."""
    return Guarantee(
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        unit=study.privacy.unit,
        neighbours=study.privacy.neighbours,
        invalid=study.data.invalid,
    )


def describe_terms(terms: core.Terms) -> dict[str, Any]:
    """Return the terms that the core used, as plain values for the release; arrays as hashes.

    An error between the study file and the core shows in them. Limits at their usual values are
    left out.
    """
    usual = {"arms": 1, "has_ends": False, "drop_truncated": False, "clip": 0.0}
    limits = vars(terms.limits).items()
    fields = {name: value for name, value in limits if value != usual.get(name)}
    fields |= {**vars(terms.size), **vars(terms)}
    del fields["limits"], fields["size"], fields["design"]  # their own fields are there instead
    return {
        "mechanism": terms.mechanism,
        "features": _to_plain(terms.design.phi),
        "weights": _to_plain(terms.design.weights),
        **{name: _to_plain(value) for name, value in fields.items() if value is not None},
    }


def _to_plain(value: Any) -> Any:
    """Return a value for JSON: rules as their name, arrays as shape and hash."""
    if hasattr(value, "shape"):
        return {"shape": list(value.shape), "sha256": hash_matrix(value)}
    return list(value) if isinstance(value, tuple) else getattr(value, "name", value)


def _charged_error(
    problem: BaseException,
    charge: Charge,
    release: Release | None,
    envelope: Envelope | None,
    outbox: Outbox | None,
) -> errors.ChargedError:
    """Return the error for a release that was charged but not recorded, or that was lost."""
    why, code = _cause(problem)
    file = outbox.path if outbox is not None and outbox.is_filled else None
    if envelope is None:
        text = f"charged, and lost: the release was not stored ({why}); the amount stays spent"
    else:
        where = "this error holds it" if file is None else f"{file} holds it"
        text = (
            f"charged: do not release again; the release is not on record yet ({why}); {where}, "
            "and privalue.finish records it"
        )
    return errors.ChargedError(
        f'dataset "{charge.dataset}": {text}',
        code="charged-lost" if envelope is None else errors.ChargedError.code,
        release=release,
        outbox=file,
        envelope=envelope,
        why=why,
        exit_code=code,
    )


def _cause(problem: BaseException) -> tuple[str, int]:
    """Return the cause of a failure in a few words, and its exit code."""
    if isinstance(problem, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(problem, errors.PrivalueError):
        return str(problem), problem.exit_code
    if isinstance(problem, MemoryError):
        return "there was not enough memory", 3
    return f"internal error ({type(problem).__name__})", 70


ChargedRelease = str | Path | errors.ChargedError | Envelope  # str, Path: the file of an outbox


def finish(charged: ChargedRelease, *, ledger: str | Path | Ledger | None = None) -> Release:
    """Put a charged release on the ledger's record, and return it; spends nothing.

    Calling it again has no further effect.

    Args:
        charged: an outbox, which is removed once the ledger has the release; or the ChargedError.
        ledger: the ledger that was charged; by default the one that the outbox names.

    Returns:
        The release.

    Raises:
        DataError: the file is not an outbox, or is damaged.
        LedgerError: this ledger has no such charge.
        UnavailableError: the server does not answer; try again.

    >>> from tempfile import TemporaryDirectory
    >>> import privalue as pv
    >>> study = pv.Study(states=["ill", "well"], discount=0.9, returns=(0, 1), epsilon=1.0,
    ...                  delta=1e-6, unit="trajectory", dataset="clinic", trajectories=1000)
    >>> people = [[("ill", 0.0), ("well", 1.0)]] * 1000
    >>> def released(ledger, outbox):
    ...     try:
    ...         return pv.release(study, people, ledger=ledger, outbox=outbox)
    ...     except pv.ChargedError as problem:  # charged: do not release again
    ...         return pv.finish(problem)
    >>> with TemporaryDirectory() as folder:
    ...     ledger = pv.open_ledger(f"{folder}/ledger.db")
    ...     account = ledger.declare("clinic", epsilon=2, delta=1e-5, unit="trajectory")
    ...     print(released(ledger, f"{folder}/outbox").private)
    True
    """
    if isinstance(charged, str | Path):
        release = finish(Outbox.read(charged), ledger=ledger)
        Path(charged).unlink(missing_ok=True)
        return release
    if isinstance(charged, errors.ChargedError) and charged.envelope is None:
        raise charged  # the release was lost: there is nothing to finish
    envelope: Envelope = charged.envelope if isinstance(charged, errors.ChargedError) else charged
    if ledger is None and envelope.needs_address:
        raise errors.UsageError(
            f"name the ledger, {envelope.ledger}: its user and password are not stored"
        )
    release = Release.parse(envelope.text)
    address = envelope.ledger if ledger is None else ledger
    with defer_signals():
        open_ledger(address).commit(envelope.charge, envelope.text)
    return release


def _request(study: Study) -> ReleaseRequest:
    """Return the ledger request for a release of the study."""
    if study.study.dataset is None:
        raise errors.UsageError("a ledger needs the name of the dataset: set [study] dataset")
    if _text_bytes(study, 100 if study.mechanism.name in SMOOTH else 560) > MAX_STORED_BYTES:
        raise errors.UsageError(
            f"{study.key_count} states are too large for a ledger; use fewer, or shorter labels"
        )
    return request_for(_guarantee(study), study.public_description())


def request_for(privacy: Guarantee, description: Mapping[str, Any]) -> ReleaseRequest:
    """Return the ledger request of a release, from its guarantee and its study's description."""
    # dp-ssp draws Gaussian noise of one public sigma: mu = 1/alpha. The sigma of dp-lsw and dp-lsl
    # depends on the data, and the noise of dp-ope is Laplace's.
    is_gaussian = description["mechanism"]["name"] == "dp-ssp"
    name = "".join(letter for letter in description["study"]["name"] if letter.isprintable())
    period = description["study"].get("period") or ""
    return ReleaseRequest(
        dataset=description["study"]["dataset"],
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
        alpha=calibration.gaussian(privacy.epsilon, privacy.delta).alpha if is_gaussian else None,
        what=f"{name[:200] or 'a study without a name'} {period}".rstrip(),
        study=study_hash(description),
    )


def _entropy(seed: int | None, entropy: core.Entropy | None, *, on_ledger: bool) -> core.Entropy:
    """Return the source of noise; a ledger accepts only the operating system's."""
    if seed is not None:
        if entropy is not None:
            raise errors.UsageError("seed= and entropy= both set the source of noise; give one")
        number = int(seed) if isinstance(seed, np.integer) else seed
        entropy = simulation.SeededForExperimentsOnly(number)
    if on_ledger and entropy is not None:
        raise errors.UsageError(
            "seeded experiments cannot go on a ledger; leave the seed or the ledger out"
        )
    source = core.OperatingSystemEntropy() if entropy is None else entropy
    if not callable(getattr(source, "read", None)):
        raise errors.UsageError("entropy must have a method read(count) that returns random bytes")
    return source


def _warn_unsupported(release: Release) -> Release:
    """Warn if a target policy's value is flagged as not supported; return the release.

    This is post-processing. A caller that turns warnings into errors gets no warning, since a
    charged release must be returned.
    """
    if release.mechanism == "dp-ope" and not release.supported.all():
        with suppress(errors.PrivalueWarning):
            why = release.flags[~release.supported][0]
            planning.warn_caller(f"the target's value is {why}", code="not-supported")
    return release


def _text_bytes(study: Study, per_value: int) -> int:
    """Return about how many bytes a release takes, if a value takes so many beside its labels."""
    actions = () if study.pairs is None else study.pairs.actions.names
    values = study.key_count + (study.names.count if actions else 0)  # of states, too
    lists = [list(names) for names in (study.names.names, study.arms.names, actions) if names]
    labels = sum(len(json.dumps(names)) // len(names) + 1 for names in lists)  # of a value
    return 16_384 + 3 * len(json.dumps(study.public_description())) + (per_value + labels) * values

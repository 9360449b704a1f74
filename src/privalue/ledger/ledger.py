"""Keep the privacy budgets of datasets: declare a total, charge releases to it, store them.

Each entry holds the balance of its dataset after it, so that no entries are replayed: an operation
reads the last entry of the ledger and of the dataset, and appends one, in one transaction.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from privalue.core import OperatingSystemEntropy
from privalue.errors import BudgetError, LedgerError, UsageError
from privalue.ledger import entries, gaussian
from privalue.ledger.account import Account, StatementLine
from privalue.ledger.addresses import malformed_address, may_hold_password, names_server
from privalue.ledger.amounts import Amount, total_of
from privalue.ledger.entries import LedgerEntry, ReleaseRequest, append_entry, last_entry, sha256
from privalue.ledger.store import AbsentLedgerError, Execute, PostgresStore, SqliteStore, Store
from privalue.ledger.terms import PLAIN, BudgetTerms
from privalue.ledger.verify import Verification, release_fault, verify

_PAGE = 500  # lines of a statement in one transaction, so that writers do not wait


@dataclass(frozen=True, kw_only=True)
class Charge:
    """An entry that spends an amount, irrevocably, for one draw."""

    number: int  # of the entry
    head: str  # hash of the entry, which the release states
    dataset: str


@dataclass(frozen=True, kw_only=True)
class EarlierCharge:
    """The earlier charge of an identical request, and its release."""

    release: str | None  # its text; None if it is under way, was lost, or is another tool's
    reason: str  # why the request is not charged again, and what to do


class Ledger:
    """The accounts of datasets, in a store of entries."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def place(self) -> str:
        """Return the location of the ledger, without user and password."""
        return self._store.place

    def declare(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        unit: str,
        neighbours: str = "replace-one",
        max_trajectories_per_person: int | None = None,
        accounting: str = PLAIN,
        replace: bool = False,
        reason: str | None = None,
    ) -> Account:
        """Set the total of a dataset (people, not files); create the ledger if there is none.

        Declaring the same total again changes nothing.

        Args:
            dataset: a name for these people.
            epsilon: of all releases together.
            delta: of all releases together.
            unit: "trajectory" or "person": the unit that the total protects.
            neighbours: "replace-one" or "add-remove": the neighbouring relation.
            max_trajectories_per_person: you assert that no person has more; without it, releases
                for single trajectories cannot be converted to a total for persons.
            accounting: "plain" adds up epsilon and delta. "gaussian" adds up mu^2, which allows
                more releases for the same promise; for dp-ssp, and for pure epsilon-DP.
            replace: change an existing total, in a new entry. The accounting never changes, and
                the unit and relation only while nothing is spent.
            reason: the reason to record.

        Raises:
            BudgetError: another total exists and ``replace`` is false, or more is already spent.
        """
        entries.check_name(dataset)
        if reason is not None:
            entries.check_text("reason", reason)
        terms = BudgetTerms(
            unit=unit,
            neighbours=neighbours,
            max_trajectories_per_person=max_trajectories_per_person,
            accounting=accounting,
        )
        promise = largest = total_of(epsilon, delta)
        total = terms.total(promise)
        self._store.create()
        with self._store.transaction(write=True) as execute:
            account = _find_account(execute, dataset)
            if account is not None:
                if (account.promise, account.terms) == (promise, terms):
                    return account
                largest = _require_replaceable(account, terms, promise, total, replace)
            content = {"promise": promise[:2], "largest": largest[:2], "reason": reason}
            balance = account.balance._replace(total=total) if account else entries.Balance(total)
            append_entry(self._store, execute, "declare", dataset, balance, content | vars(terms))
            return _require_account(execute, dataset)

    def account(self, dataset: str, *, head: str | None = None) -> Account:
        """Return the account of a dataset: its total, and the amounts spent and left.

        Args:
            dataset: its name.
            head: the hash of an entry that the ledger must contain, if given.

        Raises:
            BudgetError: the dataset has no total.
            LedgerError: the ledger lacks the head.
        """
        entries.check_name(dataset)
        with self._transaction() as execute:
            account = _require_account(execute, dataset)
            if head and last_entry(execute, "hash = ? AND dataset = ?", head, dataset) is None:
                raise LedgerError(f"the ledger {self.place} lacks the head {head}")
            return account

    def accounts(self) -> list[Account]:
        """Return the accounts of all datasets."""
        with self._transaction() as execute:
            names = execute(
                "SELECT DISTINCT dataset FROM ledger_entries WHERE kind = 'declare'"
            ).fetchall()
            return [_require_account(execute, name) for (name,) in sorted(names)]

    def find(self, request: ReleaseRequest) -> EarlierCharge | None:
        """Return the earlier charge of an identical request, or None.

        Raises:
            LedgerError: its stored release was changed or removed.
        """
        with self._transaction() as execute:
            entry = _find_charge(execute, request)
            return None if entry is None else _read_earlier_charge(execute, entry)

    def charge(self, request: ReleaseRequest, *, token: str) -> Charge:
        """Spend the cost of a release, before its noise is drawn.

        Args:
            request: the release.
            token: an idempotency key, random for each attempt. If the server's answer was lost, the
                same process can retry with the same token, and gets the charge if it was recorded.

        Raises:
            BudgetError: no total is declared, it protects another unit to which the release cannot
                be converted, not enough is left, or the identical request was charged before.
        """
        # Hashed, since readers of the ledger must not learn the token; with the process id, since a
        # forked process has the same token and must not draw again.
        digest = sha256(f"{token} {os.getpid()}")
        with self._transaction(write=True) as execute:
            account = _require_account(execute, request.dataset)
            earlier = _find_charge(execute, request)
            if earlier is not None:
                if earlier.body.get("token") == digest and _find_commit(execute, earlier) is None:
                    return Charge(number=earlier.number, head=earlier.hash, dataset=account.dataset)
                why = _describe_earlier_charge(execute, earlier)
                raise account.refusal(request.promise, why, "already-charged")
            cost = account.affordable_cost(request)
            content = {
                "request": request.hash,
                "promise": request.promise[:2],
                **vars(request.protection),
                "alpha": None if request.alpha is None else repr(float(request.alpha)),
                "steps": account.terms.steps(request.protection),
                "what": request.what,
                "is_foreign": request.study is None,
                "token": digest,
            }
            balance = account.balance.after(cost)
            number, head = append_entry(
                self._store, execute, "charge", request.dataset, balance, content, cost
            )
        return Charge(number=number, head=head, dataset=request.dataset)

    def spend(
        self,
        dataset: str,
        *,
        what: str,
        unit: str,
        neighbours: str,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
    ) -> Account:
        """Charge a release of another tool; return the account after the charge.

        Call it before that tool draws its noise, and release nothing if it raises. The caller is
        responsible for the numbers: the ledger only adds them up.

        Args:
            dataset: its name.
            what: a description, e.g. "OpenDP: admissions by month"; each is charged only once.
            unit: "trajectory" or "person": the unit that the other tool protects.
            neighbours: "replace-one" or "add-remove": its neighbouring relation.
            epsilon: of the release, with its delta.
            delta: 0 if the release is pure epsilon-DP.
            mu: instead of both, for mu-Gaussian-DP (such as Gaussian noise), on a Gaussian total.

        Raises:
            BudgetError: not enough is left, the total cannot count it, or it was charged before.
        """
        alpha = None
        if mu is not None:
            if epsilon is not None or delta is not None:
                raise UsageError("mu replaces epsilon and delta; give one or the other")
            alpha = gaussian.alpha_of_mu(mu)
            epsilon, delta = self.account(dataset).gaussian_promise(alpha)
        elif epsilon is None or delta is None:
            raise UsageError("give epsilon and delta (0 for pure epsilon), or mu")
        request = ReleaseRequest(
            dataset=dataset,
            epsilon=epsilon,
            delta=delta,
            alpha=alpha,
            unit=unit,
            neighbours=neighbours,
            what=what,
        )
        self.charge(request, token=OperatingSystemEntropy().read(32).hex())
        return self.account(dataset)

    def commit(self, charge: Charge, release: str) -> None:
        """Store the release of a charge; storing the same release again changes nothing.

        Raises:
            LedgerError: this ledger has no such charge, or the charge has another release.
        """
        digest = sha256(release)
        with self._transaction(write=True) as execute:
            entry = last_entry(
                execute, "sequence = ? AND hash = ? AND kind = 'charge'", charge.number, charge.head
            )
            if entry is None:
                why = "it is another ledger, or an old copy of it was put back"
                raise LedgerError(f"the ledger {self.place} has no charge {charge.head}: {why}")
            fault = release_fault(release, entry)
            if fault is not None:
                raise LedgerError(f"this is not the release of entry {entry.number}: {fault}")
            commit = _find_commit(execute, entry)
            if commit is not None:
                if commit.body.get("release") == digest:
                    return
                why = "this one was charged and cannot be stored; find out who stored the other"
                raise LedgerError(f"there is another release for entry {entry.number}: {why}")
            if _read_release(execute, digest) is None:  # a stray row may hold it already
                execute("INSERT INTO ledger_releases (hash, text) VALUES (?, ?)", (digest, release))
            balance = _require_account(execute, entry.dataset).balance
            content = {"charge": entry.number, "release": digest}
            append_entry(self._store, execute, "commit", entry.dataset, balance, content)

    def statement(self, dataset: str) -> Iterator[StatementLine]:
        """Yield the statement of account of a dataset, line by line, oldest first."""
        self.account(dataset)
        after: int | None = 0
        while after is not None:
            with self._transaction() as execute:
                page = entries.select_entries(
                    execute, "dataset = ? AND sequence > ?", dataset, after, limit=_PAGE
                )
            yield from map(StatementLine.of, page)
            after = page[-1].number if len(page) == _PAGE else None

    def head(self) -> str:
        """Return the hash of the last entry, which commits to all earlier entries."""
        with self._transaction() as execute:
            return entries.last_head(execute)[1]

    def verify(
        self, *, heads: Iterable[str] = (), releases: Mapping[str, str] | None = None
    ) -> Verification:
        """Check every entry, page by page, so that writers do not wait.

        Args:
            heads: hashes, stored elsewhere, that the ledger must contain.
            releases: texts that the ledger must contain, by their names in messages.

        Raises:
            LedgerError: the first fault.
        """
        return verify(self._store, [entries.check_hash(head) for head in heads], releases or {})

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Execute]:
        try:
            with self._store.transaction(write=write) as execute:
                yield execute
        except AbsentLedgerError as problem:
            raise BudgetError(f"{problem}; declare a total first", code="not-declared") from None


def open_ledger(location: str | Path | Ledger, *, wait: float = 30.0) -> Ledger:
    """Return the ledger in a file or in a database, without opening it yet.

    Args:
        location: a file, or ``postgresql://user@host/database``; a ledger is returned as it is.
        wait: seconds to wait for other writers.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ledger = open_ledger(f"{folder}/ledger.db")
    ...     print(ledger.declare("trial", epsilon=1, delta=1e-6, unit="trajectory").left)
    epsilon 1, delta 1e-6
    """
    if isinstance(location, Ledger):
        return location
    if not isinstance(location, str | os.PathLike):
        raise UsageError(f"ledger = {location!r}: give a file, or postgresql://...")
    text = os.fspath(location)
    if not os.path.lexists(text) and not os.path.isdir(os.path.dirname(text)):
        if names_server(text):
            return Ledger(PostgresStore(text, wait))
        if may_hold_password(text):
            raise malformed_address("ledger", LedgerError)
    return Ledger(SqliteStore(Path(text), wait))


def _find_account(execute: Execute, dataset: str) -> Account | None:
    newest = last_entry(execute, "dataset = ?", dataset)
    declaration = last_entry(execute, "dataset = ? AND kind = 'declare'", dataset)
    if newest is None or declaration is None:
        return None
    try:
        return Account(
            dataset=dataset,
            terms=BudgetTerms.of(declaration.body),
            promise=declaration.promise(),
            largest=declaration.promise("largest"),
            balance=newest.balance,
            head=entries.last_head(execute)[1],
        )
    except (KeyError, UsageError):
        message = f"the ledger fails its check: entry {declaration.number} declares no total"
        raise LedgerError(message) from None


def _require_account(execute: Execute, dataset: str) -> Account:
    account = _find_account(execute, dataset)
    if account is None:
        message = f'dataset "{dataset}": no total is declared for it; declare one first'
        raise BudgetError(message, code="not-declared")
    return account


def _require_replaceable(
    account: Account, terms: BudgetTerms, promise: Amount, total: Amount, replace: bool
) -> Amount:
    """Return the largest promise after a new total; refuse a total that cannot replace the old."""
    why, hint = None, ""
    if not replace:
        why, hint = "a total is not replaced by default", "{replace} replaces it"
    elif terms.accounting != account.terms.accounting:
        why = "the accounting of a dataset never changes; take another name"
    elif account.balance.releases and terms != account.terms:
        why = "the amount spent was counted for these"
    elif not account.spent.fits(total):
        why = f"more is spent: {account.format(account.spent)}"
    if why is not None:
        current = f"its total is {account.promise} for {account.terms} ({account.terms.accounting})"
        raise account.refusal(
            f"a total of {promise} for {terms}", f"{current}; {why}", "total-refused", hint
        )
    return promise.maximum(account.largest) if account.balance.releases else promise


def _find_charge(execute: Execute, request: ReleaseRequest) -> LedgerEntry | None:
    where = "dataset = ? AND request = ? AND kind = 'charge'"
    return last_entry(execute, where, request.dataset, request.hash)


def _find_commit(execute: Execute, charge: LedgerEntry) -> LedgerEntry | None:
    return last_entry(execute, "charge = ? AND kind = 'commit'", charge.number)


def _read_release(execute: Execute, digest: str) -> str | None:
    row = execute("SELECT text FROM ledger_releases WHERE hash = ?", (digest,)).fetchone()
    return None if row is None else str(row[0])


def _read_earlier_charge(execute: Execute, entry: LedgerEntry) -> EarlierCharge:
    """Return a charge with the text of its release, which is checked."""
    commit, text = _find_commit(execute, entry), None
    if commit is not None:
        digest = str(commit.body.get("release"))
        text = _read_release(execute, digest) or ""
        fault = release_fault(text, entry) if sha256(text) == digest else "it was changed"
        if fault is not None:
            raise LedgerError(f"the release of entry {entry.number} cannot be used: {fault}")
    return EarlierCharge(release=text, reason=_describe_earlier_charge(execute, entry))


def _describe_earlier_charge(execute: Execute, earlier: LedgerEntry) -> str:
    """Return why a request is not charged again, and what to do."""
    origin = f"charged on {earlier.body.get('at')} by {earlier.body.get('author')}"
    if _find_commit(execute, earlier) is not None:
        return f"the identical request was {origin}, and its release is on record; ask for it again"
    if earlier.body.get("is_foreign"):
        return f"the same was {origin} (entry {earlier.number}); say what is new about it"
    return (
        f"the identical request was {origin} (entry {earlier.number}), and has no release yet: "
        "finish the interrupted run, or set another [study] period, which is charged again"
    )

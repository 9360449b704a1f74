"""Keep the budgets of datasets.

An operation goes on from the newest snapshot, replays what follows it, and appends one entry, and
after enough entries the next snapshot: its work does not grow with the ledger. Releases and
reservations that are over are found by the database's own indexes of the entries.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as with_fields
from datetime import UTC, datetime
from typing import Any, NamedTuple

from privalue.errors import BudgetError, LedgerError, UnavailableError, UsageError
from privalue.ledger._account import Account, Standing, book_notices, had_more, if_fixed, notices
from privalue.ledger._balance import Held, both, pools
from privalue.ledger._book import PERIOD, Book, checked, looked_up
from privalue.ledger._chain import DECLARE, FORMAT, PLAIN_ALONE, check_dataset, check_hash, sha256
from privalue.ledger._evidence import Evidence, artefact_faults, fault, require_found, uncountable
from privalue.ledger._heads import Memory
from privalue.ledger._names import look_alike
from privalue.ledger._requests import (
    declared_pools,
    differences,
    pool_notes,
    refusing,
    release_mu,
)
from privalue.ledger._reservation import Reservation
from privalue.ledger._seal import Seal
from privalue.ledger._store import AbsentLedgerError, Store, Transaction
from privalue.ledger._terms import GAUSSIAN, PLAIN, BudgetTerms, Protection, over_steps
from privalue.ledger._units import NOTHING, Cost, cost, total

Clock = Callable[[], datetime]
Append = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class StoredRelease:
    """The artefact that the identical request received before; to return it again costs nothing."""

    artefact: str
    head: str
    notices: tuple[str, ...]


class _Proved(NamedTuple):
    """What a client replayed itself, up to an entry that it finds again by its hash."""

    sequence: int
    head: str
    salt: str
    squares: bool
    state: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What is known of a ledger that passed its check."""

    entries: int
    head: str
    seals: str  # "none", "checked", or "not checked" without the secret
    notices: tuple[str, ...]


class Ledger:
    """The budgets of datasets, in a store that keeps their entries."""

    def __init__(
        self,
        store: Store,
        clock: Clock = lambda: datetime.now(UTC),
        memory: Memory | None = None,
        seal: Seal | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._memory = memory or Memory()
        self._seal = seal
        self._proved: _Proved | None = None  # for clients that may not write snapshots

    @property
    def place(self) -> str:
        """Return where the ledger is kept, as messages name it."""
        return self._store.place

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what was found about what this user remembers of the ledger, a line each."""
        return self._memory.notices

    @refusing("the total", "changed")
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
        plain_epsilon: float | None = None,
        plain_delta: float | None = None,
        replace: bool = False,
        add_deltas: bool = False,
    ) -> Account:
        """Set the total of a dataset (people, not files); create the ledger if there is none.

        Args:
            dataset: what these people are called.
            epsilon: of all releases together.
            delta: of all releases together.
            unit: "trajectory" or "person": whom the total protects.
            neighbours: "replace-one" or "add-remove": how.
            max_trajectories_per_person: you vouch that no person has more; only with it are
                releases for single trajectories converted to a total for persons.
            accounting: "plain": epsilons and deltas are summed. "gaussian": squares of mu are,
                which allows more for the same promise; for releases by dp-ssp.
            plain_epsilon: of a Gaussian total, what is kept for other releases, whose epsilons are
                summed; none, if left out.
            plain_delta: likewise.
            replace: change a total, on the record; whom it protects only while nothing is used.
                From plain sums to squares, everything that was spent is counted anew. Once
                something is used, squares stay, and so does their plain pool.
            add_deltas: accept what a move to squares costs once something is used: releases may
                have suggested it, so that what is promised has the deltas of both totals.

        Returns:
            The account of the dataset. Its notices say whether the ledger is new, and whether
            exactly this total stood already, in which case nothing is recorded.

        Raises:
            BudgetError: it has another total and ``replace`` is false, more is already used,
                another dataset has a name that looks the same, or this client may not declare.
        """
        terms = BudgetTerms(
            protection=Protection(unit=unit, neighbours=neighbours),
            trajectories_per_person=max_trajectories_per_person,
            accounting=accounting,
        ).check()
        amount = total(check_dataset(dataset), epsilon, delta)
        declared = {
            "dataset": dataset,
            "epsilon": amount.epsilon,
            "delta": amount.delta,
            "unit": unit,
            "neighbours": neighbours,
            "trajectories_per_person": terms.trajectories_per_person or 0,
            "accounting": accounting,
            **declared_pools(dataset, amount, accounting, plain_epsilon, plain_delta),
        }
        requested = f"a total of {amount}"
        with _concerning(dataset, requested):
            told = [f"the ledger {self.place} is new"] if self._make() else []
        told += pool_notes(dataset, plain_epsilon, plain_delta)
        whole = self._moving(dataset) if replace and accounting == GAUSSIAN else None
        with self._writing(dataset, requested) as (book, append, transaction):
            self._require_keeper(book, transaction, dataset, requested)
            if accounting != PLAIN and not book.squares:
                raise book.refusal(dataset, requested, PLAIN_ALONE)
            known = book.balances.get(dataset)
            asked = (amount, pools(declared), terms)
            stands = known is not None and (known.promise, known.total, known.terms) == asked
            if known is not None and not replace and not stands:
                why = differences(known, amount, pools(declared), terms)
                raise book.refusal(dataset, requested, f"{why}; replace=True changes it")
            twin = None if known is not None else look_alike(dataset, book.balances)
            if twin is not None:
                raise book.refusal(
                    dataset,
                    requested,
                    f'"{twin}" has a total, and its name looks the same; use that one, or a name '
                    "that people cannot confuse with it",
                )
            if stands and not replace:
                told.append(f'dataset "{dataset}": its total stands; nothing was changed')
            elif known is not None and whole is not None and known.used != NOTHING:
                whole.replay(transaction.rows(whole.sequence))  # what was recorded meanwhile
                wrong = uncountable(whole, dataset, pools(declared), transaction.artefact)
                if wrong is not None:
                    raise book.refusal(dataset, requested, wrong)
                spent = whole.recounted(dataset, terms, pools(declared))
                before = whole.balances[dataset].widest
                if not add_deltas:
                    raise book.refusal(
                        dataset,
                        requested,
                        "something is used, and what it showed may have led to this: with the "
                        f"total before, {before}, all releases would promise {both(amount, before)}"
                        f"{if_fixed(pools(declared))}; add_deltas=True accepts that, on the "
                        "record, and a smaller delta here makes it less",
                    )
                append("move", **declared, spent=[*spent.parts], before=[*before.parts[:2]])
                told.append(
                    f'dataset "{dataset}": all that was spent is counted anew, in squares of mu'
                )
            else:
                append("declare", **declared)
        account = self.show(dataset)
        return with_fields(account, notices=(*told, *account.notices))

    def _moving(self, dataset: str) -> Book | None:
        """Return all entries, by which a plain dataset is counted anew; None, if it is not plain.

        They are replayed before anybody is kept waiting.
        """
        with self._reading() as (book, transaction):
            known = book.balances.get(dataset)
            plain = known is not None and known.terms.accounting == PLAIN
            return self._whole(transaction) if plain else None

    @refusing("the release", "charged")
    def reserve(
        self,
        dataset: str,
        study_hash: str,
        *,
        epsilon: float,
        delta: float,
        unit: str,
        neighbours: str,
        gaussian_alpha: float | None = None,
        strict: bool = True,
    ) -> Reservation | StoredRelease:
        """Set aside what a release costs, or return the release of the identical request.

        ``notices`` of either say what was found: reservations that nobody finished, a clock that
        ran backwards.

        Args:
            dataset: whose total it is.
            study_hash: what identifies the request.
            epsilon: as the release promises it, to the unit that it protects.
            delta: likewise.
            unit: "trajectory" or "person": whom the release protects.
            neighbours: "replace-one" or "add-remove": how.
            gaussian_alpha: sigma over the sensitivity, if the release is Gaussian noise of one
                public sigma and nothing else; mu is its reciprocal. dp-lsw and dp-lsl have an alpha
                too, but their sigma depends on the data: leave it out.
            strict: whether only a ``release.json`` answers, which states this study, promise and
                charge; anything else on the record is a notice. False, if you commit other texts.

        Returns:
            A reservation, or the stored release if this request was answered before.

        Raises:
            BudgetError: no total is declared, it protects somebody else and no theorem converts,
                not enough is left, or the identical request is in progress.
        """
        check_dataset(dataset)
        protection = Protection(unit=unit, neighbours=neighbours).check()
        check_hash("the study hash", study_hash)
        amount = cost(dataset, epsilon, delta)
        with self._writing(dataset, amount) as (book, append, transaction):
            found = self._answer(book, transaction, dataset, study_hash, strict)
            if isinstance(found, StoredRelease):
                return found
            append(
                "reserve",
                dataset=dataset,
                study=study_hash,
                epsilon=amount.epsilon,
                delta=amount.delta,
                unit=unit,
                neighbours=neighbours,
                mu=release_mu(gaussian_alpha, amount),
                steps=book.steps(dataset, amount, protection),
                process=f"{os.getpid()}@{platform.node()}",
            )
            held = book.open[dataset, study_hash]
        return Reservation(self, held, found)

    def charged(self, entry: int, *, head: str) -> Reservation:
        """Return a reservation whose charge stands, so that another process can commit it.

        Args:
            entry: its number.
            head: the hash of its charge, which the release states.

        Raises:
            LedgerError: this ledger has no such charge.
        """
        with self._reading() as (book, transaction):
            held = self._recalled(book, transaction, entry)
        if held is None or held.head != head:
            raise LedgerError(
                f"the ledger {self.place} has no charge {head} for entry {entry}: it is another "
                "ledger, or an old copy of it was put back"
            )
        reservation = Reservation(self, held, ())
        reservation.charged = True
        return reservation

    def stored(self, dataset: str, study_hash: str, *, strict: bool = True) -> StoredRelease | None:
        """Return the release of the identical request, or None; ``strict`` as for ``reserve``."""
        with self._reading() as (book, transaction):
            found = self._answer(book, transaction, dataset, study_hash, strict)
        return found if isinstance(found, StoredRelease) else None

    def settle(self, entry: int, *, charge: bool, reason: str) -> Account:
        """End a reservation that its process left behind, on a person's word.

        To charge it is always allowed; to cancel it only if it was never charged.
        """
        with self._reading() as (book, transaction):
            held = self._recalled(book, transaction, entry)
        if held is None:
            raise UsageError(f"entry {entry} is not a reservation of the ledger {self.place}")
        with self._writing(held.dataset, held.cost, entry) as (_, append, _):
            outcome = "charged" if charge else "cancelled"
            append("settle", reservation=entry, outcome=outcome, reason=reason)
        return self.show(held.dataset)

    def head(self) -> str:
        """Return the hash of the last entry."""
        with self._reading() as (book, _):
            return book.head

    def accept_head(self, *, reason: str) -> str:
        """Go on with a ledger that lacks what was seen of it, on a person's word.

        It is put on the record, if this user may write there, and in the user's own folder.

        Args:
            reason: why; for instance, which copy was restored.

        Returns:
            The head from which the ledger goes on.

        Raises:
            UsageError: it lacks nothing that was seen, or no reason is given.
        """
        return self._memory.accept_head(self._store, self._recent, self._clock, reason)

    def datasets(self) -> tuple[str, ...]:
        """Return every dataset with a total, in the order of their declaration."""
        with self._reading() as (book, _):
            return tuple(book.balances)

    def show(self, dataset: str) -> Account:
        """Return the account of a dataset, with its history; raise BudgetError if it has no total.

        All entries are replayed, which takes about 40 s for a million.
        """
        with (
            self._present(""),
            self._known(self._whole) as known,
            self._store.read() as transaction,
        ):
            book = known(transaction)
        self._require_total(book, dataset)
        return Account.of(book, dataset, self._clock())

    def standing(self, dataset: str, *, head: str | None = None) -> Standing:
        """Return how a dataset stands, without its history, from the newest snapshot on.

        Where its total was larger once, all entries are replayed, as for ``show``: whether anything
        was released under that one decides about the promise, and no snapshot says so.

        Args:
            dataset: its name.
            head: a hash that must be the hash of a charge, if given.

        Raises:
            BudgetError: it has no total.
            LedgerError: no charge has the hash.
        """
        with self._reading() as (book, transaction):
            if head is not None:
                row = transaction.find(check_hash("the head", head))
                entry = None if row is None or row[0] in book.ignored else checked(row)
                if entry is None or entry["kind"] != "charge":
                    raise self._failed(Evidence(head=head).missing(Book()) or "")
            self._require_total(book, dataset)
            with self._checking():
                was_more = had_more(book, dataset, transaction.totals(dataset))
            return Standing.now(self._whole(transaction) if was_more else book, dataset)

    def _require_total(self, book: Book, dataset: str) -> None:
        """Raise BudgetError unless the dataset has a total."""
        if dataset in book.balances:
            return
        known = ", ".join(f'"{name}"' for name in book.balances) or "no dataset"
        raise BudgetError(
            f'dataset "{dataset}": left nothing; the ledger {self.place} has no total for it; it '
            f"knows {known}"
        )

    def verify(
        self,
        *,
        head: str | None = None,
        artefact: str | None = None,
        also: Iterable[Evidence] = (),
        strict: bool = True,
    ) -> Verified:
        """Check that nothing was changed, removed, inserted or reordered.

        The chain alone cannot show that its last entries were removed. A release can: give the head
        that it states and its text, and both must be found.

        Args:
            head: a hash that must be the hash of an entry.
            artefact: the text of a release that an entry must commit.
            also: more heads and texts; what is of another ledger is skipped, and told.
            strict: whether every artefact must be the release of its entry, as for ``reserve``.

        Raises:
            LedgerError: the message names the first bad entry.
        """
        self._store.check()
        with self._known(self._whole) as known, self._store.read() as transaction:
            book = known(transaction)
            wrong = artefact_faults(book, transaction.artefacts(), strict=strict)
        for why in book.ignored.values():
            raise self._failed(f"{why}; it is ignored")
        if self._seal is not None and not book.salt:
            raise self._failed("it was begun without a seal: leave seal out")
        for what in wrong:
            raise self._failed(what)
        with self._checking():
            given = (Evidence(head=head, artefact=artefact), *also)
            skipped = require_found(given, book, self.place)
        self._rest()
        seals = "none" if not book.salt else "checked" if self._seal else "not checked"
        return Verified(
            entries=book.sequence,
            head=book.head,
            seals=seals,
            notices=self.notices + book_notices(book) + skipped,
        )

    def grant_sql(self, role: str, *, keeper: str | None = None) -> str:
        """Return the SQL that lets a role of PostgreSQL release, and not declare.

        Args:
            role: who releases.
            keeper: who declares, if not the owner of the tables.
        """
        return self._store.grants(role, keeper)

    def _make(self) -> bool:
        """Create the ledger, with its first entry, if it does not exist; return whether it did."""
        try:
            with self._store.read():
                return False
        except AbsentLedgerError:
            self._memory.expects_new = True
            sealed = self._seal is not None
            began = {"format": FORMAT, "sealed": sealed, "squares": True}
            begin = Book(self._seal).write("begin", self._clock(), **began)
            self._store.create(begin)
            return True

    @contextmanager
    def _reading(self) -> Iterator[tuple[Book, Transaction]]:
        """Yield the record from the newest snapshot on, for reading alone."""
        with (
            self._present(""),
            self._known(self._recent) as known,
            self._store.read() as transaction,
        ):
            yield known(transaction), transaction

    @contextmanager
    def _writing(
        self, dataset: str, requested: Cost | str, reservation: int | None = None
    ) -> Iterator[tuple[Book, Append, Transaction]]:
        """Yield the record, a function that appends to it, and the transaction.

        Nobody else can write until the block ends; then the entries are durable, or undone after an
        error. A reservation that is named is in the book, even if it is over.
        """
        whose = f'dataset "{dataset}": requested {requested}; '
        with (
            _concerning(dataset, requested),
            self._present(whose),
            self._known(self._recent) as known,
            self._store.write() as transaction,
        ):
            book = known(transaction)
            held = reservation and self._recalled(book, transaction, reservation)
            if held:
                book.reservations[held.sequence] = held

            def append(kind: str, **own: Any) -> None:
                transaction.append(book.write(kind, self._clock(), **own))

            yield book, append, transaction
            if book.due and self._keeps(book, transaction):
                stood = book.sequence, book.head
                snapshot = book.write("snapshot", self._clock(), state=book.state())
                if not transaction.attempt(snapshot):
                    book.sequence, book.head = stood

    def _known(
        self, replay: Callable[[Transaction], Book]
    ) -> AbstractContextManager[Callable[[Transaction], Book]]:
        """Return a context of replaying with a check against what this user saw before."""
        return self._memory.watching(replay, self._store.read, self._clock)

    def _rest(self) -> None:
        """Write a snapshot if one is due and this role may: those who release may not be."""
        with suppress(LedgerError, UnavailableError):  # it only spares others work
            with self._reading() as (book, transaction):
                due = book.due and self._keeps(book, transaction)
            if due:
                with self._writing("", "a snapshot"):
                    pass

    def _keeps(self, book: Book, transaction: Transaction) -> bool:
        """Return whether the database and the seal let this client write what a keeper may."""
        return transaction.may_declare() and (not book.salt or self._seal is not None)

    def _require_keeper(
        self, book: Book, transaction: Transaction, dataset: str, requested: str
    ) -> None:
        """Raise BudgetError unless this client may declare, with the seal that the ledger has."""
        if not transaction.may_declare():
            why = "the database lets this role release and not declare; ask the ledger's keeper"
        elif book.salt and self._seal is None:
            why = "the ledger is sealed: only who has its secret declares, with seal=FILE"
        elif self._seal is not None and not book.salt:
            why = "the ledger was begun without a seal: leave seal out"
        else:
            return
        raise book.refusal(dataset, requested, why)

    @contextmanager
    def _present(self, whose: str) -> Iterator[None]:
        """Raise BudgetError, with what to do, where there is no ledger."""
        try:
            yield
        except AbsentLedgerError as problem:
            raise BudgetError(
                f"{whose}left nothing; {problem}; make it with a total: {DECLARE}"
            ) from None

    def _whole(self, transaction: Transaction) -> Book:
        """Return the book of all entries; raise LedgerError if there is none or a bad one."""
        with self._checking():
            book = Book(self._seal).replay(transaction.rows())
            if book.sequence == 0:
                raise LedgerError("entry 1 is missing: it is empty")
        return book

    def _recent(self, transaction: Transaction) -> Book:
        """Return the book from the newest snapshot on; its history is not in it.

        A client that may not write snapshots remembers what it replayed, for its next operation.
        """
        with self._checking():
            book, before = Book(self._seal), sys.maxsize
            while (row := transaction.snapshot(before)) is not None:
                if before == sys.maxsize:
                    book.begin_with(transaction.row(1))
                if book.rest_at(row):
                    break
                before = row[0]
            proved = self._proved
            if proved is not None and proved.sequence > book.sequence:
                row = transaction.row(proved.sequence)
                if row is not None and row[2] == proved.head:
                    book.salt, book.squares = proved.salt, proved.squares
                    book.go_on(proved.state, proved.sequence, proved.head, book.rested)
            start = book.sequence
            book.replay(transaction.rows(start))
            if book.sequence == 0:
                raise LedgerError("entry 1 is missing: it is empty")
        if book.sequence - start > PERIOD:
            self._proved = _Proved(book.sequence, book.head, book.salt, book.squares, book.state())
        return book

    def _answer(
        self, book: Book, transaction: Transaction, dataset: str, study: str, strict: bool
    ) -> StoredRelease | tuple[str, ...]:
        """Return the first release of a request, or, if it has none, what a person should know."""
        with self._checking():
            told = notices(book, dataset, self._clock(), transaction.totals)
            found = (*self.notices, *told)
            for row in transaction.commits(study):
                ignored = row[0] in book.ignored
                entry = None if ignored else looked_up(row, kind="commit", study=study)
                if entry is None or entry["dataset"] != dataset:
                    continue
                held = self._recalled(book, transaction, entry["reservation"])
                if held is None:
                    continue
                text = transaction.artefact(entry["artefact"])
                if not strict if text is None else sha256(text) != entry["artefact"]:
                    raise LedgerError(
                        f"the artefact of entry {held.sequence} was changed or removed"
                    )
                wrong = fault(text, held, strict=strict)
                if wrong is None:
                    return StoredRelease(artefact=text or "", head=held.head, notices=found)
                found += (
                    f"the artefact of entry {held.sequence} is false ({wrong}), and is ignored: it "
                    "answers no request; find out who wrote it",
                )
        return found

    def _recalled(self, book: Book, transaction: Transaction, reservation: int) -> Held | None:
        """Return a reservation as all entries about it leave it, or None if it is none."""
        held = book.reservations.get(reservation)
        if held is not None:
            return held
        if not 0 < reservation <= sys.maxsize:  # databases know no larger numbers
            return None
        with self._checking():
            row = transaction.row(reservation)
            entry = None if row is None or row[0] in book.ignored else checked(row)
            if row is None or entry is None or entry["kind"] != "reserve":
                return None
            asked = Cost(epsilon=entry["epsilon"], delta=entry["delta"])
            paid = over_steps(asked, entry["steps"])  # it is over: only messages say what it was
            held = Held.of(entry, row[2], paid)
            for row in transaction.moves(reservation):
                ignored = row[0] in book.ignored
                entry = None if ignored else looked_up(row, reservation=reservation)
                if entry is not None:
                    held.move(entry, row[2])
        return held

    @contextmanager
    def _checking(self) -> Iterator[None]:
        """Say of which ledger an entry is that fails its check."""
        try:
            yield
        except LedgerError as problem:
            raise self._failed(str(problem)) from None

    def _failed(self, what: str) -> LedgerError:
        """Return what to raise for a ledger that fails its check."""
        return LedgerError(f"the ledger {self.place} fails its check: {what}")


@contextmanager
def _concerning(dataset: str, requested: Cost | str) -> Iterator[None]:
    """Add the dataset and the request to the message of any failure of the ledger."""
    try:
        yield
    except (LedgerError, UnavailableError) as problem:
        kind = UnavailableError if isinstance(problem, UnavailableError) else LedgerError
        raise kind(
            f'dataset "{dataset}": requested {requested}; left unknown; {problem}'
        ) from problem

"""The head in a release tells nothing: whoever guesses what it was made of cannot check the guess.

The attack is the real one, on smaller windows: an add-remove release, whose size is secret, from
public files alone. It finds how long the reading took and whether an attempt failed before, unless
entries hold what nobody can guess.
"""

import json
import platform
from datetime import UTC, datetime, timedelta

import pytest

import privalue as pv
from oracles.studies import study
from privalue import curator
from privalue.ledger import _chain as chain
from privalue.ledger import open_ledger, study_hash
from privalue.ledger._book import Book
from privalue.ledger._chain import GENESIS, canonical, sha256
from privalue.ledger._units import cost, total

MADE = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)  # when the total was declared: a page says so
STARTED = MADE + timedelta(hours=1)  # when the job runs every day
PROCESS = 4711
READING = 23  # seconds, which tell how many rows there are
UNSALTED = "0" * 64
PEOPLE = [[(0, 0.5), (1, 1.0)]] * 60
CHOSEN = study(
    2,
    study={"dataset": "trial", "trajectories": 60},
    privacy={"epsilon": 0.5, "neighbours": "add-remove"},
)


def text_of(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def released(tmp_path, monkeypatch, *, failed_before):
    """A release, the ledger's head after it, and nothing else that is public about the ledger."""
    now = [MADE]
    monkeypatch.setenv("PRIVALUE_STATE", str(tmp_path / "state"))  # without salt all begin alike
    monkeypatch.setattr("os.getpid", lambda: PROCESS)
    ledger = open_ledger(tmp_path / "ledger.db", clock=lambda: now[0])
    ledger.declare("trial", epsilon=1.0, delta=1e-5, unit="trajectory", neighbours="add-remove")
    now[0] = STARTED
    if failed_before:
        with pytest.raises(pv.DataError):
            pv.release(CHOSEN, [[(7, 1.0)]], ledger=ledger, accept_useless=True)
    gathered = curator.gathered

    def slowly(*data, **options):
        now[0] += timedelta(seconds=READING)
        return gathered(*data, **options)

    with monkeypatch.context() as patched:
        patched.setattr(curator, "gathered", slowly)
        release = pv.release(CHOSEN, PEOPLE, ledger=ledger, accept_useless=True)
    return release, ledger.show("trial").head


class Guess:
    """Entries as anybody with the software can write them."""

    def __init__(self):
        self.number, self.head = 0, GENESIS

    def add(self, kind, moment, **own):
        self.number += 1
        entry = {
            "sequence": self.number,
            "previous": self.head,
            "at": text_of(moment),
            "kind": kind,
            "salt": UNSALTED,
            **own,
        }
        self.head = sha256(canonical(entry))
        return self


def search(release):
    """(failed before, seconds of reading) that give the release's own head; None if none do."""
    privacy = release.study["privacy"]
    whole, amount = total("", 1.0, 1e-5), cost("", privacy["epsilon"], privacy["delta"])
    whom = {"unit": "trajectory", "neighbours": "add-remove"}
    reserve = {
        "dataset": "trial",
        "study": study_hash(release.study),
        "epsilon": amount.epsilon,
        "delta": amount.delta,
        **whom,
        "mu": "none",
        "steps": 1,
    }
    for failed in (False, True):
        for process in range(PROCESS - 20, PROCESS + 20):
            mine = {**reserve, "process": f"{process}@{platform.node()}"}
            for seconds in range(60):
                guess = Guess().add("begin", MADE, format=4, sealed=False, squares=True)
                guess.add(
                    "declare",
                    MADE,
                    dataset="trial",
                    epsilon=whole.epsilon,
                    delta=whole.delta,
                    **whom,
                    trajectories_per_person=0,
                    accounting="plain",
                )
                if failed:
                    guess.add("reserve", STARTED, **mine)
                    guess.add("cancel", STARTED, reservation=3, reason="DataError")
                guess.add("reserve", STARTED, **mine)
                guess.add("charge", STARTED + timedelta(seconds=seconds), reservation=guess.number)
                if guess.head == release.ledger_head:
                    return failed, seconds
    return None


def search_last(release, last):
    """(entries, seconds of reading) that lead from the release's own head to the last one."""
    for number in range(3, 12):
        for reservation in range(3, number):
            for seconds in range(60):
                guess = Guess()
                guess.number, guess.head = number - 1, release.ledger_head
                guess.add(
                    "commit",
                    STARTED + timedelta(seconds=seconds),
                    reservation=reservation,
                    artefact=sha256(release.to_json()),
                    dataset="trial",
                    study=study_hash(release.study),
                )
                if guess.head == last:
                    return number, seconds
    return None


@pytest.mark.parametrize("failed_before", [False, True])
def test_a_head_can_not_be_searched(tmp_path, monkeypatch, failed_before):
    release, last = released(tmp_path, monkeypatch, failed_before=failed_before)
    assert search(release) is None
    assert search_last(release, last) is None


@pytest.mark.parametrize("failed_before", [False, True])
def test_without_salt_the_search_finds_it_all(tmp_path, monkeypatch, failed_before):
    monkeypatch.setattr("privalue.ledger._book.salt", lambda: UNSALTED)
    release, last = released(tmp_path, monkeypatch, failed_before=failed_before)
    assert search(release) == (failed_before, READING)
    assert search_last(release, last) == (7 if failed_before else 5, READING)


def test_every_entry_has_bytes_of_its_own(tmp_path, monkeypatch):
    released(tmp_path, monkeypatch, failed_before=True)
    ledger = open_ledger(tmp_path / "ledger.db")
    left = ledger.reserve(
        "trial",
        study_hash({}),
        epsilon=0.1,
        delta=1e-7,
        unit="trajectory",
        neighbours="add-remove",
    )
    ledger.settle(left.sequence, charge=True, reason="gone")
    with ledger._store.write() as transaction:
        book = Book().replay(transaction.rows())
        row = book.write("accept", STARTED, lost="0" * 64, reason="restored")
        transaction.append(row)
    with ledger._store.read() as transaction:
        entries = [json.loads(body) for _, body, *_ in transaction.rows()]
    # Which only a keeper writes, now and then, or wrote before.
    others = {"snapshot", "declare gaussian", "move", "begin without squares"}
    assert {entry["kind"] for entry in entries} == set(chain._SHAPES) - others
    salts = [bytes.fromhex(entry["salt"]) for entry in entries]
    assert {len(salt) for salt in salts} == {32}
    assert len(set(salts)) == len(entries)


def test_a_release_tells_the_day_and_not_the_time(tmp_path):
    release = pv.release(CHOSEN, PEOPLE, accept_useless=True)
    assert datetime.strptime(release.created, "%Y-%m-%d")
    assert ":" not in release.created
    again = release.model_copy(update={"created": "2026-11-15T09:00:23Z"})
    with pytest.raises(pv.DataError, match="created"):
        pv.Release.parse(again.to_json())

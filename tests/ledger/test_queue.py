"""Writers of a file take turns in the order in which they came."""

import os
import signal
import struct
import sys
import threading
import time

import pytest

from oracles.ledgers import open_ledger
from privalue.ledger import UnavailableError, study_hash
from privalue.ledger._queue import turn

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux has locks of an open file"
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ledger.db"
    path.touch(0o600)
    return path


def drawn(file):
    """How many numbers were drawn so far."""
    content = file.with_name("ledger.db-queue").read_bytes()
    return struct.unpack("<Q", content)[0] if content else 0


def wait_until(true):
    while not true():
        time.sleep(0.001)


class Holder:
    """A process that waits for its turn, and keeps it."""

    def __init__(self, file):
        reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            try:
                with turn(file, 600):
                    os.write(writer, b"!")
                    time.sleep(600)
            finally:
                os._exit(1)
        os.close(writer)
        self.told = reader

    def wait_for_turn(self):
        assert os.read(self.told, 1) == b"!"

    def kill(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.told)


def test_the_order_is_that_of_coming(file):
    order, threads = [], []

    def writer(number):
        with turn(file, 60):
            order.append(number)

    with turn(file, 60):
        for number in range(12):
            threads.append(threading.Thread(target=writer, args=(number,)))
            threads[-1].start()
            wait_until(lambda number=number: drawn(file) == number + 2)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == list(range(12))


def test_only_one_has_its_turn(file):
    inside, most = [], []

    def writer():
        for _ in range(30):
            with turn(file, 60):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0001)
                inside.pop()

    threads = [threading.Thread(target=writer) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(most) == 180


def test_who_dies_leaves_the_queue(file):
    """In its turn, and while it waits."""
    first = Holder(file)
    first.wait_for_turn()
    second = Holder(file)
    wait_until(lambda: drawn(file) == 2)
    mine = threading.Event()

    def writer():
        with turn(file, 600):
            mine.set()

    thread = threading.Thread(target=writer)
    thread.start()
    wait_until(lambda: drawn(file) == 3)
    second.kill()
    assert not mine.is_set()
    first.kill()
    thread.join()
    assert mine.is_set()


def test_a_turn_that_does_not_come_says_that_the_ledger_is_locked(tmp_path):
    """As a process does that is stopped in its turn."""
    ledger = open_ledger(tmp_path / "ledger.db", wait=0.2)
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    holder = Holder(tmp_path / "ledger.db")
    try:
        holder.wait_for_turn()
        os.kill(holder.process, signal.SIGSTOP)
        with pytest.raises(UnavailableError, match=r"is locked by another process.* 0\.2 s"):
            ledger.reserve("people", study_hash({}), epsilon=0.1, delta=1e-7)
    finally:
        holder.kill()
    ledger.reserve("people", study_hash({}), epsilon=0.1, delta=1e-7)
    ledger.verify()


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 7, b"x" * 100])
def test_whatever_the_file_says(file, content):
    file.with_name("ledger.db-queue").write_bytes(content)
    with turn(file, 5) as first, pytest.raises(TimeoutError), turn(file, 0.01):
        pass
    assert 0 < first <= 5
    with turn(file, 5):
        pass


def test_without_a_file_it_goes_on(tmp_path, file):
    """Fairness is all that is lost: SQLite keeps writers apart."""
    file.with_name("ledger.db-queue").symlink_to(tmp_path / "elsewhere")
    with turn(file, 5) as left:
        assert left == 5
    assert not os.path.lexists(tmp_path / "elsewhere")
    ledger = open_ledger(tmp_path / "other.db")
    (tmp_path / "other.db-queue").mkdir()
    ledger.declare("people", epsilon=1.0, delta=1e-6)
    ledger.verify()

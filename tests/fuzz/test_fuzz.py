"""A slice of every fuzzer, with a fixed seed; and that the fuzzer of ledgers can find something."""

import json
import random
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from fuzz import ledger_damage, run
from fuzz.ledger import _template, judge
from fuzz.ledger_trial import Trial
from fuzz.outcome import Outcome
from privalue.ledger import Ledger, Verified

SLICE = 10  # cases of each


@pytest.mark.parametrize("module", run.fuzzers())
def test_a_slice_of_every_fuzzer_finds_nothing(module):
    outcome = import_module(module).fuzz(19, count=SLICE)
    assert outcome.found == ()
    assert outcome.tried == SLICE
    assert outcome.accepted + outcome.refused == SLICE


def test_there_are_fuzzers():
    assert "fuzz.ledger" in run.fuzzers()


@pytest.fixture(scope="module")
def template():
    with tempfile.TemporaryDirectory() as folder:
        yield _template(Path(folder) / "whole")


def tried(folder, template):
    return json.loads(json.dumps(Trial(folder, list(template.releases), template.left).run()))


def written(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_an_undamaged_ledger_is_whole(tmp_path, template):
    seen = tried(written(tmp_path / "l", template.copies[-1]), template)
    assert judge(seen, template) is None
    assert not seen["told"]
    assert seen["codes"] == {"show": 0, "verify": 0}
    assert {name: tuple(left) for name, left in seen["left"].items()} == template.left


def test_a_verification_that_looks_away_is_found(tmp_path, template, monkeypatch):
    """An old copy is put back, and nobody tells: more is left than before."""
    folder = written(tmp_path / "old", template.copies[0])
    assert tried(folder, template)["told"]
    whole = Verified(entries=1, head="0" * 64)
    monkeypatch.setattr(Ledger, "verify", lambda *_, **__: whole)
    old = tried(written(tmp_path / "again", template.copies[1]), template)
    assert "nobody told" in judge(old, template)


def test_a_bug_is_found(tmp_path, template, monkeypatch):
    def broken(*_, **__):
        raise KeyError("balance")

    monkeypatch.setattr(Ledger, "account", broken)
    folder = written(tmp_path / "l", template.copies[-1])
    assert "account: KeyError" in judge(tried(folder, template), template)


def test_what_a_trial_may_not_say(template):
    fine = {
        **{"told": False, "told_by_the_last": False, "bugs": [], "granted": [], "forgot": ""},
        **{"left": {}, "codes": {"show": 0, "verify": 0}},
    }
    assert judge(fine, template) is None
    for wrong, words in (
        ({"died": "the process died of signal 11"}, "signal 11"),
        ({"codes": {"show": 70, "verify": 0}}, "exit 70"),
        ({"codes": {"show": 0, "verify": 5}}, "verify tells"),
        ({"granted": ["people"]}, "granted more"),
        ({"forgot": "the release 'first' is forgotten"}, "forgotten"),
        ({"left": {"people": [10**12, 0, 0]}}, "nobody told"),
    ):
        assert words in judge({**fine, **wrong}, template)
    told = {"told": True, "told_by_the_last": True, "codes": {"show": 5, "verify": 5}}
    assert judge({**fine, "granted": ["people"], **told}, template) is None


@pytest.mark.parametrize("kind", ledger_damage.KINDS, ids=lambda kind: kind.__name__)
def test_every_damage_is_one(tmp_path, template, kind):
    """Of a few random choices at least one changes the files."""
    changed = []
    for number in range(4):
        folder = written(tmp_path / str(number), template.copies[-1])
        try:
            kind(folder / "ledger.db", template.copies, random.Random(number))
        except sqlite3.Error:  # not every column can be dropped
            continue
        now = {
            path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()
        }
        changed.append(now != template.copies[-1])
    assert any(changed)


def test_rows_are_reached_by_the_schema(template, tmp_path):
    folder = written(tmp_path / "l", template.copies[-1])
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        tables = ledger_damage._names(connection, "table")
        assert any(
            {"body", "hash"} <= set(ledger_damage._columns(connection, name)) for name in tables
        )


# What is written down


def record(**found):
    outcome = Outcome(name="ledgers", tried=1200, accepted=200, refused=1000, seconds=9.0, found=())
    suite = {"name": "races", "repeated": "20 rounds", "passed": 6}
    return {
        "run": {"date": "2026-11-16", "version": "0", "python": "3", "seed": 7, "seconds": 60.0},
        "fuzzers": [{**vars(outcome), "found": found.get("fuzzers", [])}],
        "suites": [{**suite, "found": found.get("suites", [])}],
    }


def test_the_table_says_what_was_tried_and_found():
    page = f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n"
    quiet = run.rewritten(page, record())
    assert "| ledgers | 1,200 | 200 | 1,000 | 0 |" in quiet
    assert "| races | 20 rounds | 6 | 0 |" in quiet
    assert "Nothing was found." in quiet
    assert "old" not in quiet
    assert quiet.startswith("before\n")
    assert quiet.endswith("after\n")
    loud = run.rewritten(quiet, record(fuzzers=["ledgers, seed 7, case 3: exit 70"]))
    assert "- `ledgers, seed 7, case 3: exit 70`" in loud
    assert "Nothing was found." not in loud


def test_the_same_fuzzer_twice_is_added_up():
    one = Outcome(name="a", tried=2, accepted=1, refused=1, seconds=1.0, found=("x",))
    (both,) = run.joined([one, replace(one, found=("y",))])
    assert (both.tried, both.accepted, both.refused, both.found) == (4, 2, 2, ("x", "y"))


def test_a_fuzzer_that_fails_is_something_found(monkeypatch):
    monkeypatch.setattr(import_module("fuzz.ledger"), "_template", lambda _: 1 / 0)
    (line,) = run.fuzzed("fuzz.ledger", 1, 0.1).found
    assert "ZeroDivisionError" in line


def test_the_page_holds_the_record():
    """Nobody writes the table by hand."""
    kept = json.loads(run.RECORD.read_text("utf-8"))
    assert run.table_of(kept) in run.PAGE.read_text("utf-8")

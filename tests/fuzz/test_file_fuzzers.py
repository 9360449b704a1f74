"""The fuzzers of files can find something, and their slices find nothing."""

import json
import os
import random
import signal

import pytest

from fuzz import data_files, side_files, studies
from fuzz.runner import Case, Said, hunt, problem_of, worker


def said(code, out=b"", err=b""):
    return Said(code=code, out=out, err=err)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (said(70, err=b"privalue: internal error\n"), "exit 70"),
        (said(1, err=b"privalue: x\n"), "exit 1"),
        (said(-signal.SIGSEGV), "signal 11"),
        (said(-1000), "no end"),
        (said(3, err=b"Traceback (most recent call last)\nprivalue: x\n"), "traceback"),
        (said(3), "without one line"),
        (said(3, err=b"privalue: x\nprivalue: y\n"), "without one line"),
        (said(0, out=b"\x1b[2J"), "control character"),
        (said(3, err="privalue: \u202e\n".encode()), "control character"),
        (said(3, err=b"privalue: [data] x\n"), None),
        (said(0, out=b"{}\n"), None),
    ],
)
def test_an_answer_is_judged(answer, problem):
    found = problem_of(answer)
    assert found is None if problem is None else problem in found


def test_rows_that_are_missing_are_found():
    lines = b"trajectory,step,state,reward\n0,0,ill,0\n0,1,ill,0\n\n"
    for rows, fine in ((2, True), (1, False), (3, False)):
        answer = said(0, json.dumps({"rows": rows}).encode())
        assert (data_files.missing_rows("plain.csv", lines, answer) is None) == fine
    less = said(0, json.dumps({"rows": len(data_files.ROWS) - 1}).encode())
    assert data_files.missing_rows("plain.parquet", b"", less) is not None


def test_what_is_found_is_told_with_the_seed_and_the_files_are_kept(tmp_path):
    def case(choose):
        return Case(
            what="a study",
            files={"study.toml": studies.STUDIES[1].encode()},
            arguments=["check", "{}/study.toml", "--json"],
            judge=lambda answer: "it is too good" if json.loads(answer.out)["valid"] else None,
        )

    outcome = hunt("trial", case, 7, None, 2, keep=tmp_path)
    assert outcome.found == ("trial, seed 7, case 0, a study: it is too good",)
    assert (outcome.tried, outcome.accepted, outcome.refused) == (2, 2, 0)
    assert (tmp_path / "trial-7-0" / "study.toml").exists()


def test_a_process_that_dies_is_told_of_and_another_one_goes_on():
    with worker() as process:
        assert process.run(["--version"]).code == 0
        os.kill(process._process.pid, signal.SIGKILL)
        assert process.run(["--version"]).code == -signal.SIGKILL
        assert process.run(["--version"]).code == 0


@pytest.mark.parametrize("fuzzer", [data_files, studies, side_files])
def test_the_same_seed_gives_the_same_cases(fuzzer):
    one, other = (fuzzer.case(random.Random("19-3")) for _ in range(2))
    assert (one.files, one.arguments) == (other.files, other.arguments)

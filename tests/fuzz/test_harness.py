"""The harness finds what it looks for."""

import json
import os
import signal

import pytest

from fuzz import data_files
from fuzz.harness import Answer, Process, command, problem_of


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(70, "", "privalue: internal error\n"), "exit 70"),
        (Answer(1, "", "privalue: x\n"), "exit 1"),
        (Answer(3, "", "Traceback (most recent call last)\nprivalue: x\n"), "traceback"),
        (Answer(3, "", ""), "without one line"),
        (Answer(3, "", "privalue: x\nprivalue: y\n"), "without one line"),
        (Answer(0, "\x1b[2J", ""), "control character"),
        (Answer(3, "", "privalue: \u202e\n"), "control character"),
    ],
)
def test_a_wrong_answer_is_found(answer, problem):
    assert problem in problem_of(answer)


def test_a_process_that_dies_is_found_and_another_one_goes_on():
    with Process() as process:
        assert process.call(os.abort) == (None, f"the process ended with {-signal.SIGABRT}")
        answer, problem = process.call(command, ["--version"])
        assert (answer.code, problem) == (0, None)


def test_missing_rows_are_found():
    lines = b"trajectory,step,state,reward\n0,0,ill,0\n0,1,ill,0\n\n"
    for rows, fine in ((2, True), (1, False), (3, False)):
        answer = Answer(0, json.dumps({"rows": rows}), "")
        assert (data_files.missing_rows("plain.csv", lines, answer) is None) == fine
    less = Answer(0, json.dumps({"rows": len(data_files.ROWS) - 1}), "")
    assert data_files.missing_rows("plain.parquet", b"", less) is not None

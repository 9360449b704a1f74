"""Damaged data, studies and side files are read, or refused in one line."""

import pytest

from fuzz import data_files, side_files, studies
from fuzz.harness import SEED, Process, cases, command, problem_of

KINDS = [data_files, studies, side_files]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_damaged_file_is_read_or_refused_in_one_line(kind, tmp_path):
    """What fails stays in its folder; a flipped bit in a cell is another number, and is read."""
    with Process() as process:
        for number, choose in cases():
            what, files, arguments, judge = kind.case(choose)
            for name, content in files.items():
                (tmp_path / name).write_bytes(content)
            answer, problem = process.call(command, [word.format(tmp_path) for word in arguments])
            problem = problem or problem_of(answer)
            if problem is None and answer.code == 0 and judge is not None:
                problem = judge(answer)
            assert problem is None, f"seed {SEED}, case {number}, {what}: {problem}"
            for name in files:
                (tmp_path / name).unlink()

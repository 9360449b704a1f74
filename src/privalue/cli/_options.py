"""Translate the library's parameters to options of the command line.

An error of the library names a parameter, ``accept_large_delta=True``: a caller in Python can act
on that. On the command line the same error names the option.
"""

import re
from collections.abc import Callable, Mapping


def _megabytes(found: re.Match[str]) -> str:
    """Return the option for so many bytes, rounded up to a megabyte."""
    return f"--memory {-(-int(found[1]) // 1_000_000)}MB"


def _declaration(found: re.Match[str]) -> str:
    """Return the command that declares a total."""
    given = re.sub(r", (\w+)=(\w+)", r" --\1 \2", found[1])
    return f"privalue ledger declare {given}"


_SETTLE = (
    r"\bledger\.settle\((\d+), charge=True, reason=WHY\)"
    r"(, or charge=False if nothing came of it)?"
)


def _settlement(found: re.Match[str]) -> str:
    """Return the command that settles a reservation."""
    cancel = " (or, if nothing came of it, --cancel)" if found[2] else ""
    return f"privalue ledger settle {found[1]} --charge{cancel} --reason WHY"


SAID: Mapping[str, str | Callable[[re.Match[str]], str]] = {
    r"\baccept_large_delta=True": "--accept-large-delta",
    r"\baccept_useless=True": "--anyway",
    r"\bledger=None": "--no-ledger",
    r"\bledger\.declare\(([^)]*)\)": _declaration,
    _SETTLE: _settlement,
    r"\bledger\.show\(DATASET\)": "privalue ledger show",
    r"\bledger=LEDGER\b": "--ledger LEDGER",
    r"\bprivalue\.finish\(OUTBOX\)": "privalue ledger finish OUTBOX",
    r"\bledger\.verify\(\)": "privalue ledger verify",
    r"\bseal=FILE": "--seal FILE",
    r"\bledger\.accept_head\(reason=WHY\)": "privalue ledger accept-head --reason WHY",
    r"\bmemory=(\d+)": _megabytes,
    r"\bmemory=": "--memory",
    r"\bthreads=": "--threads ",
    r"\breplace=True": "--replace",
    r"\badd_deltas=True": "--add-deltas",
    r"\bplain_epsilon=(\w+),?": r"--plain-epsilon \1",
    r"\bplain_delta=(\w+)": r"--plain-delta \1",
    r"\bplain_epsilon\b": "--plain-epsilon",
    r"\bplain_delta\b": "--plain-delta",
    r'\baccounting="(\w+)"': r"--accounting \1",
    r"(?<=never overwritten; give another folder)(?!:)": ": --out DIR",
    r"\bside_files=": "--side-files ",
    r"\btrajectories=M\b": "--trajectories M",
    r"\bworld=WORLD\b": "--world",
    r"\bsteps=(-?\w+)": r"--steps \1",
    r", or give columns=\{[^}]*\}": "",  # the study says it, on the command line
    r"\btarget_rmse=([\w.-]+)": r"--target-rmse \1",
    r"\bsolve='(\w*)'": r"--solve \1",
    r"\bdraws=(-?\d+)": r"--draws \1",
    r"\b(https?|ftp|s3|gs|hdfs):/(?=[^/])": r"\1://",  # as it was before it was a path
}


def in_options(message: str) -> str:
    """Return the same message, with options in place of parameters.

    >>> in_options("rows take 70 MB; give memory=70000001")
    'rows take 70 MB; give --memory 71MB'
    """
    for parameter, option in SAID.items():
        message = re.sub(parameter, option, message)
    return message

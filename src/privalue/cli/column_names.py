"""Guess the roles of columns from their names alone, without reading a row.

A name is split into words, regardless of case and separators: ``StayID`` and ``stay-id`` are stay
and id. A match of the whole name (``t``, ``obs``) ranks above a match of its last meaningful word
(``visit_date`` is a date, ``patient number`` a patient). If several columns match a role equally
well, or none does, the role remains a question for the author of the study. The words of roles and
the questions are in ``column_names.toml``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privalue.errors import read_texts

Key = tuple[str, str]  # section and key of a study
QUESTION = "?"  # stands for a missing answer in a study file
ROLES = ("person", "trajectory", "step", "state", "reward", "truncated")
_TEXTS = read_texts(__file__, "column_names.toml")
_ROLE_OF = {word: role for role in ROLES for word in _TEXTS["words"][role].split()}
_MEANINGLESS = set(_TEXTS["words"]["meaningless"].split())


def _by_key(table: str) -> dict[Key, str]:
    sections = _TEXTS[table].items()
    return {(section, key): text for section, keys in sections for key, text in keys.items()}


_ALWAYS, _QUESTIONS, _HINTS = map(_by_key, ("always", "questions", "hints"))


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """The result of guessing: TOML values for keys, and the questions that are left."""

    columns: Mapping[str, str]  # role: name
    values: Mapping[Key, str]
    questions: Mapping[Key, str]
    hints: Mapping[Key, str]  # questions that need no answer
    unread: Sequence[str]


def guess(names: Sequence[str], heading: Mapping[str, str] | None = None) -> Guesses:
    """Guess the roles of columns, and the questions that remain.

    Args:
        names: of all columns, in order.
        heading: "delimiter" and "encoding" of a CSV file's heading.

    >>> guess(["patient_id", "visit_date", "ward", "score"]).columns
    {'person': 'patient_id', 'step': 'visit_date', 'state': 'ward', 'reward': 'score'}
    """
    matches = {role: _best_matches(names, role) for role in ROLES}
    columns = {role: best[0] for role, best in matches.items() if len(best) == 1}
    values = {("data", role): _quote(name) for role, name in columns.items()}
    open_keys = list[Key]()  # no column's name is in a question: without a heading it is a cell
    hint_columns: dict[Key, str] = {("states", "ends"): ""}
    for role, best in matches.items():
        # A column of persons is optional; with one, the column of trajectories is optional.
        is_optional = role in {"person", "truncated"}
        is_optional |= role == "trajectory" and bool(matches["person"])
        if role not in columns and (best or not is_optional):
            open_keys.append(("data", role))
    if not matches["person"]:
        open_keys.append(("privacy", "unit"))
    else:
        values["privacy", "unit"] = '"person"'
    if matches["person"] and matches["trajectory"]:
        open_keys.append(("privacy", "max_trajectories_per_person"))
    elif matches["person"]:
        hint_columns["data", "trajectory"] = ""
    if matches["truncated"]:
        open_keys.append(("data", "truncated_rows"))
    for key, text in (heading or {}).items():
        values["data", key] = _quote(text)
        if key == "encoding" and not text.startswith("utf"):  # others fit any bytes
            hint_columns["data", key] = text
    times = [word for word in _words(columns.get("step", "")) if word in _TEXTS["times"]]
    if times:
        hint_columns["data", "step_type"] = join_columns([columns["step"]])
        if _TEXTS["times"][times[-1]]:
            values["data", "step_type"] = _quote(_TEXTS["times"][times[-1]])
    questions = _ALWAYS | {key: _QUESTIONS[key] for key in open_keys}
    return Guesses(
        columns=columns,
        values=values | dict.fromkeys(questions, _quote(QUESTION)),
        questions=questions,
        hints={key: _HINTS[key].format(about) for key, about in hint_columns.items()},
        unread=[name for name in names if name not in columns.values()],
    )


def _best_matches(names: Sequence[str], role: str) -> list[str]:
    """Return the columns that match a role best."""
    ranks = {name: match[1] for name in names if (match := _match(name)) and match[0] == role}
    return [name for name, rank in ranks.items() if rank == min(ranks.values())]


def _match(name: str) -> tuple[str, int] | None:
    """Return the role that a name matches, and its rank: a smaller number is a better match."""
    words = _words(name)
    meaningful = [word for word in words if word not in _MEANINGLESS]
    if not meaningful:
        return ("trajectory", 3) if words else None  # an id of something unnamed
    whole = "".join(words)
    if whole in ROLES:
        return whole, 0
    if words[-1] in {"id", "nr"} and meaningful[-1] == "visit":
        return "trajectory", 1  # an id of visits, not their number in order
    for rank, word in ((1, whole), (1, "".join(meaningful)), (2, meaningful[-1])):
        if word in _ROLE_OF and (rank == 1 or len(word) > 2):
            return _ROLE_OF[word], rank
    return None


def _words(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = re.findall(r"[^\W\d_]+|\d+", separated.lower())
    if len(words) == 1:  # patientid, subjectnr
        match = re.fullmatch(rf"(\w{{3,}})({'|'.join(_MEANINGLESS)})", words[0])
        if match is not None and match[1] in _ROLE_OF:
            return [match[1], match[2]]
    return words


def join_columns(names: Sequence[str], most: int = 12) -> str:
    """Return names in one line; if there are very many, only the first ones."""
    rest = f", and {len(names) - most} more" if len(names) > most else ""
    printable = ("".join(c if c.isprintable() else " " for c in name) for name in names[:most])
    return ", ".join(printable) + rest


def _quote(text: str) -> str:
    """Return a text as a TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
